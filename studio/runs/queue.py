"""The runs of a home and their queue, as the folders tell it."""

import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from studio.files import write_json
from studio.runs import process
from studio.runs.status import JobState, iso, queued_at
from studio.settings import Settings
from studio.training.run_dir import RunDir


@dataclass(frozen=True)
class RunQueue:
    """Which runs there are, which wait, which are at work. Safe to share by threads and processes."""

    settings: Settings

    def folders(self) -> list[RunDir]:
        """All runs, in no order."""
        runs: Path = self.settings.runs
        if not runs.is_dir():
            return []
        return [RunDir(path) for path in runs.iterdir() if path.is_dir() and not path.name.startswith(".")]

    def at_work(self) -> list[RunDir]:
        """Runs with a living worker."""
        return [
            run
            for run in self.folders()
            if run.process.exists() and not run.result.exists() and process.is_alive(run)
        ]

    def waiting(self) -> list[RunDir]:
        """Queued runs, first come first served."""
        entries = [run for run in self.folders() if run.queue_entry.exists() and not run.result.exists()]
        places = [(place, run.run_id) for run in entries if (place := queued_at(run)) is not None]
        return [RunDir(self.settings.runs / name) for _, name in sorted(places)]

    def next(self) -> RunDir | None:
        """The run whose turn it is; None if nothing waits or a worker is at work."""
        waiting = self.waiting()
        return waiting[0] if waiting and not self.at_work() else None

    def enter(self, run: RunDir, *, first: bool = False) -> None:
        """Puts a run at the end of the queue, wherever the clock is meanwhile, or before all others."""
        places = [queued_at(other) or 0.0 for other in self.waiting()]
        place = 0.0 if first else max([time.time(), *(last + 1e-3 for last in places)])
        write_json(run.queue_entry, {"schema_version": 1, "queued": place})

    def lock(self, timeout_seconds: float) -> FileLock:
        """Whoever changes a run's place, or starts one, holds this. Raises filelock.Timeout."""
        return FileLock(self.settings.home / "queue.lock", timeout=timeout_seconds)


def close_record(run: RunDir, state: JobState, error: str = "") -> None:
    """Writes the result of a run whose worker did not, or will not, write one."""
    ended = iso(time.time())
    write_json(run.result, {"schema_version": 1, "state": state, "error": error, "ended": ended})
