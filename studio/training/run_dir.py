"""Every file name of a run, and nothing else: worker, jobs, page and tests agree through it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """The folder `runs/ID`, the only record of a training attempt."""

    path: Path

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.path.name

    @property
    def config(self) -> Path:
        """`TrainingConfig` as JSON, written once before the run is queued."""
        return self.path / "config.json"

    @property
    def record(self) -> Path:
        """When the run was submitted, and in which working directory; written once."""
        return self.path / "run.json"

    @property
    def queue_entry(self) -> Path:
        """There while the run waits; holds its place."""
        return self.path / "queued.json"

    @property
    def process(self) -> Path:
        """Process id and start time of the worker."""
        return self.path / "process.json"

    @property
    def exit(self) -> Path:
        """Exit code of a worker that left no result, as far as its parent saw it."""
        return self.path / "exit.json"

    @property
    def retries(self) -> Path:
        """What was changed after memory ran out (see `studio.training.retry`)."""
        return self.path / "retries.json"

    @property
    def lock(self) -> Path:
        """Held by the worker for as long as it lives."""
        return self.path / "worker.lock"

    @property
    def events(self) -> Path:
        """Append-only record of what the worker did (see `studio.training.events`)."""
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """Standard output and error of the worker."""
        return self.path / "worker.log"

    @property
    def stop_request(self) -> Path:
        """There once somebody asked the worker to stop."""
        return self.path / "stop"

    @property
    def failure(self) -> Path:
        """Why the first of several processes failed that did; the others only see that it is gone."""
        return self.path / "failure.json"

    @property
    def result(self) -> Path:
        """Written last of all: state, metrics, model id or error."""
        return self.path / "result.json"

    @property
    def reserve(self) -> Path:
        """Holds a little space, so that a run on a full disk can still write how it ended."""
        return self.path / "reserve"

    @property
    def cache(self) -> Path:
        """What the run would have to compute again after a break; gone when it is finished."""
        return self.path / "cache"

    @property
    def times(self) -> Path:
        """Times that the base model made for texts without any (see `studio.training.data.times_file`)."""
        return self.path / "times.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the trainer."""
        return self.path / "checkpoints"
