"""What a process really took: of a GPU by PyTorch's allocator and the driver, else of main memory."""

import os
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from studio.memory.gpus import ask_driver, cards_of

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class MeasuredPeak:
    """Bytes at the highest moment of a process so far; None is what could not be measured."""

    device: str
    """Name of the card, or `cpu`."""
    allocated_bytes: int | None = None
    """`torch.cuda.max_memory_allocated`."""
    reserved_bytes: int | None = None
    """`torch.cuda.max_memory_reserved`."""
    device_bytes: int | None = None
    """What was reserved at the most, with the CUDA context; None where the driver does not tell."""
    process_bytes: int | None = None
    """Without a GPU: by how much the memory of the whole process grew, libraries and data included."""

    @property
    def figure(self) -> int:
        """The one that grows, to tell whether there is something new."""
        return self.reserved_bytes or self.process_bytes or 0


class PeakMeter:
    """Measures from the moment when it is made; to be made before a model is loaded."""

    def __init__(self, *, is_on_cpu: bool = False) -> None:
        """`is_on_cpu`: known to compute there: PyTorch, which takes a second to load, is not asked."""
        self.is_cuda = not is_on_cpu and _has_card()
        self._used_before = _used_on_card() if self.is_cuda else None
        self._resident_before = int(psutil.Process().memory_info().rss)
        self._grown = 0

    def read(self) -> MeasuredPeak:
        """The peaks up to now."""
        if not self.is_cuda:
            # Linux counts in steps of some threads' pages: a later look may read a little less.
            self._grown = max(self._grown, resident_peak_bytes() - self._resident_before)
            return MeasuredPeak("cpu", process_bytes=self._grown)
        import torch

        reserved = int(torch.cuda.max_memory_reserved())
        context = self.context_bytes()
        return MeasuredPeak(
            device=card_name(),
            allocated_bytes=int(torch.cuda.max_memory_allocated()),
            reserved_bytes=reserved,
            device_bytes=None if context is None else reserved + context,
        )

    def context_bytes(self) -> int | None:
        """What this process holds on the card beside what PyTorch reserved; None if the driver hides it.

        The driver tells it by process; in a container, where processes have other numbers, it is what the
        card holds more than before this process used it.
        """
        import torch

        reserved = int(torch.cuda.memory_reserved())
        held = _held_by_this_process()
        if held is None:
            used = _used_on_card()
            if used is None or self._used_before is None:
                return None
            held = used - self._used_before
        return held - reserved if held >= reserved else None


def card_name() -> str:
    """The current card's name, as the table of GPUs writes it."""
    import torch

    return str(torch.cuda.get_device_name()).removeprefix("NVIDIA ").strip()


def resident_peak_bytes() -> int:
    """The most main memory that this process ever held at once."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else 1024 * peak


def _has_card() -> bool:
    import torch

    return torch.cuda.is_available()


def _used_on_card() -> int | None:
    """By all processes, without making a context of our own; None if the driver does not tell."""
    import torch

    try:
        return int(torch.cuda.device_memory_used(0))
    except _driver_errors():
        return None


def _held_by_this_process() -> int | None:
    """Bytes on all cards; None where the driver's numbers of processes are not those of this machine."""

    def held(driver: Any) -> int | None:
        """Of the rows of this process; where only others are on the cards, it holds nothing yet."""
        handles = map(driver.nvmlDeviceGetHandleByIndex, cards_of(driver))
        rows = list(chain.from_iterable(map(driver.nvmlDeviceGetComputeRunningProcesses, handles)))
        own = sum(int(row.usedGpuMemory or 0) for row in rows if row.pid == os.getpid())
        return own if own or any(psutil.pid_exists(row.pid) for row in rows) else None

    return ask_driver(held, None)


def _driver_errors() -> tuple[type[BaseException], ...]:
    import pynvml

    return (pynvml.NVMLError, RuntimeError, ImportError, AttributeError, AssertionError)
