"""A run's folder as a `RunStatus`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from studio.files import free_bytes
from studio.messages import Message
from studio.runs import process
from studio.runs.disk import checkpoints_bytes, removable_bytes
from studio.runs.history import History
from studio.runs.status import (
    METRICS,
    EvalPoint,
    JobState,
    RunStatus,
    created_at,
    iso,
    read_result,
    read_run_config,
    read_state,
    why_interrupted,
)
from studio.training.checkpoints import last_checkpoint
from studio.training.retry import read_retries
from studio.training.run_dir import RunDir
from studio.translation import message_from


def view(run: RunDir, history: History | None, *, with_curves: bool = True) -> RunStatus:
    """A run as its folder shows it. Without `history`, only what the result tells."""
    history = history or History()
    config, broken = read_run_config(run)
    state = read_state(run, history.last_event)
    result = read_result(run) or {}
    is_done = state is JobState.FINISHED  # and stays so, whatever has become of its settings
    error = why_interrupted(run) if state is JobState.INTERRUPTED else None
    metrics = result.get("metrics") or {}
    max_steps = history.max_steps or int(result.get("max_steps") or 0)
    reached = int(result.get("step") or 0)
    step = (reached or max_steps) if is_done else (history.step or reached)
    return RunStatus(
        run_id=run.run_id,
        state=JobState.FAILED if broken and not is_done else state,
        config=config,
        phase=_phase(state, history),
        step=step,
        max_steps=max_steps,
        epoch=float(history.latest.get("epoch") or 0.0),
        eta_seconds=history.left_seconds() if state is JobState.RUNNING else None,
        samples_per_second=history.latest.get("samples_per_second"),
        speedup=history.latest.get("speedup"),
        memory_bytes=history.latest.get("memory_bytes") or result.get("memory_bytes"),
        memory=history.memory or result.get("memory"),
        data_wait_share=history.latest.get("data_wait_share"),
        eval_points=_evaluations(history, metrics),
        learning_rate=history.learning_rate,
        metric=history.metric or (metrics["metric"] if metrics.get("metric") in METRICS else ""),
        metrics=metrics,
        capabilities=result.get("capabilities"),
        short_audio=result.get("short_audio"),
        eval_progress=history.eval_progress,
        samples=history.samples,
        data=history.data,
        warnings=(*history.warnings, *([broken] if broken and is_done else [])),
        retries=read_retries(run),
        error=(None if is_done else broken) or error or _error_of(result),
        model_id=result.get("model_id"),
        created=created_at(run),
        started=iso(process.start_time(run)),
        ended=str(result.get("ended") or (iso(history.last_event) if error else "")),
        **(_long_parts(run, history, state) if with_curves else {}),
    )


def _error_of(result: Mapping[str, Any]) -> Message | None:
    """What ended the run, as its worker wrote it."""
    if not result.get("error"):
        return None
    return message_from(result.get("error_template"), result.get("error_values"), result["error"])


def _long_parts(run: RunDir, history: History, state: JobState) -> dict[str, Any]:
    """What takes longest to look up or to send; a list of runs does without."""
    return {
        "checkpoints_bytes": checkpoints_bytes(run),
        "removable_bytes": removable_bytes(run, keep_last=state is not JobState.FINISHED),
        "has_checkpoint": last_checkpoint(run.checkpoints) is not None,
        "disk_free_bytes": free_bytes(run.path),
        "rate_points": tuple(sorted(history.rates.items())),
        "loss_points": tuple(sorted(history.losses.items())),
        "earlier_samples": tuple(sorted(history.earlier_samples.items())),
    }


def _evaluations(history: History, metrics: Mapping[str, Any]) -> tuple[EvalPoint, ...]:
    """Those that were told; where nothing was read, those of the base and of the result."""
    if history.evaluations:
        return tuple(history.evaluations[step] for step in sorted(history.evaluations))
    names = [field.name for field in fields(EvalPoint)]
    points = [metrics[which] for which in ("base", "final") if metrics.get(which) is not None]
    return tuple(EvalPoint(**{name: point[name] for name in names}) for point in points)


def _phase(state: JobState, history: History) -> str:
    if state is JobState.QUEUED:
        return ""
    return "starting" if state is JobState.STARTING else history.phase
