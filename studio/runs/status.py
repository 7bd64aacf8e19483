"""What a run's folder says about the run: read each time, never remembered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from studio.errors import RunError, StudioError
from studio.files import noted, read_json
from studio.messages import Message
from studio.options.arguments import read_config, read_known
from studio.options.training import TrainingConfig
from studio.runs import process
from studio.runs.kinds import RESULT, fitting
from studio.training.events import RunPhase
from studio.training.retry import Retry
from studio.training.run_dir import RunDir

_KILLED = (-9, 137)
"""As Python tells it, and as a shell or a container does."""


class JobState(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


ACTIVE = frozenset({JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
RESUMABLE = frozenset({JobState.STOPPED, JobState.FAILED, JobState.INTERRUPTED})


METRICS = ("wer", "cer")
"""By which a run is judged: word errors, or character errors."""


@dataclass(frozen=True)
class EvalPoint:
    """One evaluation; step 0 is the base model."""

    step: int
    epoch: float
    wer: float
    cer: float
    loss: float


@dataclass(frozen=True)
class RunStatus:
    """Everything there is to show about a run."""

    run_id: str
    state: JobState
    config: TrainingConfig
    phase: str = ""
    """One of `studio.training.events.RunPhase`; empty before the worker said anything."""
    step: int = 0
    max_steps: int = 0
    epoch: float = 0.0
    eta_seconds: float | None = None
    """Until it is trained; before and after, until what it is doing is done."""
    samples_per_second: float | None = None
    speedup: float | None = None
    """In short-audio mode, against padding every batch, as measured on those that are padded."""
    memory_bytes: int | None = None
    memory: Mapping[str, Any] | None = None
    """`predicted` and `measured` bytes, as `studio.training.memory_watch` tells them."""
    loss_points: tuple[tuple[int, float], ...] = ()
    """(step, loss)."""
    learning_rate: float | None = None
    """At its peak; None before the worker knows."""
    rate_points: tuple[tuple[int, float], ...] = ()
    """(step, learning rate)."""
    eval_points: tuple[EvalPoint, ...] = ()
    metric: str = ""
    """`wer` or `cer`: what decides which checkpoint is best; empty before the worker knows."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Of a finished run: `base` and `final` evaluation, `best_step`."""
    short_audio: Mapping[str, Any] | None = None
    """What short windows gain and cost the finished model (see `studio.evaluation.reading_short`)."""
    capabilities: Mapping[str, Any] | None = None
    """What the finished model can still do that the base could (see `studio.evaluation.capabilities`)."""
    eval_progress: tuple[int, int] | None = None
    """Clips done and in all while an evaluation runs or the base reads; checks of the finished model."""
    samples: tuple[Mapping[str, str], ...] = ()
    """`reference` and `hypothesis` of a few clips in the latest evaluation."""
    earlier_samples: tuple[tuple[int, tuple[Mapping[str, str], ...]], ...] = ()
    """(step, the same) of each evaluation."""
    data_wait_share: float | None = None
    """Share of the latest steps' time in which the model waited for batches."""
    checkpoints_bytes: int = 0
    """What they take on the disk."""
    removable_bytes: int = 0
    """What of that can be given back: all of a finished run, of another all but its last and its
    best checkpoint."""
    has_checkpoint: bool = False
    """Whether there is one to go on from; a list of runs does not look, as with all that takes longest."""
    disk_free_bytes: int | None = None
    """What is left on the disk of the run; None where it was not looked at."""
    data: Mapping[str, Any] | None = None
    """The `data` event."""
    warnings: tuple[Message, ...] = ()
    retries: tuple[Retry, ...] = ()
    """Attempts that followed when memory ran out."""
    error: Message | None = None
    model_id: str | None = None
    created: str = ""
    """ISO 8601 in UTC, as `started` and `ended`; empty if unknown."""
    started: str = ""
    ended: str = ""
    queue_position: int | None = None
    """1 is next; None if it does not wait."""

    @property
    def learns(self) -> bool:
        """Whether it is between its first and its last step: `eta_seconds` is then of all that are left."""
        return self.phase in (RunPhase.TRAINING, RunPhase.EVALUATING) and 0 < self.step < self.max_steps

    @property
    def can_stop(self) -> bool:
        """Whether a stop can be asked for."""
        return self.state in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)

    @property
    def can_resume(self) -> bool:
        """Whether the run can be queued again, to go on from its last checkpoint."""
        return self.state in RESUMABLE

    @property
    def stop_note(self) -> Message:
        """What is left of a stopped run."""
        if self.has_checkpoint:
            return Message("Stopped; the last checkpoint is kept. Resume goes on from there.")
        if not self.started:
            return Message("Cancelled before it began: nothing was trained. Resume queues it again.")
        return Message("Stopped before its first checkpoint: nothing is kept. Resume begins anew.")


def read_result(run: RunDir) -> dict[str, Any] | None:
    """`result.json`, None while there is none."""
    try:
        result: dict[str, Any] | None = fitting(read_json(run.result), RESULT)
    except (OSError, ValueError):
        return None
    return result


def read_state(run: RunDir, last_event: float | None = None) -> JobState:
    """A result decides, then a living process, then the queue; whatever is left was stopped or interrupted.

    `last_event` is the time of the run's latest event: a worker that said nothing yet is starting.
    """
    result = read_result(run)
    if result is not None:
        found = str(result.get("state"))
        return JobState(found) if found in ("finished", "stopped", "failed") else JobState.FAILED
    if process.is_alive(run):
        if run.stop_request.exists():
            return JobState.STOPPING
        return JobState.RUNNING if process.has_spoken(run, last_event) else JobState.STARTING
    if read_result(run) is not None:  # it ended between the two looks
        return read_state(run, last_event)
    if run.queue_entry.exists():
        return JobState.QUEUED
    # Asked to stop and gone: it was ended after the grace time, or could not save any more.
    return JobState.STOPPED if run.stop_request.exists() else JobState.INTERRUPTED


def why_interrupted(run: RunDir) -> RunError:
    """A sentence about a worker that left no result."""
    code = exit_code(run)
    if code is None:
        return RunError("The worker ended without a result: it was killed, or the machine was switched off.")
    if is_killed(code):
        return RunError(
            "The worker was killed, probably for memory: start a new run with a smaller "
            "per_device_train_batch_size or with gradient_checkpointing."
        )
    return RunError(
        "The worker ended without a result, with exit code {code}. Its log may say why.", code=code
    )


def exit_code(run: RunDir) -> int | None:
    """How the run's process ended, where its starter saw it."""
    try:
        return int(noted(run.exit, "exit_code"))
    except ValueError:
        return None


def is_killed(code: int) -> bool:
    """Whether an exit code says that a process was ended from outside at once."""
    return code in _KILLED


def read_run_config(run: RunDir) -> tuple[TrainingConfig, Message | None]:
    """The run's configuration, or why it cannot be read, with what is known of it or the defaults."""
    try:
        return read_config(run.config), None
    except StudioError as error:
        try:
            return read_known(run.config), error.message()
        except StudioError:
            return TrainingConfig(), error.message()


def iso(seconds: float | None) -> str:
    """Seconds since the epoch as ISO 8601 in UTC; empty for None."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def queued_at(run: RunDir) -> float | None:
    """When the run took its place in the queue, or the file was written if it is broken; else None."""
    try:
        try:
            return float(read_json(run.queue_entry)["queued"])
        except (ValueError, KeyError, TypeError):
            return run.queue_entry.stat().st_mtime
    except OSError:
        return None


def created_at(run: RunDir) -> str:
    """When the run was submitted."""
    return noted(run.record, "created")
