"""What the forward pass keeps for the backward pass, in closed form.

The coefficients are bytes per number of hidden state, taken from traces of the real training step of
transformers 5.23, PEFT 0.21 and bitsandbytes 0.50 (tensor by tensor, on fake tensors, at several widths,
batches and label lengths; the residual of the fit is below 0.1 bytes). They hold for fused (SDPA)
attention; eager attention adds its score matrices.
"""

from dataclasses import dataclass

from studio.memory.plan import TrainingPlan
from studio.registry.parameters import linear_layers
from studio.registry.spec import ModelDimensions


@dataclass(frozen=True)
class Saved:
    """Bytes kept per number of hidden state (`d_model` × positions × batch) in one layer."""

    encoder: float
    """Encoder layer, over the encoder's positions."""
    cross: float
    """Decoder layer, over the encoder's positions: keys and values of the cross-attention."""
    decoder: float
    """Decoder layer, over the label's tokens."""
    score: float
    """Per attention score (heads × queries × keys × batch), with eager attention only."""


_SAVED: dict[str, Saved] = {
    "full_half_autocast": Saved(42.1, 8.0, 52.7, 5.9),
    "full_fp32": Saved(64.1, 8.0, 81.2, 4.0),
    "full_half": Saved(34.1, 4.0, 42.7, 4.0),
    "adapter_half_autocast": Saved(24.1, 4.0, 32.7, 5.9),
    "adapter_fp32": Saved(40.1, 8.0, 53.2, 4.0),
    "adapter_8bit": Saved(64.1, 8.0, 81.2, 5.9),
    "adapter_4bit": Saved(40.1, 8.0, 53.2, 5.9),
}
"""Before what the adapters themselves keep."""


@dataclass(frozen=True)
class Again:
    """Bytes per number of hidden state that one layer's backward pass needs beside what the layer keeps."""

    plain: float
    """At its highest moment in a layer without an adapter in the feed-forward block."""
    fc1: float
    """With an adapter there."""
    fc2: float
    """With an adapter there: at the first moment, when all that the layer keeps is still alive."""


_AGAIN: dict[str, Again] = {
    "full_half_autocast": Again(8.0, 8.0, 8.0),
    "full_fp32": Again(14.0, 14.0, 14.0),
    "full_half": Again(7.0, 7.0, 7.0),
    "adapter_half_autocast": Again(18.9, 24.9, 48.9),
    "adapter_fp32": Again(32.9, 36.9, 24.9),
    "adapter_8bit": Again(36.9, 42.9, 28.9),
    "adapter_4bit": Again(36.9, 42.9, 42.9),
}
_AGAIN_DORA = 22.0
"""More of it with DoRA."""
_AGAIN_SCORE = 2.2
"""More of it per attention score and byte of the arithmetic, with eager attention."""


def arithmetic(plan: TrainingPlan) -> str:
    """Key of the table: which kinds of tensors a step keeps."""
    if plan.quantization != "none":
        return f"adapter_{plan.quantization}"
    kind = "adapter" if plan.is_adapter else "full"
    if not plan.is_adapter and plan.base_dtype != "fp32":
        return "full_half"
    return f"{kind}_half_autocast" if plan.is_autocast else f"{kind}_fp32"


def saved(plan: TrainingPlan) -> Saved:
    """Coefficients of the plan."""
    return _SAVED[arithmetic(plan)]


@dataclass(frozen=True)
class LayerBytes:
    """Bytes that one layer keeps for the backward pass."""

    encoder: float
    decoder: float


def layer_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> LayerBytes:
    """What one encoder layer and one decoder layer keep; a frozen encoder keeps nothing."""
    table = saved(plan)
    audio = plan.batch_size * dimensions.max_source_positions
    tokens = plan.batch_size * plan.label_length
    encoder = table.encoder * audio * dimensions.d_model
    decoder = (table.cross * audio + table.decoder * tokens) * dimensions.d_model
    if plan.attention == "eager":
        positions = dimensions.max_source_positions
        encoder += table.score * audio * dimensions.encoder_attention_heads * positions
        keys = positions + plan.label_length
        decoder += table.score * tokens * dimensions.decoder_attention_heads * keys
    if plan.is_adapter:
        for linear in linear_layers(dimensions):
            if linear.name in plan.target_modules:
                reads_audio = linear.half == "encoder" or (
                    linear.block == "encoder_attn" and linear.name in ("k_proj", "v_proj")
                )
                kept = (audio if reads_audio else tokens) * _adapter_bytes(plan, linear.in_features)
                if plan.method == "dora":
                    kept += (audio if reads_audio else tokens) * _dora_bytes(plan, linear.out_features)
                if linear.half == "encoder":
                    encoder += kept
                else:
                    decoder += kept
    if plan.method == "frozen_encoder":
        encoder = 0.0
    return LayerBytes(encoder, decoder)


def again_encoder_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """The most that the backward pass holds of one encoder layer: what it keeps, and temporaries.

    Each candidate is a moment: at the second linear layer of the feed-forward block, where the backward pass
    enters, or later, when what that layer kept is gone.
    """
    again = _AGAIN[arithmetic(plan)]
    layer = layer_bytes(plan, dimensions).encoder
    audio = plan.batch_size * dimensions.max_source_positions
    hidden = audio * dimensions.d_model
    targets = plan.target_modules if plan.is_adapter else ()
    more = _AGAIN_DORA * hidden if plan.method == "dora" else 0.0
    later = layer + (again.fc1 if "fc1" in targets else again.plain) * hidden + more
    if plan.attention == "eager":
        scores = audio * dimensions.encoder_attention_heads * dimensions.max_source_positions
        later += _AGAIN_SCORE * (2 if plan.is_autocast else 4) * scores
    if "fc2" not in targets:
        return later
    later -= audio * _adapter_bytes(plan, dimensions.encoder_ffn_dim)
    return max(later, layer + again.fc2 * hidden + more)


def _adapter_bytes(plan: TrainingPlan, in_features: int) -> float:
    """Bytes a token and adapted layer: its input after dropout with the mask, and the low-rank middle."""
    width = 2 if plan.is_autocast else 4
    return (width + (1 if plan.lora_dropout else 0)) * in_features + width * plan.lora_r


def _dora_bytes(plan: TrainingPlan, out_features: int) -> float:
    """DoRA also keeps the outputs of base and adapter, to learn the magnitudes."""
    return (4 if plan.is_autocast else 8) * out_features


def reentrant_leak_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """Inputs of 8-bit layers that stay alive under non-reentrant checkpointing, in float32.

    bitsandbytes keeps them outside of what checkpointing can drop; query, key and value share one.
    """
    if plan.quantization != "8bit" or not plan.gradient_checkpointing or plan.use_reentrant:
        return 0.0
    d = dimensions
    audio = plan.batch_size * d.max_source_positions
    tokens = plan.batch_size * plan.label_length
    encoder = d.encoder_layers * audio * (3 * d.d_model + d.encoder_ffn_dim)
    decoder = d.decoder_layers * tokens * (5 * d.d_model + d.decoder_ffn_dim)
    return 4.0 * (encoder + decoder)
