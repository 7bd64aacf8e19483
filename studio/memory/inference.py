"""Memory of transcribing: weights, one encoder layer at work, and the caches of the decoder.

Checked against public measurements of large-v2, large-v3, turbo and distil-large-v3 (see the tests). What
transformers needs is counted; for CTranslate2, which manages memory itself, two constants were fitted.
"""

import dataclasses

from studio.memory.inference_plan import WIDTHS, InferencePlan
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.weights import adapter_tensors, quantized_bytes
from studio.messages import Message
from studio.options.choices import DTYPES, FASTER_WHISPER, TRANSFORMERS
from studio.registry.parameters import count_parameters, tensors
from studio.registry.spec import ModelDimensions
from studio.units import GIB, MIB, format_bytes, format_count

BATCHED_TEXT_TOKENS = 100
"""Text of 30 seconds: 150 words a minute, four tokens for three words. Windows of a batch hold no more than
that; a window on its own also has the text before it as a prompt, and may fill all positions."""

_LAYER_STATES = 10
"""Hidden states alive in an encoder layer: input, residual, and twice the four-fold feed-forward."""
_CTRANSLATE2_CONTEXT_BYTES = 510 * MIB
"""CUDA context, cuBLAS and kernels of CTranslate2. Fitted, with the share below, to 13 public figures."""
_CTRANSLATE2_SHARE = 0.19
"""More than the bytes of its weights that CTranslate2 takes for them and for what its allocator keeps."""
_CTRANSLATE2_ERROR = 0.10
"""All 13 are met within that; the worst by 7.4 %."""
_CONTEXT_SPREAD_BYTES = round(0.3 * GIB)
"""How much more the context takes on another card or driver."""


def cross_cache_bytes(dimensions: ModelDimensions, width: int) -> int:
    """Keys and values of the encoder's states for one window: 246 MB for large in half precision."""
    return 2 * dimensions.decoder_layers * dimensions.max_source_positions * dimensions.d_model * width


def self_cache_bytes(dimensions: ModelDimensions, length: int, width: int) -> int:
    """Keys and values of the text so far, for one beam of one window: grows linearly with its length."""
    return 2 * dimensions.decoder_layers * length * dimensions.d_model * width


def _generation_bytes(
    plan: InferencePlan, dimensions: ModelDimensions, length: int, beams_of_sound: int
) -> tuple[int, int]:
    """Live tensors while transformers encodes, and while it decodes, without the weights.

    `beams_of_sound`: how many keep keys and values of a window's sound (see `studio.whisper.shared_sound`).
    """
    width, length = WIDTHS[plan.precision], min(length, dimensions.max_target_positions)
    audio = plan.batch_size * dimensions.max_source_positions * dimensions.d_model * width
    features = 4 * plan.batch_size * 3000 * dimensions.num_mel_bins
    rows = plan.batch_size * plan.num_beams
    sound = plan.batch_size * beams_of_sound * cross_cache_bytes(dimensions, width)
    caches = sound + rows * self_cache_bytes(dimensions, length, width)
    # Beams are given the encoder's states of their own; scores are float32, sorted as copies.
    decoding = caches + (plan.num_beams + 1) * audio + 4 * 4 * rows * dimensions.vocab_size
    return _LAYER_STATES * audio + features, decoding + features


def text_tokens(plan: InferencePlan) -> int:
    """Tokens of text that a window is expected to hold."""
    return plan.max_length if plan.batch_size == 1 else min(plan.max_length, BATCHED_TEXT_TOKENS)


def estimate_inference(
    plan: InferencePlan, dimensions: ModelDimensions, text_length: int | None = None
) -> MemoryEstimate:
    """Bytes on the device at the highest moment of transcribing, part by part.

    The middle of the range expects so many tokens of text in each window, or an ordinary amount; its high end
    expects every window to be filled with it, as happens when a model repeats itself.
    """
    estimate = ESTIMATES[plan.engine]
    expected = estimate(plan, dimensions, text_tokens(plan) if text_length is None else text_length)
    return dataclasses.replace(expected, high_bytes=estimate(plan, dimensions, plan.max_length).high_bytes)


def _transformers(plan: InferencePlan, dimensions: ModelDimensions, length: int) -> MemoryEstimate:
    """An adapter stays beside the base, in float32."""
    parameters = count_parameters(dimensions)
    adapter = _adapter_parameters(plan, dimensions)
    width = WIDTHS[plan.precision]
    beams_of_sound = 1 if plan.shares_sound else plan.num_beams
    encoding, decoding = _generation_bytes(plan, dimensions, length, beams_of_sound)
    packed = quantized_bytes(plan.quantization, dimensions)
    linear = sum(group.total for group in tensors(dimensions) if group.is_linear) if packed else 0
    weights = {
        Part.WEIGHTS_FROZEN: float((parameters - linear) * width + 4 * adapter),
        Part.WEIGHTS_QUANTIZED: float(packed),
    }
    workspace, how = _quantized_workspace(plan, dimensions)
    floats = Message("{count} parameters × {width} B", count=f"{parameters - linear:,}", width=width)
    if adapter:
        count = format_count(adapter)
        floats = Message("{formula} + {count} of an adapter × 4 B", formula=floats, count=count)
    return assemble(
        [
            (Phase.ENCODING, {**weights, Part.ACTIVATIONS: encoding, Part.TEMPORARIES: workspace}),
            (Phase.DECODING, {**weights, Part.ACTIVATIONS: decoding}),
        ],
        {
            Part.WEIGHTS_FROZEN: floats,
            Part.WEIGHTS_QUANTIZED: Message(
                "{count} parameters of linear layers in {quantization}, with their scales: {size}",
                count=f"{linear:,}",
                quantization=plan.quantization,
                size=format_bytes(packed),
            ),
            Part.ACTIVATIONS: _caches_text(plan, dimensions, length, beams_of_sound),
            **({Part.TEMPORARIES: how} if how else {}),
        },
        trainable_parameters=0,
        all_parameters=parameters + adapter,
        is_emulated=bool(packed),
    )


def _quantized_workspace(plan: InferencePlan, dimensions: ModelDimensions) -> tuple[float, Message | None]:
    """What bitsandbytes needs for the largest product of an encoder layer, and how it comes about.

    8 bits: the input in int8, and the product in int32 before it is float16 (`int8_linear_matmul`).
    4 bits: the weight itself, unpacked (`dequantize_4bit`).
    """
    d = dimensions
    rows = plan.batch_size * d.max_source_positions
    if plan.quantization == "8bit":
        size = rows * (d.d_model + 4 * d.encoder_ffn_dim)
        return size, Message(
            "the widest product of a layer in int32: {rows} positions × ({width} × 1 B + {inner} × 4 B)",
            rows=f"{rows:,}",
            width=f"{d.d_model:,}",
            inner=f"{d.encoder_ffn_dim:,}",
        )
    if plan.quantization == "4bit":
        width = WIDTHS[plan.precision]
        size = d.d_model * d.encoder_ffn_dim * width
        return size, Message(
            "largest weight, dequantized: {rows} × {columns} × {width} B",
            rows=f"{d.d_model:,}",
            columns=f"{d.encoder_ffn_dim:,}",
            width=width,
        )
    return 0.0, None


def _ctranslate2(plan: InferencePlan, dimensions: ModelDimensions, length: int) -> MemoryEstimate:
    """An adapter has been merged into the weights when a model is exported."""
    parameters = count_parameters(dimensions)
    floats, quantized = _weights(plan, dimensions)
    encoding, decoding = _ctranslate2_bytes(plan, dimensions, length)
    weights = floats + quantized
    activations = max(encoding, decoding)
    slack = round(_CTRANSLATE2_SHARE * weights)
    allocated = weights + activations
    device = allocated + slack + _CTRANSLATE2_CONTEXT_BYTES
    parts = {
        Part.WEIGHTS_FROZEN: floats,
        Part.WEIGHTS_QUANTIZED: quantized,
        Part.ACTIVATIONS: activations,
        Part.OVERHEAD: slack + _CTRANSLATE2_CONTEXT_BYTES,
    }
    return MemoryEstimate(
        parts={part: parts.get(part, 0) for part in Part},
        formulas={
            Part.WEIGHTS_FROZEN: Message(
                "{size} of {count} parameters held as floats",
                size=format_bytes(floats),
                count=f"{parameters:,}",
            ),
            Part.WEIGHTS_QUANTIZED: Message("matrices in int8: {size}", size=format_bytes(quantized)),
            Part.ACTIVATIONS: _caches_text(plan, dimensions, length, beams_of_audio=1),
            Part.OVERHEAD: Message(
                "{share} of the weights + {context}",
                share=f"{_CTRANSLATE2_SHARE:.0%}",
                context=format_bytes(_CTRANSLATE2_CONTEXT_BYTES),
            ),
        },
        phases={Phase.ENCODING: weights + encoding, Phase.DECODING: weights + decoding},
        peak_phase=Phase.ENCODING if encoding > decoding else Phase.DECODING,
        allocated_bytes=allocated,
        reserved_bytes=allocated + slack,
        device_bytes=device,
        low_bytes=round(device * (1 - _CTRANSLATE2_ERROR)),
        high_bytes=round(device * (1 + _CTRANSLATE2_ERROR)) + _CONTEXT_SPREAD_BYTES,
        trainable_parameters=0,
        all_parameters=parameters,
    )


def _caches_text(
    plan: InferencePlan, dimensions: ModelDimensions, length: int, beams_of_audio: int
) -> Message:
    """The caches in numbers, for people."""
    width = WIDTHS[plan.precision]
    length = min(length, dimensions.max_target_positions)
    return Message(
        "batch {batch} × ({audio_beams} × {audio} for the audio + {beams} × {text} for {tokens} tokens), or "
        "one encoder layer at work if that is more",
        batch=plan.batch_size,
        audio_beams=beams_of_audio,
        audio=format_bytes(cross_cache_bytes(dimensions, width)),
        beams=plan.num_beams,
        text=format_bytes(self_cache_bytes(dimensions, length, width)),
        tokens=length,
    )


def _adapter_parameters(plan: InferencePlan, dimensions: ModelDimensions) -> int:
    if not plan.adapter_rank:
        return 0
    as_trained = TrainingPlan(lora_r=plan.adapter_rank, target_modules=plan.adapter_modules)
    return sum(group.total for group in adapter_tensors(as_trained, dimensions))


def _weights(plan: InferencePlan, dimensions: ModelDimensions) -> tuple[int, int]:
    """Bytes of weights held as floats, and as int8 with a float32 scale a row."""
    if plan.precision in DTYPES:
        return count_parameters(dimensions) * WIDTHS[plan.precision], 0
    floats = quantized = 0
    for group in tensors(dimensions):
        if group.is_linear or group.name == "embed_tokens":
            quantized += group.count * (group.size + 4 * group.shape[0])
        else:
            floats += group.total * WIDTHS[plan.precision]
    return floats, quantized


def _ctranslate2_bytes(plan: InferencePlan, dimensions: ModelDimensions, length: int) -> tuple[int, int]:
    """CTranslate2 writes attention scores out (before and after softmax), and its beams share the audio's
    cache."""
    d = dimensions
    width = WIDTHS[plan.precision]
    audio = plan.batch_size * d.max_source_positions * d.d_model * width
    scores = plan.batch_size * d.encoder_attention_heads * d.max_source_positions**2 * width
    text = self_cache_bytes(d, min(length, d.max_target_positions), width)
    decoding = plan.batch_size * (cross_cache_bytes(d, width) + plan.num_beams * text) + audio
    return 2 * scores + _LAYER_STATES * audio, decoding


ESTIMATES = {TRANSFORMERS: _transformers, FASTER_WHISPER: _ctranslate2}
"""Engine → what it needs with a text so long in each window."""
