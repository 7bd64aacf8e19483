"""The NVIDIA cards of this machine as the driver tells: memory, and who holds it. Nothing is allocated."""

from dataclasses import dataclass

import psutil


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
    """Every card; empty without a card or driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_state(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _state(index: int) -> GpuState:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    number = int(pynvml.nvmlSystemGetCudaDriverVersion())
    return GpuState(
        index=index,
        name=str(pynvml.nvmlDeviceGetName(handle)).removeprefix("NVIDIA ").strip(),
        total_bytes=int(memory.total),
        free_bytes=int(memory.free),
        driver=str(pynvml.nvmlSystemGetDriverVersion()),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
        processes=tuple(_processes(handle)),
    )


def _processes(handle: object) -> list[GpuProcess]:
    import pynvml

    found: dict[int, int | None] = {}
    for ask in (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses):
        try:
            found |= {int(row.pid): row.usedGpuMemory for row in ask(handle)}
        except pynvml.NVMLError:
            continue
    return [GpuProcess(pid, _name(pid), held) for pid, held in sorted(found.items())]


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return ""
