"""The peak of a process, measured on this machine."""

import subprocess
import sys

import pytest
import torch

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
