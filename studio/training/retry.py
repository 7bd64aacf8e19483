"""After memory ran out: the same run once more, in a fresh process that takes less at a time.

What is changed never changes what is learned: the clips of one optimizer step stay the same, and their places
in batches of the size that the run began with decide which have times or are padded. Changes are kept in the
run's `retries.json`, over its configuration, so that any studio may start the next attempt.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from studio.errors import RunError
from studio.files import read_json, write_json
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.training.events import RunPhase, read_events
from studio.training.run_dir import RunDir
from studio.units import format_bytes

OUT_OF_MEMORY, KILLED = "out_of_memory", "killed"
MOST_RETRIES = 10
"""Of one run; a run of ordinary size has tried everything before."""
_AFTER_TRAINING = (RunPhase.SAVING, RunPhase.CHECKING, RunPhase.TIMING)


@dataclass(frozen=True)
class Shortage:
    """How an attempt ended for want of memory."""

    cause: str
    """`out_of_memory`: an allocation failed; `killed`: the system ended a process."""
    phase: str
    """What the worker was doing."""
    step: int
    asked_bytes: int | None = None
    free_bytes: int | None = None

    def __str__(self) -> str:
        return str(self.sentence())

    def sentence(self) -> Message:
        """What happened."""
        if self.cause == KILLED:
            return Message("The worker was killed at step {step}, probably for memory.", step=self.step)
        if self.asked_bytes is None:
            return Message("Memory ran out at step {step}.", step=self.step)
        return Message(
            "Memory ran out at step {step}: {asked} were asked for, {free} were free.",
            step=self.step,
            asked=format_bytes(self.asked_bytes),
            free=format_bytes(self.free_bytes or 0),
        )


@dataclass(frozen=True)
class Retry:
    """One more attempt, and what it does otherwise."""

    shortage: Shortage
    before: Mapping[str, Any]
    changes: Mapping[str, Any]
    """Option → value, over the configuration and the changes before."""
    time: float

    def sentences(self) -> tuple[Message, Message]:
        """What happened, and how the run goes on."""
        changes = ", ".join(f"{name} {self.before[name]} → {self.changes[name]}" for name in self.changes)
        return self.shortage.sentence(), Message("It goes on with {changes}.", changes=changes)


def read_retries(run: RunDir) -> tuple[Retry, ...]:
    """Of a run so far, in their order."""
    try:
        rows = read_json(run.retries)["retries"]
        return tuple(Retry(Shortage(**row.pop("shortage")), **row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def with_retries(config: TrainingConfig, retries: tuple[Retry, ...]) -> TrainingConfig:
    """The configuration of the next attempt."""
    for retry in retries:
        config = replace(config, **retry.changes)
    return config


def plan_retry(run: RunDir, config: TrainingConfig, shortage: Shortage) -> Retry | None:
    """Records what the next attempt of the run does otherwise; None if there is nothing left to try.

    `config` is that of the run, without earlier changes.

    Raises:
        StorageError: if it cannot be written.
    """
    if config.has_machines:  # the other machines would have to change the same, at the same time
        return None
    earlier = read_retries(run)
    now = with_retries(config, earlier)
    changes = _changes(now, shortage)
    if not changes or len(earlier) >= MOST_RETRIES:
        return None
    retry = Retry(shortage, {name: getattr(now, name) for name in changes}, changes, time.time())
    write_json(run.retries, {"schema_version": 1, "retries": [asdict(each) for each in (*earlier, retry)]})
    return retry


def _changes(config: TrainingConfig, shortage: Shortage) -> dict[str, Any]:
    """What takes less memory and gives the same model; empty if nothing does."""
    if shortage.phase not in (RunPhase.TRAINING, *_evaluating(config)):
        return {}
    if shortage.cause == KILLED and config.dataloader_num_workers:
        return {"dataloader_num_workers": 0}
    if shortage.phase in _evaluating(config):
        return _smaller_evaluation(config)
    clips = config.clips_per_step
    half = config.per_device_train_batch_size // 2
    if half:
        # A whole part of the batch: its clips are learned as they were to be within it.
        batch = max(size for size in range(1, half + 1) if config.per_device_train_batch_size % size == 0)
        return {"per_device_train_batch_size": batch, "gradient_accumulation_steps": clips // batch}
    if not config.gradient_checkpointing:
        return {"gradient_checkpointing": True}
    return _smaller_evaluation(config)


def _evaluating(config: TrainingConfig) -> tuple[RunPhase, ...]:
    """The phases with batches as of an evaluation: a teacher listens in them, too."""
    return (RunPhase.EVALUATING, RunPhase.LISTENING) if config.distill else (RunPhase.EVALUATING,)


def _smaller_evaluation(config: TrainingConfig) -> dict[str, Any]:
    half = config.per_device_eval_batch_size // 2
    return {"per_device_eval_batch_size": half} if half else {}


def nothing_left(config: TrainingConfig, shortage: Shortage) -> RunError:
    """Why a run that is short of memory is given up, and what to do; `config` is that of the last attempt."""
    if shortage.phase in _AFTER_TRAINING:
        return RunError(
            "{what} The model is trained, and its checkpoints are kept: end other programs and resume the "
            "run.",
            what=shortage.sentence(),
        )
    if shortage.phase not in (RunPhase.TRAINING, *_evaluating(config)):
        return RunError(
            "{what} The model was not in training yet, so that a smaller batch would not help: choose a "
            "smaller base_model or quantization 4bit, or end other programs. python -m studio fit finds a "
            "run that fits.",
            what=shortage.sentence(),
        )
    return RunError(
        "{what} There is nothing left to make smaller (batch {batch}, gradient checkpointing "
        "{checkpointing}, evaluation batch {evaluation}): choose a smaller base_model, method lora or "
        "quantization 4bit. python -m studio fit finds a run that fits.",
        what=shortage.sentence(),
        batch=config.per_device_train_batch_size,
        checkpointing=Message("on") if config.gradient_checkpointing else Message("off"),
        evaluation=config.per_device_eval_batch_size,
    )


def last_known(run: RunDir) -> tuple[str, int]:
    """RunPhase and step that a worker told of last."""
    phase, step = "", 0
    for event in read_events(run.events)[0]:
        if event["kind"] == "phase":
            phase = str(event["phase"])
        elif event["kind"] in ("step", "resumed"):
            step = int(event["step"])
    return phase, step
