"""What the events of a run say about what it has done so far."""

from collections.abc import Mapping
from typing import Any

from studio.files import noted
from studio.training.events import read_events
from studio.training.run_dir import RunDir


def _told(run: RunDir, kind: str) -> list[Mapping[str, Any]]:
    return [event for event in read_events(run.events)[0] if event["kind"] == kind]


def has_begun(run: RunDir) -> bool:
    """Whether a worker got as far as data before this one."""
    return bool(_told(run, "data"))


def data_hash_of(run: RunDir) -> str | None:
    """Hash of what the latest attempt learned from; None if there was none, or of an older studio."""
    hashes = [event.get("data_hash") for event in _told(run, "data")]
    return hashes[-1] if hashes else None


def learning_rate_of(run: RunDir) -> float | None:
    """The rate that the run was planned with; None if it was never planned."""
    rates = [event.get("learning_rate") for event in _told(run, "plan")]
    return rates[-1] if rates else None


def evaluation_seconds_of(run: RunDir) -> float:
    """How long the latest evaluation took; 0 if there was none."""
    seconds = [event.get("seconds") for event in _told(run, "eval")]
    return (seconds[-1] or 0.0) if seconds else 0.0


def spent_seconds_of(run: RunDir) -> tuple[float, float]:
    """How long all attempts so far trained and evaluated, but for what one that was killed did after its last
    checkpoint."""
    spent = (_told(run, "spent") or [{}])[-1]
    return spent.get("training_seconds", 0.0), spent.get("evaluating_seconds", 0.0)


def evaluations(run: RunDir) -> dict[int, dict[str, Any]]:
    """The latest `eval` event of each step, without those of steps that a resumption took back."""
    found: dict[int, dict[str, Any]] = {}
    for event in read_events(run.events)[0]:
        if event["kind"] == "resumed":
            found = {step: point for step, point in found.items() if step <= event["step"]}
        elif event["kind"] == "eval":
            known = ("step", "epoch", "wer", "cer", "loss", "intervals", "cer_in_one_script")
            found[event["step"]] = {key: event[key] for key in known if key in event}
    return found


def started_by(run: RunDir) -> str:
    """Which visitor of a Space submitted the run; empty for everybody else."""
    return noted(run.record, "visitor")
