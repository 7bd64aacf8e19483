"""How long a run took: what it takes once, and what each step and each evaluation takes."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from studio.options.training import TrainingConfig
from studio.training.events import RunPhase, read_events
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule


@dataclass(frozen=True)
class Pace:
    """Seconds of a run's last process."""

    once: float
    """To start, load, read and save, to choose the strength and to check what came out."""
    step: float
    evaluation: float

    def of(self, config: TrainingConfig, schedule: Schedule) -> float:
        """What a run takes from start to end that goes at this pace."""
        steps, evaluations = schedule.max_steps, schedule.evaluations(config)
        return self.once + self.step * steps + self.evaluation * evaluations


def pace_of(run: RunDir, ended: str) -> Pace | None:
    """By the times of its phases, of which the last is over when the run has `ended` (ISO 8601); None if it
    made no step, or they cannot be told any more.
    """
    try:
        return _pace_of(run.events, datetime.fromisoformat(ended).timestamp())
    except (OSError, TypeError, ValueError, KeyError):
        return None


@lru_cache(maxsize=64)
def _pace_of(events: Path, ended: float) -> Pace | None:
    found, _ = read_events(events)
    began, seconds = "", defaultdict[str, float](float)
    since = first = last = evaluations = evaluating = 0
    for event in [*found, {"kind": "phase", "time": ended, "phase": ""}]:
        if event.get("phase") == RunPhase.STARTING:  # what processes before it did is another story
            began, seconds = "", defaultdict(float)
            first = last = evaluations = evaluating = 0
        if event["kind"] == "phase":
            seconds[began] += event["time"] - since
            began, since = event["phase"], event["time"]
        elif event["kind"] == "resumed":
            first = last = event["step"]
        elif event["kind"] == "step":
            last = event["step"]
        elif event["kind"] == "eval":
            evaluations, evaluating = evaluations + 1, evaluating + event["time"] - since
            since = event["time"]  # what is evaluated after the training has no such event, and comes once
    seconds.pop("")
    training = seconds.pop(RunPhase.TRAINING, 0.0)
    if last <= first:
        return None
    return Pace(sum(seconds.values()), training / (last - first), evaluating / max(evaluations, 1))
