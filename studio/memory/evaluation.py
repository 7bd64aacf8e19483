"""Memory of an evaluation between two epochs: encode a batch, take the loss of its labels, write its texts.

Gradients are gone by then, and nothing is kept for a backward pass; weights and optimizer states stay. The
layers are those of the training step, played without a tape (`layers`); the caches are counted. Checked
against traces of the same (`trace.evaluation`).
"""

from dataclasses import replace

from studio.memory.inference import cross_cache_bytes, self_cache_bytes
from studio.memory.layers import Pieces
from studio.memory.plan import Part, Parts, TrainingPlan
from studio.memory.weights import DTYPE_BYTES, trainable_tensors
from studio.registry.parameters import tensors
from studio.registry.spec import ModelDimensions
from studio.whisper.audio_context import FRAMES_PER_POSITION, POSITIONS

PROMPT = 4
"""Start, language, task, no timestamps."""


def evaluation_corners(plan: TrainingPlan, dimensions: ModelDimensions) -> list[Parts]:
    """The worst moments of encoding, of the loss and of writing, without weights and optimizer states."""
    d = dimensions
    # In short-audio mode too the base is read with 30 seconds, before the first step.
    evaluated = replace(
        plan,
        batch_size=plan.eval_batch_size,
        gradient_accumulation_steps=1,
        lora_dropout=0.0,
        audio_positions=POSITIONS,
        has_padded_batches=False,
    )
    pieces = Pieces(evaluated, d)
    width = DTYPE_BYTES[plan.arithmetic_dtype]
    audio = float(plan.eval_batch_size * d.max_source_positions * d.d_model)
    features = _features(plan, d)
    encoder_casts, casts = _kept_casts(plan, d)
    embedding = _embedding_cast(plan, d)
    states = audio * pieces.states
    entries = plan.eval_batch_size * (plan.eval_label_length or plan.label_length) * d.vocab_size
    logits = max(
        float(entries * (2 * width + (4 if plan.is_autocast else 0))), float(entries * width) + embedding
    )
    if plan.loss_chunk_size:
        rows = plan.eval_batch_size * (plan.eval_label_length or plan.label_length)
        chunk = min(rows, plan.loss_chunk_size)
        logits = chunk * d.vocab_size * (4.0 if width == 4 else 4.0 + width) + embedding
        logits += d.d_model * (rows * pieces.states + (chunk * width if width != pieces.states else 0))
    return [
        {
            Part.ACTIVATIONS: features + pieces.untaped_layer("encoder") + audio * width,
            Part.WEIGHT_CASTS: encoder_casts,
        },
        {
            Part.ACTIVATIONS: features + states + pieces.untaped_layer("decoder"),
            Part.WEIGHT_CASTS: casts,
        },
        {
            Part.ACTIVATIONS: features + states,
            Part.WEIGHT_CASTS: casts,
            Part.LOGITS_AND_LOSS: logits,
        },
        *_writing(plan, d, pieces, features + states, audio * pieces.states, casts, embedding),
    ]


def _writing(
    plan: TrainingPlan,
    d: ModelDimensions,
    pieces: Pieces,
    held: float,
    states: float,
    casts: float,
    embedding: float,
) -> list[Parts]:
    """When the sound has been read into the last layer's cache, and at the last word of the longest text."""
    # bitsandbytes' layers give out the type that they are given, which is that of a layer norm.
    width = DTYPE_BYTES[plan.arithmetic_dtype if plan.quantization == "none" else "fp32"]
    beams = plan.generation_num_beams
    rows = plan.eval_batch_size * beams
    length = min(PROMPT + plan.generation_max_length, d.max_target_positions)
    shares = plan.attention == "sdpa" and beams > 1  # see `studio.whisper.shared_sound`
    heard = plan.eval_batch_size if shares else rows
    sound = heard * cross_cache_bytes(d, width)
    text = rows * self_cache_bytes(d, length, width)
    copies = states * beams if beams > 1 else 0.0
    # A cache grows by a copy of its keys, then of its values.
    growth = text / d.decoder_layers / 2
    scores = rows * d.vocab_size * (width + 4 + (8 if beams > 1 else 0))
    # Keys and values of the last layer, as heads beside the cache; or its projections, before they are there.
    # Who shares the sound holds those of the layer before.
    one = float(heard * d.max_source_positions * d.d_model * width)
    keys = max(
        2 * one,
        pieces.projected_sound("k_proj", heard) - (0 if shares else 2 * one),
        pieces.projected_sound("v_proj", heard) - (0 if shares else one),
    )
    whole = {Part.ACTIVATIONS: held + copies + sound + text, Part.WEIGHT_CASTS: casts}
    if shares:  # its sound is read before the states are copied
        chosen = rows * d.vocab_size * 12.0
        return [
            {Part.ACTIVATIONS: held + sound, Part.TEMPORARIES: keys, Part.WEIGHT_CASTS: casts},
            {**whole, Part.TEMPORARIES: growth},
            {**whole, Part.LOGITS_AND_LOSS: max(chosen, embedding)},
        ]
    whole[Part.WEIGHT_CASTS] += embedding
    corners: list[Parts] = [
        {**whole, Part.ACTIVATIONS: held + copies + sound, Part.TEMPORARIES: keys},
        {**whole, Part.TEMPORARIES: growth, Part.LOGITS_AND_LOSS: float(scores)},
    ]
    if beams > 1:  # each goes on from another one: its caches are copied
        corners.append({**whole, Part.TEMPORARIES: max(sound, text) / d.decoder_layers / 2})
    return corners


def _features(plan: TrainingPlan, d: ModelDimensions) -> float:
    """As they come, and in the type of the model."""
    numbers = plan.eval_batch_size * d.num_mel_bins * FRAMES_PER_POSITION * d.max_source_positions
    if plan.precision == "pure_bf16":
        return 2.0 * numbers
    return float(numbers * (4 if plan.weights_dtype == "fp32" else 6))


def _kept_casts(plan: TrainingPlan, d: ModelDimensions) -> tuple[float, float]:
    """Copies of trained float32 weights that autocast keeps for the whole batch: encoder's, and all."""
    is_float = plan.is_adapter or plan.weights_dtype == "fp32"
    if not plan.is_autocast or not is_float:
        return 0.0, 0.0
    casted = [g for g in trainable_tensors(plan, d) if len(g.shape) > 1]
    width = DTYPE_BYTES[plan.arithmetic_dtype]
    encoder = width * sum(group.total for group in casted if group.half == "encoder")
    return float(encoder), float(width * sum(group.total for group in casted))


def _embedding_cast(plan: TrainingPlan, d: ModelDimensions) -> float:
    """A frozen float32 embedding is lowered for each use as the output projection."""
    if not plan.is_autocast or not plan.is_adapter or plan.weights_dtype != "fp32":
        return 0.0
    width = DTYPE_BYTES[plan.arithmetic_dtype]
    return float(width * sum(group.total for group in tensors(d) if group.name == "embed_tokens"))
