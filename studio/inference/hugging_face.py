"""The engine of transformers: transcribes with a base model, or with one of its adapters on it."""

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, audio_duration, stream_audio
from studio.errors import ConfigError
from studio.inference.decoding import Decoder, Search
from studio.inference.engine import OnProgress, Segment, ShouldStop, TranscribeOptions, Transcript
from studio.inference.hearing import Hearing
from studio.inference.languages import AUTO, join_texts, resolve_language
from studio.inference.loaded_base import ENGLISH_VOCABULARY, LoadedBase, load_base
from studio.inference.long_form import hear_recording
from studio.inference.voice_activity import has_voice
from studio.inference.windows import WINDOW_SECONDS

__all__ = ["ENGLISH_VOCABULARY", "HuggingFaceEngine", "LoadedBase", "load_base"]

ENGINE = "transformers"
TIMESTAMPS = ("none", "segment", "word")


class HuggingFaceEngine:
    """A base, or a base with one of its adapters, as an `Engine`."""

    def __init__(self, base: LoadedBase, model_id: str, adapter_id: str | None = None) -> None:
        """`adapter_id` must have been added to `base`; `model_id` is what transcripts name."""
        self._lent: LoadedBase | None = base
        self._adapter_id = adapter_id
        self.model_id = model_id

    @property
    def _base(self) -> LoadedBase:
        assert self._lent is not None, "the lease of this engine has ended"
        return self._lent

    def release(self) -> None:
        """Lets go of the model, so that whoever still holds the engine does not keep it in memory."""
        self._lent = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes that the model knows; none for an English-only model."""
        return tuple(self._base.tokens.languages)

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes a recording of any length, a window at a time, never holding it whole in memory.

        If `should_stop` says so, the transcript ends with the window at hand.

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
        began = time.perf_counter()
        language = self._checked(options)
        with_times = options.timestamps != "none" or total_seconds > WINDOW_SECONDS
        hearing = Hearing(self._acquire, options, language, with_times=with_times)
        segments, duration = hear_recording(blocks, total_seconds, hearing, on_progress, should_stop)
        written = "en" if options.task == "translate" else hearing.language
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=hearing.language,
            duration_seconds=duration,
            model=self.model_id,
            engine=ENGINE,
            processing_seconds=time.perf_counter() - began,
            audio_path=audio_path,
        )

    def transcribe_batch(
        self, clips: Sequence[NDArray[np.float32]], options: TranscribeOptions, languages: Sequence[str]
    ) -> list[str]:
        """Plain texts of clips of at most 30 s, decoded together and without judging whether anybody speaks.

        `languages` has a name, code or `auto` for each clip.

        Raises:
            ConfigError: if the model lacks a language or the task.
        """
        self._checked(options)
        codes = [resolve_language(language, self.languages) for language in languages]
        with self._acquire() as decoder:
            encoded = decoder.encode(clips)
            if AUTO in codes:
                detected = [next(iter(row)) for row in decoder.language_probabilities(encoded)]
                codes = [seen if code == AUTO else code for code, seen in zip(codes, detected, strict=True)]
            prompts = [decoder.tokens.prompt(code, options.task, with_times=False) for code in codes]
            search = Search(options.num_beams, max_new_tokens=options.max_new_tokens)
            rows = decoder.write(encoded, prompts, search)
            return [decoder.text_of(row).strip() for row in rows]

    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Code → probability, likeliest first, from the first 30 s; empty where nothing is heard.

        An English-only model answers `{"en": 1.0}`.
        """
        window = samples[: int(WINDOW_SECONDS * SAMPLING_RATE)]
        if not has_voice(window):
            return {}
        if not self.languages:
            return {"en": 1.0}
        with self._acquire() as decoder:
            return decoder.language_probabilities(decoder.encode([window]))[0]

    def _acquire(self) -> AbstractContextManager[Decoder]:
        return self._base.using(self._adapter_id)

    def _checked(self, options: TranscribeOptions) -> str:
        """The language as a code or `auto`; the other options are what they may be."""
        if options.timestamps not in TIMESTAMPS:
            raise ConfigError(
                "There are no timestamps {given!r}: choose none, segment or word.", given=options.timestamps
            )
        if options.num_beams < 1:
            raise ConfigError("num_beams must be at least 1, got {given}.", given=options.num_beams)
        self._base.tokens.checked_task(options.task)
        return resolve_language(options.language, self.languages)
