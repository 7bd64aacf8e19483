"""The sizes that a training step is made of, in bytes: what `training` puts together at each corner."""

from dataclasses import dataclass

from studio.memory.activations import (
    again_encoder_bytes,
    arithmetic,
    layer_bytes,
    reentrant_leak_bytes,
)
from studio.memory.plan import TrainingPlan
from studio.memory.weights import DTYPE_BYTES, StaticBytes, static_bytes, trainable_tensors
from studio.registry.parameters import linear_layers, tensors
from studio.registry.spec import ModelDimensions

HEAD_BYTES = 12.1
"""Per logit: half and float32 copies under autocast, logits and log-probabilities in float32 without."""
HEAD_BYTES_HALF = 6.1
MEL_FRAMES = 3000


@dataclass(frozen=True)
class Step:
    """One training step of one plan on one model."""

    static: StaticBytes
    audio: float
    """Numbers in one hidden state of the encoder (batch × positions × d_model)."""
    tokens: float
    """Numbers in one hidden state of the decoder."""
    encoder_layer: float
    decoder_layer: float
    again_encoder: float
    """One encoder layer at the highest moment of its backward pass."""
    stem: float
    """What the convolutions keep, with the features and the encoder's last hidden state."""
    casts: float
    """Half-precision copies of weights that live until the backward pass."""
    encoder_casts: float
    """Those of them that are still there when the backward pass has left the decoder."""
    layer_cast: float
    """Copies of one layer's weights while it is computed again."""
    logits: float
    embedding_gradient: float
    decoder_gradients: float
    """Of the decoder's layers."""
    tied_gradients: int
    """Copies of the embedding's gradient that meet where output projection and embedding are tied."""
    half: float
    """Width of the arithmetic in units of half precision: 1, or 2 for float32."""
    stream: int
    """Bytes of a number in the residual stream."""
    boundary: int
    """Bytes of a number that checkpointing keeps at the border of a layer."""
    leak: float
    """What non-reentrant checkpointing cannot drop of 8-bit layers."""


def measure(plan: TrainingPlan, dimensions: ModelDimensions) -> Step:
    """All sizes of a plan's step."""
    d = dimensions.d_model
    kind = arithmetic(plan)
    audio = float(plan.batch_size * dimensions.max_source_positions * d)
    tokens = float(plan.batch_size * plan.label_length * d)
    layers = layer_bytes(plan, dimensions)
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.base_dtype]
    trained = [group for group in trainable_tensors(plan, dimensions) if group.half == "decoder"]
    is_half = kind == "full_half"
    has_half_border = plan.gradient_checkpointing and plan.is_adapter and plan.base_dtype != "fp32"
    casts = cast_bytes(plan, dimensions)
    frozen_encoder = plan.method == "frozen_encoder"
    return Step(
        static=static_bytes(plan, dimensions),
        audio=audio,
        tokens=tokens,
        encoder_layer=layers.encoder,
        decoder_layer=layers.decoder,
        again_encoder=again_encoder_bytes(plan, dimensions),
        stem=_stem_bytes(plan, dimensions, audio),
        casts=casts,
        encoder_casts=2.0 * casted(dimensions, ("encoder",)) if casts and not frozen_encoder else 0.0,
        layer_cast=_layer_cast_bytes(plan, dimensions),
        logits=plan.batch_size
        * plan.label_length
        * dimensions.vocab_size
        * (HEAD_BYTES_HALF if is_half else HEAD_BYTES),
        embedding_gradient=0.0 if plan.is_adapter else dimensions.vocab_size * d * width,
        decoder_gradients=width * sum(group.total for group in trained if not group.is_embedding),
        tied_gradients=2 if plan.is_autocast and not is_half else 3,
        half=1.0 if plan.is_autocast else 2.0,
        stream=2 if is_half else 4,
        boundary=2 if is_half or has_half_border else 4,
        leak=reentrant_leak_bytes(plan, dimensions),
    )


def casted(dimensions: ModelDimensions, halves: tuple[str, ...]) -> int:
    """Numbers of the weights that autocast copies: all but positions."""
    return sum(
        group.total
        for group in tensors(dimensions)
        if group.half in halves and group.name != "embed_positions"
    )


def cast_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """Copies of weights that live from the forward to the backward pass."""
    if plan.method == "dora" and not plan.gradient_checkpointing:
        # The norm of each adapted weight is taken from a copy in the type of the arithmetic.
        adapted = (row for row in linear_layers(dimensions) if row.name in plan.target_modules)
        norms = (2.0 if plan.is_autocast else 4.0) * sum(row.weights * row.count for row in adapted)
    else:
        norms = 0.0
    if (
        has_casts(plan)
        and plan.is_adapter
        and plan.quantization == "none"
        and not plan.gradient_checkpointing
    ):
        # A frozen weight is copied at each use, and the backward pass needs the copy.
        return norms + 2.0 * casted(dimensions, ("encoder", "decoder"))
    return norms + cached_cast_bytes(plan, dimensions)


def cached_cast_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    """Copies that autocast itself holds: of all trained weights, or of the largest frozen one at its use."""
    if not has_casts(plan):
        return 0.0
    if plan.is_adapter:
        return 2.0 * dimensions.vocab_size * dimensions.d_model
    return 2.0 * casted(
        dimensions, ("decoder",) if plan.method == "frozen_encoder" else ("encoder", "decoder")
    )


def has_casts(plan: TrainingPlan) -> bool:
    """Whether float32 weights meet arithmetic in half precision."""
    return plan.is_autocast and plan.base_dtype == "fp32"


def _layer_cast_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> float:
    if not has_casts(plan) or plan.quantization != "none":
        return 0.0
    return 2.0 * (4 * dimensions.d_model**2 + 2 * dimensions.d_model * dimensions.encoder_ffn_dim)


def _stem_bytes(plan: TrainingPlan, dimensions: ModelDimensions, audio: float) -> float:
    features = float(plan.batch_size * dimensions.num_mel_bins * MEL_FRAMES)
    if plan.method == "frozen_encoder":
        return 4 * audio + 4 * features
    if plan.is_adapter:
        if not plan.gradient_checkpointing:
            return 8 * audio + 4 * features
        return (10 if plan.is_autocast else 20) * audio + 4 * features
    if arithmetic(plan) == "full_half":
        return 14 * audio + 4 * features
    return 18 * audio + 6 * features if plan.is_autocast else 28 * audio + 4 * features
