"""A training step on real tensors of this machine, and the most bytes that its allocator had out."""

import gc
from typing import Any

from studio.memory.plan import TrainingPlan
from studio.registry.spec import ModelDimensions


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


def measured_peak_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> int:
    """Runs the step for real, and gives back what the profiler saw of the allocator, with what was there."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from studio.memory.trace.step import TrainingStep

    step: Any = TrainingStep(plan, dimensions)
    step.prepare()
    for parameter in step.model.parameters():
        if parameter.is_floating_point():
            torch.nn.init.normal_(parameter, std=0.02)
        else:
            torch.nn.init.zeros_(parameter)
    if plan.optimizer in ("adamw_torch_fused", "adamw_torch"):
        step.optimizer = RealOptimizer(plan, step.trained)
    kept = [*step.model.parameters(), *step.optimizer.states()]
    there = sum({t.data_ptr(): t.untyped_storage().nbytes() for t in kept}.values())
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step.run(lambda _phase, _part: None)
    now = peak = there
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak
