"""The background thread of a studio: starts queued runs one at a time and looks after their workers."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from studio.errors import StudioError, in_brief
from studio.files import is_listed, sweep, write_json
from studio.messages import Message
from studio.runs import process
from studio.runs.status import JobState, is_killed, iso, queued_at, read_result, read_run_config
from studio.settings import Settings
from studio.training.outcome import error_to_plain
from studio.training.retry import KILLED, Shortage, last_known, plan_retry
from studio.training.run_dir import RunDir

_STILL_SECONDS = 2.0


def is_settled(changed_ns: int) -> bool:
    """Whether a later change is certain to have another time: not right after this one, since the times
    of a file system are coarse."""
    return 0 < changed_ns < time.time_ns() - _STILL_SECONDS * 1e9


@dataclass(frozen=True)
class RunQueue:
    """Which runs there are, which wait, which are at work. Safe to share by threads and processes."""

    settings: Settings
    _ended: dict[str, int] = field(default_factory=dict)
    """Run that has a result → when its folder changed last, in ns: until it does again, nobody looks into it.
    The queue is looked at twice a second, and there may be thousands of them."""

    _known: dict[int, list[str]] = field(default_factory=dict)
    """When the folder of all runs changed last, in ns → their ids: an open page asks for them many times."""

    def names(self) -> list[str]:
        """Ids of all runs, in no order."""
        try:
            changed = self.settings.runs.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if (names := self._known.get(changed)) is None:
            names = [entry.name for entry in self._entries()]
            if is_settled(changed):
                self._known.clear()
                self._known[changed] = names
        return list(names)

    def _entries(self) -> list[os.DirEntry[str]]:
        if not self.settings.runs.is_dir():
            return []
        with os.scandir(self.settings.runs) as entries:
            return [entry for entry in entries if _is_folder(entry) and is_listed(entry.name)]

    def open(self) -> list[RunDir]:
        """Runs without a result, in no order."""
        found = []
        for entry in self._entries():
            try:
                changed = entry.stat().st_mtime_ns
            except FileNotFoundError:  # removed since
                continue
            if self._ended.get(entry.name) == changed:
                continue
            run = RunDir(Path(entry.path))
            if not run.result.exists():
                found.append(run)
            elif is_settled(changed):
                self._ended[entry.name] = changed
        return found

    def at_work(self) -> list[RunDir]:
        """Runs with a living worker."""
        return [run for run in self.open() if run.process.exists() and process.is_alive(run)]

    def waiting(self) -> list[RunDir]:
        """Queued runs, first come first served."""
        entries = [run for run in self.open() if run.queue_entry.exists()]
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


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def close_record(run: RunDir, state: JobState, error: Message | None = None) -> None:
    """Writes the result of a run whose worker did not, or will not, write one."""
    record = {"schema_version": 1, "state": state, **error_to_plain(error), "ended": iso(time.time())}
    write_json(run.result, record)


_LOOK_SECONDS = 0.5
_FULL_DISK_SECONDS = 30.0
"""Until a start is tried again that not even its failure could be written of."""
log = logging.getLogger(__name__)


class Starter:
    """Starts, reaps, and ends what does not stop in time. Any number of them may share one home."""

    def __init__(self, queue: RunQueue, before_start: Callable[[], None]) -> None:
        """`before_start` is called before a worker is started, to free memory."""
        self._queue = queue
        self._settings = queue.settings
        self._before_start = before_start
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._asked: dict[Path, float] = {}
        """When a stop was first seen, on a clock that nobody sets."""
        self._not_before = 0.0
        """When the next start may be tried, on that clock."""
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the background thread, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends the thread. Workers go on: they belong to nobody."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for child in self._children.values():
            child.returncode = child.poll() or 0  # or Python warns of a child that outlives its handle
        self._children.clear()

    def _work(self) -> None:
        sweep(self._settings.runs)
        while not self._closing.is_set():
            try:
                self._look()
            except Exception:
                log.exception("The queue of runs met an error and goes on.")
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()

    def _look(self) -> None:
        self._reap()
        self._end_overdue()
        if time.monotonic() >= self._not_before and self._queue.next() is not None:
            try:
                self._before_start()
            except StudioError as error:
                log.warning("Memory could not be freed before a run: %s", error)
            self._start_next()

    def _reap(self) -> None:
        """Records how a child ended that left no result."""
        for path, child in list(self._children.items()):
            code = child.poll()
            if code is None:
                continue
            run = RunDir(path)
            try:
                if path.exists() and read_result(run) is None and process.recorded_pid(run) == child.pid:
                    self._record_end(run, code)
            finally:
                del self._children[path]

    def _record_end(self, run: RunDir, code: int) -> None:
        """A killed worker is followed by one that takes less memory; of any other the exit code is kept."""
        if run.queue_entry.exists():  # it has seen to that itself
            return
        if is_killed(code) and not run.stop_request.exists():
            config, broken = read_run_config(run)
            phase, step = last_known(run)
            if not broken and plan_retry(run, config, Shortage(KILLED, phase, step)):
                self._queue.enter(run, first=True)
                return
        write_json(run.exit, {"schema_version": 1, "exit_code": code})

    def _end_overdue(self) -> None:
        """Ends workers that were asked to stop and did not within the grace time."""
        for run in self._queue.at_work():
            if not run.stop_request.exists():
                self._asked.pop(run.path, None)
                continue
            asked = self._asked.setdefault(run.path, time.monotonic())
            if time.monotonic() - asked >= self._settings.stop_grace_seconds:
                process.terminate_tree(run)

    def _start_next(self) -> None:
        try:
            with self._queue.lock(0):
                run = self._queue.next()
                if run is None:
                    return
                try:
                    self._children[run.path] = process.spawn(run, self._settings)
                except (OSError, StudioError) as error:
                    self._not_before = time.monotonic() + _FULL_DISK_SECONDS
                    why = Message("The worker could not be started: {reason}", reason=in_brief(error))
                    close_record(run, JobState.FAILED, why)
                    self._not_before = 0.0
                run.queue_entry.unlink(missing_ok=True)
        except Timeout:
            return  # another studio on this home is starting one

    def has_to_see_to(self, run: RunDir) -> bool:
        """Whether a worker started here may be gone, and what follows is not decided yet."""
        return run.path in self._children

    def wake(self) -> None:
        """Something changed: looks now rather than a moment later."""
        self._wake.set()
