"""Watches a run from the terminal: one line of progress, and what came of it."""

import time
from collections.abc import Callable
from typing import Any

from studio.cli.output import ProgressLine, say, show
from studio.cli.parsing import PROGRAM
from studio.jobs.manager import JobManager, JobState, RunStatus
from studio.training.run_dir import RunDir
from studio.units import format_bytes, format_duration, format_percent

Tell = Callable[[str], None]

SCHEMA_VERSION = 1
ENDED = (JobState.FINISHED, JobState.STOPPED, JobState.FAILED, JobState.INTERRUPTED)
_LOOK_SECONDS = 0.5


def follow(jobs: JobManager, run_id: str) -> RunStatus:
    """Shows the run until it ends. Ctrl-C asks it to save a checkpoint and end; a second one leaves it alone.

    Raises:
        KeyboardInterrupt: at the second Ctrl-C.
    """
    line = ProgressLine()
    try:
        return _watch(jobs, run_id, line)
    except KeyboardInterrupt:
        line.end()
        say("Stopping: a checkpoint is being saved. Ctrl-C again leaves without waiting for it.")
        jobs.stop(run_id)
        return _watch(jobs, run_id, line)
    finally:
        line.end()


def _watch(jobs: JobManager, run_id: str, line: ProgressLine) -> RunStatus:
    while True:
        status = jobs.status(run_id)
        line.update(progress(status))
        if status.state in ENDED:
            return status
        time.sleep(_LOOK_SECONDS)


def progress(status: RunStatus) -> str:
    """`training · step 30 of 120 · loss 0.312 · 45.2 samples/s · 1 min 20 s left`."""
    if status.state is JobState.QUEUED:
        return f"waiting, place {status.queue_position} in the queue"
    parts = [status.state.value if status.state is not JobState.RUNNING else status.phase.replace("_", " ")]
    if status.max_steps:
        parts.append(f"step {status.step} of {status.max_steps}")
    if status.loss_points:
        parts.append(f"loss {status.loss_points[-1][1]:.3f}")
    if status.samples_per_second:
        parts.append(f"{status.samples_per_second:.1f} samples/s")
    if status.memory_bytes:
        parts.append(format_bytes(status.memory_bytes))
    if status.eta_seconds is not None and status.state is JobState.RUNNING:
        parts.append(f"{format_duration(status.eta_seconds)} left")
    return " · ".join(parts)


def tell(status: RunStatus, result: Tell = show) -> None:
    """What came of a run, through `result`, and beside it what to do next."""
    for warning in status.warnings:
        say(f"Note: {warning}")
    if status.state is JobState.FINISHED:
        for line in before_and_after(status):
            result(line)
        result(f"Model: {status.model_id}")
        say(f"Try it: {PROGRAM} transcribe --model {status.model_id} recording.wav")
    if status.error:
        say(f"Error: {status.error}")
    if status.state in _ENDINGS:
        say(f"Run {status.run_id} {_ENDINGS[status.state]}.")
    if status.can_resume:
        say(f"Continue it: {PROGRAM} runs resume {status.run_id}")


_ENDINGS = {
    JobState.STOPPED: "was stopped",
    JobState.FAILED: "failed",
    JobState.INTERRUPTED: "was interrupted",
}


def before_and_after(status: RunStatus) -> list[str]:
    """Error rates of the base and of the finished model, where the run measured them."""
    base, final = status.metrics.get("base"), status.metrics.get("final")
    if not final:
        return []
    return [
        f"{name.upper()}: {format_percent(base[name])} → {format_percent(final[name])}"
        if base
        else f"{name.upper()}: {format_percent(final[name])}"
        for name in ("wer", "cer")
    ]


def as_dict(status: RunStatus, folder: RunDir) -> dict[str, Any]:
    """A run for machines."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": status.run_id,
        "state": status.state.value,
        "model": status.model_id,
        "error": status.error or None,
        "step": status.step,
        "max_steps": status.max_steps,
        "evaluations": [
            {"step": point.step, "epoch": point.epoch, "wer": point.wer, "cer": point.cer, "loss": point.loss}
            for point in status.eval_points
        ],
        "metrics": dict(status.metrics),
        "warnings": list(status.warnings),
        "can_resume": status.can_resume,
        "created": status.created,
        "ended": status.ended,
        "run_dir": str(folder.path),
    }
