"""How a run is asked to stop."""

import os
import signal
from pathlib import Path
from types import FrameType


class StopRequested(Exception):
    """Somebody asked the run to stop, at a place where it can."""


class StopSignal:
    """A stop request: the file that the studio writes, or SIGTERM, or Ctrl-C."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._signalled = False
        self._parent: int | None = None

    def listen(self) -> None:
        """Takes over SIGTERM and SIGINT in the main thread of a worker."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True

    def follow_parent(self) -> None:
        """Stops when the process that started this one is gone: nobody would look after it any more."""
        self._parent = os.getppid()

    @property
    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return self._signalled or is_orphan or self._file.exists()

    def check(self) -> None:
        """Raises StopRequested: if it was."""
        if self.is_set:
            raise StopRequested
