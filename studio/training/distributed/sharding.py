"""What several processes divide among them, in the trainer's words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from studio.options.training import TrainingConfig

_LAYERS = ["WhisperEncoderLayer", "WhisperDecoderLayer"]
_SET_BY_TRAINER = (
    *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
    "gradient_clipping",
)


def sharding_arguments(config: TrainingConfig) -> dict[str, Any]:
    """Arguments of the trainer; none with one process, or with DDP."""
    if not config.is_sharded:
        return {}
    if config.sharding == "fsdp":
        return {"fsdp": True, "fsdp_config": {"version": 2, "transformer_layer_cls_to_wrap": _LAYERS}}
    zero = {"stage": int(config.sharding.removeprefix("zero"))}
    half = {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}
    return {"deepspeed": {**dict.fromkeys(_SET_BY_TRAINER, "auto"), **half, "zero_optimization": zero}}


@contextmanager
def whole_weights(model: Any) -> Iterator[None]:
    """Gathers what FSDP has divided, for an evaluation: processes write texts of different lengths, and
    none may wait in a layer for the others.
    """
    from torch.distributed.fsdp import FSDPModule

    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for root in parts[:1]:  # or the layer that is called first would take itself for the whole
        root._get_fsdp_state()._lazy_init()
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(True, recurse=False)
            part.reshard()
