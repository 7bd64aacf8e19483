"""Runs side by side: which options differ, and what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from studio.errors import RunError
from studio.options.training import TrainingConfig
from studio.runs.status import RunStatus
from studio.units import format_percent

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


def error_change(status: RunStatus) -> str:
    """`83.0 % → 12.4 %`: errors of the base and of the result, or of the last evaluation so far."""
    metric = status.metric or "wer"
    ends = [status.metrics.get(name) for name in ("base", "final")]
    rates = [end[metric] for end in ends if isinstance(end, Mapping) and metric in end]
    if not rates:
        rates = [getattr(point, metric) for point in (*status.eval_points[:1], *status.eval_points[1:][-1:])]
    return " → ".join(format_percent(rate) for rate in rates)


def change_by_metric(status: RunStatus) -> str:
    """How the errors changed, and which they are: of words (WER) or of characters (CER)."""
    change = error_change(status)
    # A distillation counts differences from its base.
    return f"{change} {(status.metric or 'wer').upper()}" if change and not status.config.distill else change
