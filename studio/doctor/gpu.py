"""The NVIDIA cards of this machine as the driver tells: memory, and who holds it. Nothing is allocated."""

from dataclasses import dataclass
from typing import Any

import psutil

from studio.memory.gpus import name_of, of_each_card


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a card."""

    pid: int
    name: str
    """Empty if it is not visible from here."""
    held_bytes: int | None
    """None where the driver does not tell."""


@dataclass(frozen=True)
class GpuState:
    """One card now."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int
    driver: str
    cuda: str
    """The newest CUDA that the driver runs."""
    processes: tuple[GpuProcess, ...]


def gpu_states() -> list[GpuState]:
    """Every card that tells its memory; empty without a card or driver."""
    return of_each_card(_state)


def _state(driver: Any, index: int) -> GpuState:
    handle = driver.nvmlDeviceGetHandleByIndex(index)
    memory = driver.nvmlDeviceGetMemoryInfo(handle)
    number = int(driver.nvmlSystemGetCudaDriverVersion())
    return GpuState(
        index=index,
        name=name_of(driver, handle),
        total_bytes=int(memory.total),
        free_bytes=int(memory.free),
        driver=str(driver.nvmlSystemGetDriverVersion()),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
        processes=tuple(_processes(driver, handle)),
    )


def _processes(driver: Any, handle: Any) -> list[GpuProcess]:
    found: dict[int, int | None] = {}
    for ask in (driver.nvmlDeviceGetComputeRunningProcesses, driver.nvmlDeviceGetGraphicsRunningProcesses):
        try:
            found |= {int(row.pid): row.usedGpuMemory for row in ask(handle)}
        except driver.NVMLError:
            continue
    return [GpuProcess(pid, _name(pid), held) for pid, held in sorted(found.items())]


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""
