"""Memory of transcribing: weights, one encoder layer at work, and the caches of the decoder.

Checked against public measurements of large-v2, large-v3, turbo and distil-large-v3 (see the tests).
"""

from studio.memory.overhead import assemble
from studio.memory.plan import InferencePlan, MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.weights import adapter_tensors
from studio.registry.parameters import count_parameters, tensors
from studio.registry.spec import ModelDimensions
from studio.units import MIB, format_bytes, format_count

_LAYER_STATES = 10
"""Hidden states alive in an encoder layer: input, residual, and twice the four-fold feed-forward."""
_CTRANSLATE2_POOL_BYTES = {"fp32": 350 * MIB, "fp16": 350 * MIB, "bf16": 350 * MIB, "int8": 200 * MIB}
"""What CTranslate2 keeps beside its tensors (cuBLAS, cached blocks), fitted to public measurements."""
_WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 2}
"""Bytes of a number in activations and caches; int8 is of weights only."""


def cross_cache_bytes(dimensions: ModelDimensions, width: int) -> int:
    """Keys and values of the encoder's states for one window: 246 MB for large in half precision."""
    return 2 * dimensions.decoder_layers * dimensions.max_source_positions * dimensions.d_model * width


def self_cache_bytes(dimensions: ModelDimensions, length: int, width: int) -> int:
    """Keys and values of the text so far, for one beam of one window: grows linearly with its length."""
    return 2 * dimensions.decoder_layers * length * dimensions.d_model * width


def generation_bytes(
    dimensions: ModelDimensions, *, width: int, batch_size: int, num_beams: int, length: int
) -> tuple[int, int]:
    """Live tensors while transformers encodes, and while it decodes, without the weights."""
    length = min(length, dimensions.max_target_positions)
    audio = batch_size * dimensions.max_source_positions * dimensions.d_model * width
    features = 4 * batch_size * 3000 * dimensions.num_mel_bins
    rows = batch_size * num_beams
    caches = cross_cache_bytes(dimensions, width) + self_cache_bytes(dimensions, length, width)
    # Beams are given the encoder's states and caches of their own; scores are float32, sorted as copies.
    decoding = rows * caches + (num_beams + 1) * audio + 4 * 4 * rows * dimensions.vocab_size
    return _LAYER_STATES * audio + features, decoding + features


def estimate_inference(plan: InferencePlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """Bytes on the device at the highest moment of transcribing, part by part."""
    parameters = count_parameters(dimensions)
    adapter = 0
    if plan.adapter_rank:
        as_trained = TrainingPlan(lora_r=plan.adapter_rank, target_modules=plan.adapter_modules)
        adapter = sum(group.total for group in adapter_tensors(as_trained, dimensions))
    width = _WIDTH[plan.precision]
    frozen, quantized = _weights(plan, dimensions)
    if plan.engine == "faster-whisper":
        encoding, decoding = _ctranslate2_bytes(plan, dimensions, width)
    else:
        encoding, decoding = generation_bytes(
            dimensions,
            width=width,
            batch_size=plan.batch_size,
            num_beams=plan.num_beams,
            length=plan.max_length,
        )
    pool = _CTRANSLATE2_POOL_BYTES[plan.precision] if plan.engine == "faster-whisper" else 0
    weights: dict[Part, float] = {
        Part.WEIGHTS_FROZEN: frozen + 4 * adapter,
        Part.WEIGHTS_QUANTIZED: quantized,
        Part.TEMPORARIES: pool,
    }
    cross = cross_cache_bytes(dimensions, width)
    text = self_cache_bytes(dimensions, min(plan.max_length, dimensions.max_target_positions), width)
    return assemble(
        [
            (Phase.ENCODING, weights | {Part.ACTIVATIONS: encoding}),
            (Phase.DECODING, weights | {Part.ACTIVATIONS: decoding}),
        ],
        {
            Part.WEIGHTS_FROZEN: f"{parameters:,} parameters in {plan.precision}, adapter of "
            f"{format_count(adapter)}",
            Part.WEIGHTS_QUANTIZED: f"matrices in int8: {format_bytes(quantized)}",
            Part.ACTIVATIONS: f"batch {plan.batch_size}, beams {plan.num_beams}: {format_bytes(cross)} cache "
            f"of the audio and {format_bytes(text)} of the text each, or one encoder layer at work",
            Part.TEMPORARIES: f"memory that the engine keeps for itself: {format_bytes(pool)}",
        },
        trainable_parameters=0,
        all_parameters=parameters + adapter,
    )


def _weights(plan: InferencePlan, dimensions: ModelDimensions) -> tuple[int, int]:
    """Bytes of weights held as floats, and as int8 with a float32 scale a row."""
    if plan.precision != "int8":
        return count_parameters(dimensions) * _WIDTH[plan.precision], 0
    floats = quantized = 0
    for group in tensors(dimensions):
        if group.is_linear or group.name == "embed_tokens":
            quantized += group.count * (group.size + 4 * group.shape[0])
        else:
            floats += group.total * 2
    return floats, quantized


def _ctranslate2_bytes(plan: InferencePlan, dimensions: ModelDimensions, width: int) -> tuple[int, int]:
    """CTranslate2 writes attention scores out, and shares the audio's cache among beams."""
    d = dimensions
    audio = plan.batch_size * d.max_source_positions * d.d_model * width
    scores = plan.batch_size * d.encoder_attention_heads * d.max_source_positions**2 * width
    length = min(plan.max_length, d.max_target_positions)
    text = plan.batch_size * plan.num_beams * self_cache_bytes(d, length, width)
    decoding = plan.batch_size * cross_cache_bytes(d, width) + text + audio
    return 2 * scores + _LAYER_STATES * audio, decoding
