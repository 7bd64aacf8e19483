"""A recording that still goes on, heard as a file is: a window as soon as it is full, the rest at the end.

So its text is there soon after the end, however long it is.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.engine import TranscribeOptions, Transcript
from studio.transcription.stretches import Recording
from studio.transcription.transcriber import Transcriber
from studio.transcription.windows import WINDOW_SAMPLES

_PATIENCE_SAMPLES = 20 * SAMPLING_RATE
"""So much more than a window may wait."""


class GrowingRecording:
    """One recording. Not thread-safe: its calls come one after the other."""

    def __init__(
        self, lend: Callable[[], AbstractContextManager[Transcriber]], options: TranscribeOptions
    ) -> None:
        """`lend` gives the model for as long as it is needed."""
        self._lend = lend
        self._options = options
        self._recording: Recording | None = None
        self._sound = np.zeros(0, np.float32)
        """What was not heard yet, or not to its end."""
        self._heard_samples = 0

    def add(self, samples: NDArray[np.float32]) -> None:
        """Takes the next mono samples at 16 kHz."""
        self._sound = np.concatenate([self._sound, samples])

    def is_due(self, *, is_busy: bool) -> bool:
        """Whether there is a full window, and this is a good moment to hear it: a better one may come while
        somebody `is_busy` speaking, but not for ever.
        """
        return len(self._sound) > WINDOW_SAMPLES + (is_busy and _PATIENCE_SAMPLES)

    def hear(self) -> None:
        """Hears what is full."""
        if len(self._sound) > WINDOW_SAMPLES:
            with self._lend() as engine:
                self._hear(engine, is_last=False)

    def finish(self) -> Transcript:
        """Hears the rest."""
        with self._lend() as engine:
            recording = self._hear(engine, is_last=True)
            return engine.transcript(recording, self._heard_samples / SAMPLING_RATE, self._options)

    def _hear(self, engine: Transcriber, *, is_last: bool) -> Recording:
        recording = self._recording = self._recording or engine.begin(self._options)
        begins = self._heard_samples / SAMPLING_RATE
        count = engine.hear_part(recording, self._sound, begins, self._options, is_last=is_last)
        self._sound = self._sound[count:]
        self._heard_samples += count
        return recording
