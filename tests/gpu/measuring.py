"""Measures case after case, each in a process of its own, and sets it beside its prediction."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.memory.calibration import calibration_for
from studio.memory.gpus import Gpu, Verdict, usable_bytes
from studio.memory.receipts import Receipt
from studio.settings import PROJECT_ROOT
from tests.gpu.plans import InferenceCase, TrainingCase
from tests.gpu.report import Row

Measure = Callable[[TrainingCase], Receipt]
_PATIENCE_SECONDS = 180


def within_reach(row: Mapping[str, Any], usable: int) -> bool:
    """Whether it is worth trying: what does not fit even at the low end only costs time."""
    return int(row["low_bytes"]) <= usable


def training_rows(
    cases: Sequence[TrainingCase],
    said: Mapping[str, Mapping[str, Any]],
    gpu: Gpu,
    measure: Measure,
    driver: str,
) -> Iterator[Row]:
    """A row a case that is within the card's reach; those held back last, with their corrected ranges."""
    usable = usable_bytes(gpu)
    receipts: list[Receipt] = []
    for case in sorted(cases, key=lambda case: case.is_held_back):
        if not within_reach(said[case.name], usable):
            continue
        receipt = measure(case)
        row = _row(case.name, "train", said[case.name], usable)
        row = replace(
            row,
            is_held_back=case.is_held_back,
            measured_allocated_bytes=receipt.measured.get("allocated_bytes"),
            measured_device_bytes=receipt.measured.get("device_bytes"),
            is_out_of_memory=receipt.is_out_of_memory,
        )
        if not case.is_held_back:
            receipts.append(receipt)
        else:
            known = calibration_for(gpu, receipts, driver)
            question = case.question()
            plan = question.plan(has_gpu=True)
            corrected = known.correct(question.estimate(has_gpu=True), plan, question.dimensions)
            if corrected.measurements:
                row = replace(
                    row,
                    corrected_low_bytes=corrected.low_bytes,
                    corrected_high_bytes=corrected.high_bytes,
                )
        yield row


def inference_rows(
    cases: Sequence[InferenceCase],
    said: Mapping[str, Mapping[str, Any]],
    gpu: Gpu,
    model: Path | None,
) -> Iterator[Row]:
    """A row a transcription; those with faster-whisper need a real model, to be converted."""
    for case in cases:
        if case.plan.engine == "faster-whisper" and model is None:
            continue
        if within_reach(said[case.name], usable_bytes(gpu)):
            measured = transcribe_measured(case, model)
            yield replace(
                _row(case.name, "transcribe", said[case.name], usable_bytes(gpu)),
                measured_allocated_bytes=measured["allocated_bytes"],
                measured_device_bytes=measured["device_bytes"],
            )


def transcribe_measured(case: InferenceCase, model: Path | None) -> dict[str, Any]:
    """Bytes that a process took to transcribe silence up to the longest text."""
    question = {"model": case.model, "plan": dict(case.plan.__dict__), "folder": str(model) if model else ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.transcribing"],
        cwd=PROJECT_ROOT,
        input=json.dumps(question),
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _row(name: str, use: str, said: Mapping[str, Any], usable: int) -> Row:
    verdict: Verdict = (
        "fits"
        if said["high_bytes"] <= usable
        else "tight"
        if said["device_bytes"] <= usable
        else "does_not_fit"
    )
    figures = {key: said[key] for key in ("allocated_bytes", "device_bytes", "low_bytes", "high_bytes")}
    return Row(
        name=name,
        use=use,
        is_held_back=False,
        verdict=verdict,
        measured_allocated_bytes=None,
        measured_device_bytes=None,
        **figures,
    )
