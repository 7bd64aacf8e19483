"""How a run is asked to stop."""

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

    def listen(self) -> None:
        """Takes over SIGTERM and SIGINT in the main thread of a worker."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True

    @property
    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        return self._signalled or self._file.exists()

    def check(self) -> None:
        """Raises StopRequested: if it was."""
        if self.is_set:
            raise StopRequested
