"""What the engines have in common: a model that is lent to them, and how a file becomes samples."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import audio_duration, stream_audio
from studio.transcription.engine import OnProgress, ShouldStop, TranscribeOptions, Transcript
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.windows import WindowLengths
from studio.whisper.audio_context import SHORT


class Loaded(Protocol):
    """A model in memory, whatever plays it."""

    @property
    def tokens(self) -> SpecialTokens:
        """Its special tokens: which languages and tasks it knows."""
        ...


L = TypeVar("L", bound=Loaded)


class LentEngine(ABC, Generic[L]):
    """An engine as long as its lease lasts."""

    def __init__(
        self, loaded: L, model_id: str, audio_context: str, windows: WindowLengths | None = None
    ) -> None:
        """`model_id` is what transcripts name.

        `audio_context`: what the encoder was trained to see, `full` windows or the sound's length (`short`).
        `windows`: how a long recording is cut for a model that sees the sound's length.
        """
        self._lent: L | None = loaded
        self._audio_context = audio_context
        self._windows = windows or WindowLengths()
        self.model_id = model_id

    @property
    def _loaded(self) -> L:
        assert self._lent is not None, "the lease of this engine has ended"
        return self._lent

    def release(self) -> None:
        """Lets go of the model, so that whoever still holds the engine does not keep it in memory."""
        self._lent = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes that the model knows; none for an English-only model."""
        return tuple(self._loaded.tokens.languages)

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes a recording of any length, a stretch at a time, never holding it whole in memory.

        If `should_stop` says so, the transcript ends with the window or the segment at hand.

        Raises:
            AudioError: if the file cannot be read.
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        return self.transcribe_samples(
            stream_audio(audio_path),
            audio_duration(audio_path),
            options,
            on_progress,
            should_stop,
            audio_path=str(audio_path),
        )

    @abstractmethod
    def transcribe_samples(
        self,
        blocks: Iterable[NDArray[np.float32]],
        total_seconds: float,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
        *,
        audio_path: str = "",
    ) -> Transcript:
        """The same for blocks of mono samples at 16 kHz; `total_seconds` is their length as far as known.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """

    def _is_short(self, options: TranscribeOptions) -> bool:
        asked = options.audio_context
        return (self._audio_context if asked == "auto" else asked) == SHORT

    def _window_lengths(self, options: TranscribeOptions) -> WindowLengths:
        """How a long recording is cut."""
        return self._windows if self._is_short(options) else WindowLengths()
