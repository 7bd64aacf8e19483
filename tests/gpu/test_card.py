"""Predictions that were committed first, against this machine's GPU; skipped without one."""

import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from studio.doctor.examine import try_libraries
from studio.memory.gpus import detected_gpus, driver_version
from studio.memory.receipts import Receipt
from studio.memory.trace.store import library_versions
from studio.runs.probe import Prober
from studio.settings import Settings
from tests.gpu.measuring import inference_rows, training_rows
from tests.gpu.plans import INFERENCE, TRAINING, TrainingCase, committed
from tests.gpu.report import Machine, broken_promises, write_report


@cache
def why_not() -> str:
    """What is missing for a measurement; empty if nothing is."""
    state = try_libraries()
    if not state.gpus:
        return "no NVIDIA GPU, or no driver for it"
    if not state.sees_gpu:
        return "there is a GPU, and this build of torch cannot use it"
    return "" if state.has_bf16 else "the predictions are of bf16, which this GPU lacks"


def whisper_tiny_of(request: pytest.FixtureRequest) -> Path | None:
    """The real model, which faster-whisper needs; None where there is none, and its rows are left out."""
    try:
        folder: Path = request.getfixturevalue("whisper_tiny")
    except pytest.skip.Exception:
        return None
    return folder


@pytest.mark.timeout(1200)
def test_what_was_predicted_holds_on_this_card(
    settings: Settings, request: pytest.FixtureRequest, sees_gpu: None
) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    gpu = detected_gpus()[0]
    prober = Prober(settings)
    said = committed(gpu.architecture)

    def measure(case: TrainingCase) -> Receipt:
        print(f"measuring {case.name}", file=sys.stderr, flush=True)
        return prober.measure(case.question(), patience_seconds=180)[0]

    rows = [
        *training_rows(TRAINING, said, gpu, measure, driver_version()),
        *inference_rows(INFERENCE, said, gpu, whisper_tiny_of(request)),
    ]
    machine = Machine(
        card=gpu.name,
        total_bytes=gpu.memory_bytes,
        free_bytes=gpu.free_bytes or 0,
        driver=driver_version(),
        versions=library_versions(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )
    table, _figures = write_report(machine, rows)
    print(table.read_text(encoding="utf-8"), file=sys.stderr)
    assert rows, "nothing of the list is within the reach of this card"
    assert broken_promises(rows) == []
