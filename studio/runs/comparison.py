"""Runs side by side: which options differ, and what came out."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from studio.errors import RunError
from studio.options.training import TrainingConfig
from studio.runs.status import RunStatus

_NOT_COMPARED = ("run_name", "output_dir")


def require_several(runs: Sequence[object]) -> None:
    """Raises RunError: if there are fewer than two."""
    if len(runs) < 2:
        raise RunError("Choose at least two runs to compare, got {count}.", count=len(runs))


def differing_options(runs: Sequence[RunStatus]) -> dict[str, tuple[Any, ...]]:
    """Option → its value in each run, for those that are not the same in all."""
    found = {
        f.name: tuple(getattr(run.config, f.name) for run in runs)
        for f in fields(TrainingConfig)
        if f.name not in _NOT_COMPARED
    }
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def best_rates(run: RunStatus) -> tuple[float | None, float | None]:
    """WER and CER of the finished model, or of the best evaluation so far without the base."""
    final = run.metrics.get("final")
    if final:
        return float(final["wer"]), float(final["cer"])
    metric = run.metric or "wer"
    points = [point for point in run.eval_points if point.step > 0]
    best = min(points, key=lambda point: float(getattr(point, metric)), default=None)
    return (best.wer, best.cer) if best else (None, None)
