"""How transcripts and training runs share a machine.

A GPU is the run's: what is transcribed meanwhile is computed on the CPU. Where there is no GPU, both share
the processor. A run that is about to start waits a while for transcripts under way, in every process of the
home.
"""

import errno
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from studio.files import storage_errors
from studio.messages import Message
from studio.options.choices import ENGINES, FASTER_WHISPER
from studio.transcription.devices import has_accelerator

WAIT_SECONDS = 30.0
"""A run waits so long for transcripts under way."""
_GIVES_WAY_SECONDS = 5.0
"""Between the moment when the GPU was freed for a run and the one in which its process is seen."""


class Sharing:
    """The rule, and who transcribes now. Safe to share by threads."""

    def __init__(
        self,
        folder: Path,
        run_at_work: Callable[[], str | None],
        has_gpu: Callable[[], bool] = has_accelerator,
        *,
        names_runs: bool = True,
    ) -> None:
        """Who transcribes holds a lock in `folder`; `run_at_work` names a run that has the machine, and
        `names_runs` says whether everybody may know it."""
        self._folder = folder
        self._run_at_work = run_at_work
        self._has_gpu = has_gpu
        self._names_runs = names_runs
        self._lock = threading.Lock()
        self._count = 0
        self._own: FileLock | None = None
        self._gives_way_until = 0.0

    def device(self, asked: str) -> str:
        """Where a model is to be loaded: `asked`, except that `auto` is the CPU while a run has the GPU."""
        if asked != "auto":
            return asked
        is_taken = time.monotonic() < self._gives_way_until or self._run_at_work() is not None
        return "cpu" if is_taken and self._has_gpu() else asked

    def notice(self, asked: str) -> Message | None:
        """What somebody who transcribes now is told; None while no run is at work."""
        run = self._run_at_work()
        if run is None:
            return None
        run = run if self._names_runs else "…"
        if asked == "auto" and self._has_gpu():
            return Message(
                "Run {run} trains on the GPU: until it ends, recordings are transcribed on the CPU, which "
                "takes longer.",
                run=run,
            )
        return Message(
            "Run {run} trains on this machine: both share its processor, so transcribing takes longer.",
            run=run,
        )

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """For as long as somebody transcribes in this process.

        Raises:
            StorageError: if the disk is full.
        """
        self._begin()
        try:
            yield
        finally:
            self._end()

    def give_way(self, seconds: float) -> None:
        """From now on nothing new takes the GPU: a run starts within `seconds`, and a little after."""
        self._gives_way_until = time.monotonic() + seconds + _GIVES_WAY_SECONDS

    def wait_for_others(self, seconds: float) -> bool:
        """Waits until no other process transcribes, or `seconds` are over; whether none does."""
        end = time.monotonic() + seconds
        try:
            for path in self._folder.glob("*.lock") if self._folder.is_dir() else ():
                self._wait_for(path, end)
        except Timeout:
            return False
        finally:
            self.give_way(0.0)
        return True

    def _wait_for(self, path: Path, end: float) -> None:
        """Until the process that holds a lock lets go of it, or is gone."""
        if self._own is not None and path == Path(self._own.lock_file):
            return
        with FileLock(path, timeout=max(0.0, end - time.monotonic())):
            pass
        path.unlink(missing_ok=True)

    def _begin(self) -> None:
        with self._lock:
            if self._count == 0:
                with storage_errors(self._folder):
                    self._own = self._locked()
            self._count += 1

    def _locked(self) -> FileLock | None:
        """The lock; None in a home that may only be read, in which no run of this user can start."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}.lock"
            lock = FileLock(self._folder / name, thread_local=False)
            lock.acquire()
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise
        return lock

    def _end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._own is not None:
                self._own.release()
                Path(self._own.lock_file).unlink(missing_ok=True)
                self._own = None


def precision_on_cpu(engine: str, precision: str, known: tuple[str, ...]) -> str:
    """The precision asked for, or the nearest that a CPU has, which knows `known` with faster-whisper."""
    if engine != FASTER_WHISPER or precision in (*known, "auto"):
        return precision
    assert precision in ENGINES[FASTER_WHISPER]
    return "int8" if precision.startswith("int8") and "int8" in known else "auto"
