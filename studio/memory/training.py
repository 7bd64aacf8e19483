"""Memory of a training step in closed form: under two milliseconds, for every move of a slider.

The highest moment is looked for at the corners of the step: end of the forward pass, start and end of the
backward pass through decoder and encoder, optimizer step, and generation in evaluation. Weights, gradients
and optimizer states are exact; the rest was fitted to traces of the real step (see `activations`).
"""

from dataclasses import dataclass

from studio.memory.activations import arithmetic, layer_bytes, reentrant_leak_bytes
from studio.memory.inference import generation_bytes
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.weights import DTYPE_BYTES, StaticBytes, static_bytes
from studio.registry.parameters import tensors
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes, format_count

_HEAD_BYTES = 12.1
"""Per logit: half and float32 copies under autocast, logits and log-probabilities in float32 without."""
_HEAD_BYTES_HALF = 6.1
_MEL_FRAMES = 3000


@dataclass(frozen=True)
class _Step:
    """Sizes that the corners are made of, in bytes."""

    static: StaticBytes
    audio: float
    """Numbers in one hidden state of the encoder (batch × positions × d_model)."""
    tokens: float
    """Numbers in one hidden state of the decoder."""
    encoder_layer: float
    decoder_layer: float
    stem: float
    casts: float
    layer_cast: float
    logits: float
    embedding_gradient: float
    decoder_gradients: float
    tied_gradients: int
    """Copies of the embedding's gradient that meet where output projection and embedding are tied."""
    half: float
    """Width of the arithmetic in units of half precision: 1, or 2 for float32."""
    stream: int
    """Bytes of a number in the residual stream."""
    boundary: int
    """Bytes of a number that checkpointing keeps at the border of a layer."""
    leak: float


Parts = dict[Part, float]


def estimate_training(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """Bytes on the device at the highest moment of a training run, part by part."""
    step = _measure(plan, dimensions)
    corners = (
        _checkpointed(step, dimensions) if plan.gradient_checkpointing else _kept(step, plan, dimensions)
    )
    if plan.gradient_accumulation_steps > 1:
        # From the second micro-batch on, the sum of the gradients is there during the forward pass, too.
        corners = [(phase, parts | {Part.GRADIENTS: step.static.gradients}) for phase, parts in corners]
    optimizer: Parts = {
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: step.static.optimizer_temporaries,
    }
    corners.append((Phase.OPTIMIZER_STEP, optimizer))
    if plan.eval_batch_size:
        corners.append((Phase.EVALUATION, _evaluation(plan, dimensions)))
    constant: Parts = {
        Part.WEIGHTS_TRAINABLE: step.static.weights_trainable,
        Part.WEIGHTS_FROZEN: step.static.weights_frozen,
        Part.WEIGHTS_QUANTIZED: step.static.weights_quantized,
        Part.OPTIMIZER_STATES: step.static.optimizer_states,
    }
    return assemble(
        [(phase, constant | parts) for phase, parts in corners],
        _formulas(plan, dimensions, step),
        trainable_parameters=step.static.trainable_parameters,
        all_parameters=step.static.all_parameters,
        has_checkpointing=plan.gradient_checkpointing,
        is_emulated=plan.quantization != "none" or plan.method in ("dora", "adalora"),
    )


def _measure(plan: TrainingPlan, dimensions: ModelDimensions) -> _Step:
    d = dimensions.d_model
    kind = arithmetic(plan)
    static = static_bytes(plan, dimensions)
    audio = float(plan.batch_size * dimensions.max_source_positions * d)
    tokens = float(plan.batch_size * plan.label_length * d)
    layers = layer_bytes(plan, dimensions)
    is_full = not plan.is_adapter
    width = DTYPE_BYTES[plan.base_dtype] if is_full else 4
    embedding = dimensions.vocab_size * d * width if is_full else 0
    decoder_gradients = (
        sum(group.total for group in tensors(dimensions) if group.half == "decoder" and group.is_layer)
        * width
        if is_full
        else 0
    )
    half_stream = kind == "full_half" or (
        plan.gradient_checkpointing and plan.is_adapter and plan.base_dtype != "fp32"
    )
    return _Step(
        static=static,
        audio=audio,
        tokens=tokens,
        encoder_layer=layers.encoder,
        decoder_layer=layers.decoder,
        stem=_stem_bytes(plan, dimensions, audio),
        casts=_cast_bytes(plan, dimensions),
        layer_cast=_layer_cast_bytes(plan, dimensions),
        logits=tokens
        / d
        * dimensions.vocab_size
        * (_HEAD_BYTES_HALF if kind == "full_half" else _HEAD_BYTES),
        embedding_gradient=embedding,
        decoder_gradients=decoder_gradients,
        tied_gradients=2 if plan.is_autocast and kind != "full_half" else 3,
        half=1.0 if plan.is_autocast else 2.0,
        stream=2 if kind == "full_half" else 4,
        boundary=2 if half_stream else 4,
        leak=reentrant_leak_bytes(plan, dimensions),
    )


def _stem_bytes(plan: TrainingPlan, dimensions: ModelDimensions, audio: float) -> float:
    """What the two convolutions keep, with the features and the last hidden state of the encoder."""
    features = float(plan.batch_size * dimensions.num_mel_bins * _MEL_FRAMES)
    kind = arithmetic(plan)
    if plan.method == "frozen_encoder":
        return 4 * audio + 4 * features
    if not plan.is_adapter or plan.gradient_checkpointing:
        if plan.is_adapter and plan.base_dtype != "fp32":
            return 10 * audio + 4 * features
        if kind == "full_half":
            return 14 * audio + 4 * features
        return (
            (10 if plan.is_autocast else 20) * audio + 8 * audio + (6 if plan.is_autocast else 4) * features
        )
    return 8 * audio + 4 * features


def _casted(dimensions: ModelDimensions, halves: tuple[str, ...]) -> int:
    """Numbers of the weights that autocast copies: all but positions."""
    return sum(
        group.total
        for group in tensors(dimensions)
        if group.half in halves and not (group.is_embedding and group.name == "embed_positions")
    )


def _cast_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """Half-precision copies of float32 weights that live until the backward pass."""
    if not plan.is_autocast or plan.base_dtype != "fp32":
        return 0.0
    if plan.quantization != "none":
        return 2.0 * dimensions.vocab_size * dimensions.d_model
    if plan.method == "frozen_encoder":
        return 2.0 * _casted(dimensions, ("decoder",))
    if plan.is_adapter and plan.gradient_checkpointing:
        return 2.0 * dimensions.vocab_size * dimensions.d_model
    return 2.0 * _casted(dimensions, ("encoder", "decoder"))


def _layer_cast_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """Copies of one layer's weights while it is computed again."""
    if not plan.is_autocast or plan.base_dtype != "fp32" or plan.quantization != "none":
        return 0.0
    return 2.0 * (4 * dimensions.d_model**2 + 2 * dimensions.d_model * dimensions.encoder_ffn_dim)


def _kept(step: _Step, plan: TrainingPlan, dimensions: ModelDimensions) -> list[tuple[Phase, Parts]]:
    """Corners of a step that keeps its activations."""
    encoder = dimensions.encoder_layers * step.encoder_layer
    decoder = dimensions.decoder_layers * step.decoder_layer
    forward: Parts = {
        Part.ACTIVATIONS: encoder + decoder + step.stem,
        Part.WEIGHT_CASTS: step.casts,
        Part.LOGITS_AND_LOSS: step.logits,
    }
    end: Parts = {
        Part.ACTIVATIONS: step.stem,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: 22 * step.audio * step.half,
    }
    corners = [(Phase.FORWARD, forward), (Phase.BACKWARD, end)]
    if not plan.is_adapter:
        ties = step.tied_gradients * step.embedding_gradient
        encoder_casts = 2.0 * _casted(dimensions, ("encoder",)) if step.casts else 0.0
        if plan.method == "frozen_encoder":
            encoder_casts = 0.0
        between: Parts = {
            Part.ACTIVATIONS: encoder + step.stem,
            Part.WEIGHT_CASTS: encoder_casts,
            Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
            Part.TEMPORARIES: ties - step.embedding_gradient + 2 * step.stream * step.audio,
        }
        corners.append((Phase.BACKWARD, between))
    return corners


def _checkpointed(step: _Step, dimensions: ModelDimensions) -> list[tuple[Phase, Parts]]:
    """Corners of a step that keeps only the borders of layers and computes the rest again."""
    encoder = dimensions.encoder_layers * step.boundary * step.audio
    decoder = dimensions.decoder_layers * step.boundary * step.tokens
    borders = encoder + decoder + step.stem + step.leak
    again_encoder = step.encoder_layer + 14 * step.audio * step.half
    again_decoder = step.decoder_layer + 14 * step.tokens + 3 * step.stream * step.audio
    tied = (step.tied_gradients - 1) * step.embedding_gradient
    forward: Parts = {
        Part.ACTIVATIONS: borders,
        Part.WEIGHT_CASTS: step.casts,
        Part.LOGITS_AND_LOSS: step.logits,
    }
    in_decoder: Parts = {
        Part.ACTIVATIONS: borders,
        Part.WEIGHT_CASTS: 1.3 * step.layer_cast,
        Part.GRADIENTS: step.embedding_gradient,
        Part.TEMPORARIES: again_decoder,
    }
    in_encoder: Parts = {
        Part.ACTIVATIONS: encoder + step.stem + step.leak,
        Part.WEIGHT_CASTS: step.layer_cast,
        Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
        Part.TEMPORARIES: again_encoder + step.stream * step.audio,
    }
    at_tie: Parts = {
        Part.ACTIVATIONS: encoder + step.stem,
        Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
        Part.TEMPORARIES: tied + 2 * step.stream * step.audio,
    }
    end: Parts = {
        Part.ACTIVATIONS: step.stem,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: 2 * step.stream * step.audio + 0.55 * again_encoder,
    }
    return [(Phase.FORWARD, forward), *((Phase.BACKWARD, c) for c in (in_decoder, in_encoder, at_tie, end))]


def _evaluation(plan: TrainingPlan, dimensions: ModelDimensions) -> Parts:
    """Generation between two epochs: gradients are gone, weights and optimizer states stay."""
    width = 2 if plan.is_autocast or plan.base_dtype != "fp32" else 4
    encoding, decoding = generation_bytes(
        dimensions,
        width=width,
        batch_size=plan.eval_batch_size,
        num_beams=plan.generation_num_beams,
        length=plan.generation_max_length,
    )
    labels = plan.eval_batch_size * plan.label_length * dimensions.vocab_size
    casts = 2.0 * _casted(dimensions, ("encoder", "decoder")) if _cast_bytes(plan, dimensions) else 0.0
    return {
        Part.ACTIVATIONS: max(encoding, decoding),
        Part.WEIGHT_CASTS: casts,
        Part.LOGITS_AND_LOSS: _HEAD_BYTES * labels,
    }


def _formulas(plan: TrainingPlan, dimensions: ModelDimensions, step: _Step) -> dict[Part, str]:
    """The arithmetic of each part with its numbers, for people."""
    d = dimensions
    static = step.static
    count = f"{static.trainable_parameters:,} trained parameters"
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.base_dtype]
    frozen = f"{static.all_parameters - static.trainable_parameters:,} frozen parameters"
    keeps = (
        f"{d.encoder_layers} + {d.decoder_layers} borders of layers, one layer computed again at a time"
        if plan.gradient_checkpointing
        else f"{d.encoder_layers} × {format_bytes(step.encoder_layer)} (encoder layers) + "
        f"{d.decoder_layers} × {format_bytes(step.decoder_layer)} (decoder layers) + "
        f"{format_bytes(step.stem)} (input)"
    )
    return {
        Part.WEIGHTS_TRAINABLE: f"{count} × {width} B",
        Part.WEIGHTS_FROZEN: f"{frozen}, {plan.base_dtype} unless quantised: "
        f"{format_bytes(static.weights_frozen)}",
        Part.WEIGHTS_QUANTIZED: f"linear layers in {plan.quantization}: "
        f"{format_bytes(static.weights_quantized)}",
        Part.WEIGHT_CASTS: f"{plan.precision} copies of float32 weights: {format_bytes(step.casts)} at the "
        "end of the forward pass",
        Part.GRADIENTS: f"{count} × {width} B = {format_bytes(static.gradients)} at the end of the "
        "backward pass",
        Part.OPTIMIZER_STATES: f"{plan.optimizer} for {format_count(static.trainable_parameters)} weights: "
        f"{format_bytes(static.optimizer_states)}",
        Part.ACTIVATIONS: f"batch {plan.batch_size}: {keeps}",
        Part.LOGITS_AND_LOSS: f"{plan.batch_size} clips × {plan.label_length} tokens × {d.vocab_size:,} "
        f"entries × 12 B = {format_bytes(step.logits)} at the end of the forward pass",
        Part.TEMPORARIES: "what one layer or the optimizer step needs for a moment",
    }
