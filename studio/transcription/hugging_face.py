"""The engine of transformers: transcribes with a base model, or with one of its adapters on it."""

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.decoding import BEAMS, Decoder, Search
from studio.transcription.engine import (
    TRANSFORMERS,
    OnProgress,
    Progress,
    Segment,
    ShouldStop,
    TranscribeOptions,
    Transcript,
)
from studio.transcription.hearing import Hearing
from studio.transcription.languages import AUTO, join_texts, resolve_language
from studio.transcription.lent import LentEngine
from studio.transcription.loaded_base import ENGLISH_VOCABULARY, LoadedBase, load_base
from studio.transcription.long_form import hear_recording
from studio.transcription.options import check_prompt, check_suppressed, check_values, windows_together
from studio.transcription.together import CLIPS_TOGETHER, begin_together, hear_windows_together
from studio.transcription.voice_activity import has_voice
from studio.transcription.windows import WINDOW_SECONDS, WindowLengths
from studio.whisper.audio_context import SHORT

__all__ = ["ENGLISH_VOCABULARY", "HuggingFaceEngine", "LoadedBase", "load_base"]

LANGUAGES_TOLD = 5
"""Of the languages that a model weighed, so many are told."""


class HuggingFaceEngine(LentEngine[LoadedBase]):
    """A base, or a base with one of its adapters, as an `Engine`."""

    def __init__(
        self,
        base: LoadedBase,
        model_id: str,
        adapter_id: str | None = None,
        audio_context: str = "full",
        windows: WindowLengths | None = None,
    ) -> None:
        """`adapter_id` must have been added to `base`; `model_id` is what transcripts name.

        `audio_context`: what the encoder was trained to see, `full` windows or the sound's length (`short`).
        `windows`: how a long recording is cut for a model that sees the sound's length.
        """
        super().__init__(base, model_id, audio_context, windows)
        self._adapter_id = adapter_id

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
        lengths = self._window_lengths(options)
        # One window after the other, unless asked: but what a model hears in short windows only, it hears
        # as quickly together, cut at pauses.
        usual = 1 if lengths == WindowLengths() else CLIPS_TOGETHER
        options = replace(options, batch_size=windows_together(options, usual))
        is_cut = options.batch_size > 1 or lengths != WindowLengths()
        if is_cut and total_seconds > lengths.longest_seconds:
            segments, duration, language = self._together(
                blocks, total_seconds, options, language, on_progress, should_stop
            )
            odds: dict[str, float] = {}
        else:
            hearing = self._hearing(options, language, with_times=with_times)
            segments, duration = hear_recording(blocks, total_seconds, hearing, on_progress, should_stop)
            language, odds = hearing.language, hearing.language_probabilities
        took = time.perf_counter() - began
        return self._transcript(segments, duration, language, odds, options, took, audio_path)

    def transcribe_clips(
        self,
        clips: Sequence[NDArray[np.float32]],
        options: TranscribeOptions,
        audio_paths: Sequence[str] = (),
    ) -> list[Transcript]:
        """Recordings of at most 30 s, their first windows decoded together; mono samples at 16 kHz.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        began = time.perf_counter()
        lengths = [len(clip) / SAMPLING_RATE for clip in clips]
        names = [*audio_paths, *[""] * (len(clips) - len(audio_paths))]
        if any(length > self._window_lengths(options).longest_seconds for length in lengths):
            # Longer than what the model was trained on: each is cut into windows of its own.
            return [
                self.transcribe_samples([clip], length, options, audio_path=name)
                for clip, length, name in zip(clips, lengths, names, strict=True)
            ]
        language = self._checked(options)
        with_times = options.timestamps != "none"
        hearings = [self._hearing(options, language, with_times=with_times) for _ in clips]
        begin_together(self._acquire, clips, hearings)
        heard = [
            hear_recording([clip], length, hearing)[0]
            for clip, length, hearing in zip(clips, lengths, hearings, strict=True)
        ]
        took = (time.perf_counter() - began) / max(sum(lengths), 1e-9)
        return [
            self._transcript(
                segments,
                length,
                hearing.language,
                hearing.language_probabilities,
                options,
                took * length,
                name,
            )
            for segments, length, hearing, name in zip(heard, lengths, hearings, names, strict=True)
        ]

    def _together(
        self,
        blocks: Iterable[NDArray[np.float32]],
        total_seconds: float,
        options: TranscribeOptions,
        language: str,
        on_progress: OnProgress | None,
        should_stop: ShouldStop | None,
    ) -> tuple[tuple[Segment, ...], float, str]:
        """A long recording, several windows at a time: segments, length and language."""
        segments: list[Segment] = []
        done = 0.0
        with_times = options.timestamps != "none"
        windows = hear_windows_together(
            self._acquire,
            blocks,
            options,
            language,
            with_times=with_times,
            is_short=self._is_short(options),
            lengths=self._window_lengths(options),
        )
        for found, done, spoken in windows:
            language = spoken
            segments += found
            if on_progress:
                on_progress(Progress(done, max(total_seconds, done), tuple(segments)))
            if should_stop and should_stop():
                done = max(done, total_seconds)
                break
        return tuple(segments), done, "" if language == AUTO else language

    def _transcript(
        self,
        segments: tuple[Segment, ...],
        duration: float,
        language: str,
        odds: dict[str, float],
        options: TranscribeOptions,
        took: float,
        audio_path: str,
    ) -> Transcript:
        written = "en" if options.task == "translate" else language
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=language,
            duration_seconds=duration,
            model=self.model_id,
            engine=TRANSFORMERS,
            processing_seconds=took,
            audio_path=audio_path,
            language_probabilities=dict(list(odds.items())[:LANGUAGES_TOLD]),
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
            encoded = decoder.encode(clips, is_short=self._is_short(options))
            if AUTO in codes:
                detected = [next(iter(row)) for row in decoder.language_probabilities(encoded)]
                codes = [seen if code == AUTO else code for code, seen in zip(codes, detected, strict=True)]
            prompts = [decoder.tokens.prompt(code, options.task, with_times=False) for code in codes]
            search = Search(options.num_beams or BEAMS, max_new_tokens=options.max_new_tokens)
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
            encoded = decoder.encode([window], is_short=self._audio_context == SHORT)
            return decoder.language_probabilities(encoded)[0]

    def _hearing(self, options: TranscribeOptions, language: str, *, with_times: bool) -> Hearing:
        is_short = self._is_short(options)
        return Hearing(self._acquire, options, language, with_times=with_times, is_short=is_short)

    def _acquire(self) -> AbstractContextManager[Decoder]:
        return self._loaded.using(self._adapter_id)

    def _checked(self, options: TranscribeOptions) -> str:
        """The language as a code or `auto`; the other options are what they may be."""
        check_values(options)
        tokens = self._loaded.tokens
        tokens.checked_task(options.task)
        language = resolve_language(options.language, self.languages)
        check_suppressed(options, self._loaded.vocabulary)
        if options.initial_prompt.strip() or options.hotwords.strip():
            decoder = self._loaded.decoder
            length = len(decoder.hint(options.initial_prompt)) + len(decoder.hint(options.hotwords))
            check_prompt(options, length, decoder.prompt_room, has_place=tokens.previous is not None)
        return language
