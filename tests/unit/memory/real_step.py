"""A training step on real tensors of this machine, and the most bytes that its allocator had out."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from studio.memory.plan import TrainingPlan
from studio.registry.spec import ModelDimensions


@contextmanager
def cpu_kernels() -> Iterator[None]:
    """Attention and dropout in one kernel each, which meta tensors have no reason to choose."""
    import torch
    import torch.nn.functional as F

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, **options: Any) -> Any:
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, options["is_causal"], attn_mask=attn_mask, scale=options["scale"]
        )[0]

    def dropout(values: Any, p: float, training: bool, inplace: bool = False) -> Any:
        return torch.native_dropout(values, p, True)[0] if training and p else values

    patched: Any = F
    before = F.scaled_dot_product_attention, F.dropout
    patched.scaled_dot_product_attention, patched.dropout = attention, dropout
    try:
        yield
    finally:
        patched.scaled_dot_product_attention, patched.dropout = before


class RealOptimizer:
    """torch's own AdamW in the middle of a training, in place of the traced one."""

    def __init__(self, plan: TrainingPlan, trained: list[Any]) -> None:
        import torch

        is_fused = plan.optimizer == "adamw_torch_fused"
        self._optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=is_fused, foreach=not is_fused)
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def states(self) -> list[Any]:
        """Moments and step counts."""
        states = self._optimizer.state.values()
        return [value for state in states for value in state.values()]

    def step(self) -> None:
        """One step with the gradients that are there."""
        self._optimizer.step()

    def zero_grad(self) -> None:
        """Gradients are given up."""
        self._optimizer.zero_grad()


def traced_peak_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> int:
    """The trace of the same step on a device that rounds nothing and has these kernels."""
    from studio.memory.trace.step import Device, trace_step

    return trace_step(plan, dimensions, Device(lambda size: size, {}, cpu_kernels)).peak_bytes


def measured_peak_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> int:
    """Runs the step for real, and gives back what the profiler saw of the allocator, with what was there."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from studio.memory.trace.step import TrainingStep
    from studio.memory.training import worst_batch

    plan = worst_batch(plan, dimensions)
    step: Any = TrainingStep(plan, dimensions)
    step.prepare()
    with torch.no_grad():
        for parameter in step.model.parameters():
            parameter.fill_(0.01 if parameter.is_floating_point() else 1)
    if plan.optimizer in ("adamw_torch_fused", "adamw_torch"):
        step.optimizer = RealOptimizer(plan, step.trained)
    kept = [*step.model.parameters(), *step.optimizer.states()]
    there = sum({t.data_ptr(): t.untyped_storage().nbytes() for t in kept}.values())
    gc.collect()
    # oneDNN copies tensors into layouts of the processor's, other ones with AVX-512 than without.
    plain = torch.backends.mkldnn.flags(enabled=False)
    with plain, cpu_kernels(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step.run(lambda _phase, _part: None)
    now = peak = there
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak
