"""Bytes of tensors on a CPU, from the events of its allocator."""

from types import TracebackType
from typing import Any


class TensorMeter:
    """Within it, every allocation of torch on the CPU is noted; `peak_bytes` counts what was there before."""

    def __init__(self, model: Any) -> None:
        from torch.profiler import ProfilerActivity, profile

        kept = [*model.parameters(), *model.buffers()]
        self._there = sum(
            {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}.values()
        )
        self._profile: Any = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.peak_bytes = 0

    def __enter__(self) -> "TensorMeter":
        self._profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Adds up what was noted, in the order of time."""
        self._profile.__exit__(kind, error, trace)
        events = [e for e in self._profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        now = self.peak_bytes = self._there
        for event in sorted(events, key=lambda event: event.start_ns()):
            now += event.nbytes()
            self.peak_bytes = max(self.peak_bytes, now)
