"""The sound of those who speak to the page: kept while they may want it heard again, an hour at most."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE


class SpokenSound:
    """A file that grows. Sound that cannot be kept whole, for its length or for want of room, is not kept."""

    def __init__(self, folder: Path, most_seconds: float) -> None:
        """`folder` is among the uploads, which forget what is old."""
        self._path = folder / f"{uuid.uuid4().hex}.flac"
        self._left = most_seconds * SAMPLING_RATE
        self._file: Any = None
        self._is_whole = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            self._is_whole = False

    def add(self, samples: NDArray[np.float32]) -> None:
        """The next mono samples at 16 kHz."""
        import soundfile

        self._left -= len(samples)
        if not self._is_whole:
            return
        try:
            if self._file is None:
                self._file = soundfile.SoundFile(self._path, "w", SAMPLING_RATE, 1, format="FLAC")
            self._file.write(samples)
            if self._left < 0:
                self.forget()
        except (OSError, soundfile.SoundFileError):
            self.forget()

    def end(self) -> Path | None:
        """The whole file; None if there is none."""
        if self._file is None or not self._is_whole:
            return None
        self._file.close()
        return self._path

    def forget(self) -> None:
        """Deletes it: nobody will ask for it."""
        self._is_whole = False
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
