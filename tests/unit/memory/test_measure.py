"""The peak of a process, measured on this machine."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pynvml
import pytest
import torch

from studio.memory.measure import PeakMeter
from studio.units import MIB

ALLOCATES = """
import torch
from studio.memory.measure import PeakMeter
torch.zeros(1)
meter = PeakMeter()
kept = torch.ones({numbers})
before = meter.read()
del kept
again = meter.read()
print(before.device, before.process_bytes, again.process_bytes)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU, which is measured instead")
def test_without_a_gpu_the_growth_of_the_process_is_measured_and_stays_a_peak() -> None:
    script = ALLOCATES.format(numbers=64 * MIB // 4)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    device, grown, later = done.stdout.split()
    assert device == "cpu"
    assert 64 * MIB <= int(grown) < 96 * MIB
    assert int(later) >= int(grown)


@pytest.mark.parametrize(
    ("pid", "held"),
    [
        (os.getpid(), 600 * MIB),  # the driver tells what this process holds
        (os.getppid(), 0),  # another one took it meanwhile, and this one has not begun
        (2**30, 700 * MIB),  # a container: its numbers of processes are not the driver's
    ],
    ids=["own", "another", "hidden"],
)
def test_what_another_process_takes_meanwhile_is_not_counted(
    pid: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [300 * MIB]
    rows = [SimpleNamespace(pid=pid, usedGpuMemory=600 * MIB)]
    for name, answer in (
        ("nvmlInit", lambda: None),
        ("nvmlShutdown", lambda: None),
        ("nvmlDeviceGetCount", lambda: 1),
        ("nvmlDeviceGetHandleByIndex", lambda index: index),
        ("nvmlDeviceGetComputeRunningProcesses", lambda card: rows),
    ):
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_memory_used", lambda device: used[-1])
    meter = PeakMeter()
    used.append(1000 * MIB)
    assert meter.context_bytes() == held
