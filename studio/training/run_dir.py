"""Every file name of a run, and nothing else: worker, jobs, page and tests agree through it."""

from dataclasses import dataclass
from pathlib import Path

from studio.files import InFolder


@dataclass(frozen=True)
class RunDir:
    """The folder `runs/ID`, the only record of a training attempt."""

    path: Path

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.path.name

    config = InFolder("config.json")
    """`TrainingConfig` as JSON, written once before the run is queued."""
    record = InFolder("run.json")
    """When the run was submitted, and in which working directory; written once."""
    queue_entry = InFolder("queued.json")
    """There while the run waits; holds its place."""
    process = InFolder("process.json")
    """Process id and start time of the worker."""
    exit = InFolder("exit.json")
    """Exit code of a worker that left no result, as far as its parent saw it."""
    retries = InFolder("retries.json")
    """What was changed after memory ran out (see `studio.training.retry`)."""
    lock = InFolder("worker.lock")
    """Held by the worker for as long as it lives."""
    events = InFolder("events.jsonl")
    """Append-only record of what the worker did (see `studio.training.events`)."""
    log = InFolder("worker.log")
    """Standard output and error of the worker."""
    stop_request = InFolder("stop")
    """There once somebody asked the worker to stop."""
    failure = InFolder("failure.json")
    """Why the first of several processes failed that did; the others only see that it is gone."""
    result = InFolder("result.json")
    """Written last of all: state, metrics, model id or error."""
    reserve = InFolder("reserve")
    """Holds a little space, so that a run on a full disk can still write how it ended."""
    cache = InFolder("cache")
    """What the run would have to compute again after a break; gone when it is finished."""
    times = InFolder("times.jsonl")
    """Times that the base model made for texts without any (see `studio.training.data.times_file`)."""
    checkpoints = InFolder("checkpoints")
    """Checkpoints of the trainer."""
