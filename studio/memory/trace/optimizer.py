"""The optimizers of a plan in the middle of a training: their states, and one step's temporaries."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from studio.memory.plan import TrainingPlan

_BLOCK_8BIT = 256
_MIN_8BIT = 4096


class TracedOptimizer:
    """States as after the first step; a step allocates what the real one does."""

    def __init__(self, plan: TrainingPlan, model: nn.Module, trained: list[nn.Parameter]) -> None:
        self._plan = plan
        self._model: Any = model
        self._trained = trained
        self._kept: list[torch.Tensor] = []
        self._adafactor: Any = None
        if plan.optimizer in ("adamw_torch_fused", "adamw_torch"):
            for p in trained:
                self._kept += [torch.empty_like(p), torch.empty_like(p)]
        elif plan.optimizer == "adamw_bnb_8bit":
            embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
            for p in trained:
                self._kept += _states_8bit(p, is_embedding=id(p) in embeddings)
        elif plan.optimizer == "adafactor":
            self._adafactor = _adafactor(trained)

    def states(self) -> Iterable[torch.Tensor]:
        """Every tensor that lives from step to step."""
        yield from self._kept
        if self._adafactor is not None:
            for state in self._adafactor.state.values():
                yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        yield from self._importance()

    def step(self) -> None:
        """What one step allocates beside its states."""
        if self._plan.optimizer == "adamw_torch":
            # `_multi_tensor_adam` takes the roots of all second moments at once.
            roots = [torch.empty_like(p) for p in self._trained]
            del roots
        elif self._adafactor is not None:
            self._adafactor.step()

    def zero_grad(self) -> None:
        """Gradients are given up, not zeroed."""
        if self._plan.method == "adalora":
            self._model.base_model.rankallocator.update_ipt(self._model.base_model.model)
        for p in self._trained:
            p.grad = None

    def _importance(self) -> Iterable[torch.Tensor]:
        """AdaLoRA keeps an importance, its mean and its uncertainty of each number of the adapter."""
        if self._plan.method != "adalora":
            return
        allocator = self._model.base_model.rankallocator
        for name, p in self._model.base_model.model.named_parameters():
            if "lora_" in name and allocator.adapter_name in name:
                for kept in (allocator.ipt, allocator.exp_avg_ipt, allocator.exp_avg_unc):
                    kept[name] = torch.zeros_like(p)
                    yield kept[name]


def _states_8bit(p: nn.Parameter, *, is_embedding: bool) -> list[torch.Tensor]:
    """bitsandbytes keeps small tensors in float32, and embeddings, as transformers' trainer asks it to."""
    if p.numel() < _MIN_8BIT or is_embedding:
        return [torch.empty(p.numel()) for _ in range(2)]
    blocks = math.ceil(p.numel() / _BLOCK_8BIT)
    packed = [torch.empty(p.numel(), dtype=torch.uint8) for _ in range(2)]
    return packed + [torch.empty(blocks) for _ in range(2)]


def _adafactor(trained: list[nn.Parameter]) -> Any:
    """transformers' own, as its trainer makes it, after a first step."""
    import transformers as typed_transformers

    transformers: Any = typed_transformers
    optimizer = transformers.Adafactor(trained, lr=1e-4, scale_parameter=False, relative_step=False)
    for p in trained:
        state = optimizer.state[p]
        state["step"], state["RMS"] = 1, torch.zeros(())
        if p.dim() >= 2:
            state["exp_avg_sq_row"] = torch.zeros(p.shape[:-1])
            state["exp_avg_sq_col"] = torch.zeros(p.shape[:-2] + p.shape[-1:])
        else:
            state["exp_avg_sq"] = torch.zeros(p.shape)
    return optimizer
