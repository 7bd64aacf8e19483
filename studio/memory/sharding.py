"""Several GPUs: what each of them holds of a step's weights, gradients and optimizer states.

- DDP copies everything; its buckets for the exchange of gradients take as much again as the gradients
  (`gradient_as_bucket_view=False`, PyTorch's `DistributedDataParallel`, and so accelerate's default).
- ZeRO divides by the number of GPUs: stage 1 optimizer states, stage 2 gradients too, stage 3 weights too
  (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5).
- FSDP divides as stage 3 does (Zhao et al., "PyTorch FSDP", section 3).

Whoever divides weights gathers those of the layer at work and of the next one, and what is outside of the
layers (embeddings, convolutions) is gathered through the whole step; a layer's whole gradients live until
they are scattered. The exchange of stages 1 and 2 goes through buckets, too (`reduce_bucket_size`); stage 2
makes its own in full, however little there is to exchange (`ipg_buffer` in DeepSpeed's `stage_1_and_2.py`).
An evaluation under FSDP gathers all weights (`studio.training.distributed.sharding.whole_weights`).
"""

from dataclasses import dataclass

from studio.memory.plan import TrainingPlan
from studio.memory.weights import DTYPE_BYTES, StaticBytes
from studio.registry.parameters import tensors
from studio.registry.spec import ModelDimensions

SOURCES = {
    "ddp": "DDP, Li et al. 2020",
    "zero1": "ZeRO-1, Rajbhandari et al. 2020",
    "zero2": "ZeRO-2, Rajbhandari et al. 2020",
    "zero3": "ZeRO-3, Rajbhandari et al. 2020",
    "fsdp": "FSDP, Zhao et al. 2023",
}
"""What to read about each."""
_GATHERED_LAYERS = 2
"""The one at work, and the next one, fetched in advance."""
_BUCKET_NUMBERS = 500_000_000
"""DeepSpeed's `reduce_bucket_size` and `allgather_bucket_size`."""


@dataclass(frozen=True)
class Shares:
    """How much of each kind of bytes one GPU holds, and what the exchange needs beside it."""

    weights: float
    """Of all weights, 0 to 1; gradients and optimizer states likewise."""
    gradients: float
    optimizer_states: float
    exchange_bytes: int
    """Buckets, gathered layers and their gradients."""
    evaluation_bytes: int
    """The same in an evaluation."""


def shares(plan: TrainingPlan, dimensions: ModelDimensions, static: StaticBytes) -> Shares:
    """What one GPU of the plan's holds of a step on a single one."""
    if plan.num_gpus == 1:
        return Shares(1.0, 1.0, 1.0, 0, 0)
    part = 1.0 / plan.num_gpus
    if plan.sharding == "ddp":
        return Shares(1.0, 1.0, 1.0, static.gradients, static.gradients)
    if plan.sharding in ("zero1", "zero2"):
        # One bucket of gradients is reduced while the next one fills.
        width = static.gradients // max(1, static.trainable_parameters)
        exchange = 2 * min(_BUCKET_NUMBERS, static.trainable_parameters) * width
        if plan.sharding == "zero2":
            exchange = max(exchange, _BUCKET_NUMBERS * DTYPE_BYTES[plan.arithmetic_dtype])
        return Shares(1.0, part if plan.sharding == "zero2" else 1.0, part, exchange, exchange)
    gathered = _gathered_bytes(dimensions, static)
    everything = static.weights_trainable + static.weights_frozen
    return Shares(part, part, part, gathered, everything if plan.sharding == "fsdp" else gathered)


def _gathered_bytes(dimensions: ModelDimensions, static: StaticBytes) -> int:
    """Whole weights of two layers and of what is outside of layers, and whole gradients of one layer."""
    layers = dimensions.encoder_layers + dimensions.decoder_layers
    groups = tensors(dimensions)
    everything = sum(group.total for group in groups)
    outside = sum(group.total for group in groups if not group.is_layer)
    largest = max(
        sum(group.total for group in groups if group.is_layer and group.half == half) / count
        for half, count in (("encoder", dimensions.encoder_layers), ("decoder", dimensions.decoder_layers))
    )
    width = (static.weights_trainable + static.weights_frozen + static.weights_quantized) / everything
    gradient = static.gradients / layers
    return round(width * (outside + _GATHERED_LAYERS * largest) + gradient)
