"""The engine of faster-whisper: plays exports, window after window or several windows together."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.engine import (
    FASTER_WHISPER,
    OnProgress,
    Progress,
    Segment,
    ShouldStop,
    TranscribeOptions,
    Transcript,
)
from studio.transcription.heard_segments import heard_alone, judged, plain
from studio.transcription.languages import AUTO, join_texts, resolve_language
from studio.transcription.lent import LentEngine
from studio.transcription.loaded_export import TEXT_CONTEXT, LoadedExport
from studio.transcription.long_form import moved, pieces
from studio.transcription.options import check_prompt, check_suppressed, check_values, windows_together
from studio.transcription.short_windows import with_short_windows
from studio.transcription.timed_windows import within_each_sound, within_the_sound
from studio.transcription.together import cut_at_pauses
from studio.transcription.voice_activity import has_voice
from studio.transcription.windows import WINDOW_SECONDS, WindowLengths
from studio.whisper.audio_context import FULL, SHORT

WINDOWS_TOGETHER = 8
"""Windows of a long recording that are decoded together, unless told."""
BEAMS = 5
"""Unless told; faster-whisper's own default, and a tenth fewer errors."""
_PROMPT_ROOM = TEXT_CONTEXT // 2 - 1
"""Tokens for text that comes before: half the context without its first token."""
_STEERING_TOKENS = 5
"""Before the text: what came before, start, language, task, no times."""


@dataclass
class _Heard:
    """A recording while it is being heard."""

    language: str
    """Code; empty until speech was found, if it is to be detected."""
    segments: list[Segment] = field(default_factory=list)
    end_seconds: float = 0.0
    context: list[int] = field(default_factory=list)
    """Tokens of the text so far."""


class FasterWhisperEngine(LentEngine[LoadedExport]):
    """An export as an `Engine`."""

    def __init__(
        self,
        export: LoadedExport,
        model_id: str,
        audio_context: str = FULL,
        windows: WindowLengths | None = None,
    ) -> None:
        """`model_id` is what transcripts name: the model that the export was made from, or the export.

        `audio_context`: what the encoder was trained to see, `full` windows or the sound's length (`short`).
        `windows`: how a long recording is cut for a model that sees the sound's length.
        """
        super().__init__(export, model_id, audio_context, windows)

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
        lengths = self._window_lengths(options)
        is_cut = total_seconds > lengths.longest_seconds or (
            lengths != WindowLengths() and options.timestamps != "none"
        )
        together = windows_together(options, WINDOWS_TOGETHER if is_cut else 1)
        options = replace(options, batch_size=together, num_beams=options.num_beams or BEAMS)
        heard = _Heard("" if language == AUTO else language)
        length = 0.0
        for samples in pieces(blocks):
            offset, length = length, length + len(samples) / SAMPLING_RATE
            for segment in self._segments(samples, options, heard):
                placed = moved(segment, offset, heard.end_seconds, length)
                heard.segments.append(placed)
                heard.end_seconds = placed.end_seconds
                if on_progress:
                    on_progress(
                        Progress(placed.end_seconds, max(total_seconds, length), tuple(heard.segments))
                    )
                if should_stop and should_stop():
                    break
            if should_stop and should_stop():
                length = max(length, total_seconds)
                break
            if on_progress:
                on_progress(Progress(length, max(total_seconds, length), tuple(heard.segments)))
        return self._transcript(heard, length, options, audio_path, time.perf_counter() - began)

    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Code → probability, likeliest first, from the first 30 s; empty where nothing is heard."""
        window = samples[: int(WINDOW_SECONDS * SAMPLING_RATE)]
        if not has_voice(window):
            return {}
        is_short = self._audio_context == SHORT
        return (
            self._loaded.language_probabilities(window, is_short=is_short) if self.languages else {"en": 1.0}
        )

    def transcribe_clips(
        self,
        clips: Sequence[NDArray[np.float32]],
        options: TranscribeOptions,
        audio_paths: Sequence[str] = (),
    ) -> list[Transcript]:
        """Recordings of at most 30 s, one after the other; mono samples at 16 kHz.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        names = [*audio_paths, *[""] * (len(clips) - len(audio_paths))]
        return [
            self.transcribe_samples([clip], len(clip) / SAMPLING_RATE, options, audio_path=name)
            for clip, name in zip(clips, names, strict=True)
        ]

    def transcribe_batch(
        self, clips: Sequence[NDArray[np.float32]], options: TranscribeOptions, languages: Sequence[str]
    ) -> list[str]:
        """Plain texts of clips of at most 30 s, decoded together and without judging whether anybody speaks.

        `languages` has a name, code or `auto` for each clip.

        Raises:
            ConfigError: if the model lacks a language or the task.
        """
        self._checked(options)
        options = replace(options, num_beams=options.num_beams or BEAMS)
        export = self._loaded
        codes = [resolve_language(language, self.languages) for language in languages]
        encoded = export.encode(clips, is_short=self._is_short(options))
        if AUTO in codes:
            seen = [row[0][0].strip("<|>") for row in export.model.model.detect_language(encoded)]
            codes = [found if code == AUTO else code for code, found in zip(codes, seen, strict=True)]
        prompts = [export.tokens.prompt(code, options.task, with_times=False) for code in codes]
        return export.write(encoded, prompts, options)

    def _transcript(
        self, heard: _Heard, duration: float, options: TranscribeOptions, audio_path: str, took: float
    ) -> Transcript:
        segments = tuple(heard.segments)
        written = "en" if options.task == "translate" else heard.language
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=heard.language,
            duration_seconds=duration,
            model=self.model_id,
            engine=FASTER_WHISPER,
            processing_seconds=took,
            audio_path=audio_path,
        )

    def _checked(self, options: TranscribeOptions) -> str:
        """The language as a code or `auto`; the other options are what they may be."""
        check_values(options)
        export = self._loaded
        export.tokens.checked_task(options.task)
        language = resolve_language(options.language, self.languages)
        check_suppressed(options, export.vocabulary)
        length = len(export.hint(options.initial_prompt)) + len(export.hint(options.hotwords))
        check_prompt(options, length, _PROMPT_ROOM, has_place=export.tokens.previous is not None)
        return language

    # ------------------------------------------------------------------ one piece of a recording

    def _segments(
        self, samples: NDArray[np.float32], options: TranscribeOptions, heard: _Heard
    ) -> Iterator[Segment]:
        """What is said in a piece, times from its beginning; tells `heard` language and context."""
        model, tokens = self._loaded.model, self._loaded.tokens
        if self._is_short(options):
            model = with_short_windows(model)
        for segment, language in self._found(within_the_sound(model, tokens), samples, options, heard):
            heard.language = heard.language or language
            heard.context = [*heard.context, *segment.tokens][-_PROMPT_ROOM:]
            told = plain(segment, self._loaded, options)
            if told.text:
                yield told

    def _found(
        self, model: Any, samples: NDArray[np.float32], options: TranscribeOptions, heard: _Heard
    ) -> Iterator[tuple[Any, str]]:
        """Segments as `model` gives them, and the language of each."""
        together = options.batch_size > 1
        cut = self._cut(samples, options)
        if cut is not None and not together:
            yield from self._one_by_one(model, samples, cut, options, heard)
            return
        is_window = together or len(samples) <= WINDOW_SECONDS * SAMPLING_RATE
        # A cut window is a segment: it needs no times of its own.
        with_times = cut is None and (options.timestamps != "none" or not is_window)
        arguments = self._arguments(options, heard, with_times=with_times)
        if together:
            from faster_whisper import BatchedInferencePipeline

            arguments["temperature"] = options.temperature[0]
            arguments["batch_size"] = options.batch_size
            arguments["clip_timestamps"] = cut
            pipeline = within_each_sound(BatchedInferencePipeline(model), self._loaded.tokens)
            found, info = pipeline.transcribe(samples, **arguments)
            found = judged(model, found, samples, options, {**arguments, "language": info.language})
        else:
            found, info = model.transcribe(samples, **arguments)
        for segment in found:
            yield segment, str(info.language)

    def _one_by_one(
        self,
        model: Any,
        samples: NDArray[np.float32],
        cut: list[dict[str, float]],
        options: TranscribeOptions,
        heard: _Heard,
    ) -> Iterator[tuple[Any, str]]:
        """Windows cut at pauses, each told of the text before it."""
        for window in cut:
            arguments = {**self._arguments(options, heard, with_times=False), "vad_filter": False}
            found, info = heard_alone(model, samples, window["start"], window["end"], arguments)
            for segment in found:
                yield segment, str(info.language)

    def _cut(self, samples: NDArray[np.float32], options: TranscribeOptions) -> list[dict[str, float]] | None:
        """Windows in seconds, cut at pauses; None: faster-whisper cuts them, up to 30 s."""
        lengths = self._window_lengths(options)
        is_clip = len(samples) <= lengths.longest_seconds * SAMPLING_RATE and options.timestamps == "none"
        if lengths == WindowLengths() or (is_clip and options.batch_size == 1):
            return None
        windows = cut_at_pauses(samples, lengths, options)
        return [{"start": start / SAMPLING_RATE, "end": end / SAMPLING_RATE} for start, end in windows]

    def _arguments(self, options: TranscribeOptions, heard: _Heard, *, with_times: bool) -> dict[str, Any]:
        """What faster-whisper calls the options."""
        export = self._loaded
        named = export.suppressed if options.suppress_tokens is None else options.suppress_tokens
        context = heard.context if options.condition_on_prev_tokens else []
        before = context or (export.hint(options.initial_prompt) if not heard.segments else [])
        taken = len(export.hint(options.hotwords)) + _STEERING_TOKENS
        taken += _PROMPT_ROOM if options.condition_on_prev_tokens else len(before)
        return {
            "language": heard.language or None,
            "task": options.task,
            "beam_size": options.num_beams,
            "temperature": list(options.temperature),
            "initial_prompt": before or None,
            "hotwords": options.hotwords.strip() or None,
            "condition_on_previous_text": options.condition_on_prev_tokens,
            "no_speech_threshold": options.no_speech_threshold,
            "compression_ratio_threshold": options.compression_ratio_threshold,
            "log_prob_threshold": options.logprob_threshold,
            "suppress_tokens": list(named) if named and export.can_suppress else [],
            "max_new_tokens": min(options.max_new_tokens, TEXT_CONTEXT - taken) or None,
            "without_timestamps": not with_times,
            "word_timestamps": options.timestamps == "word",
            "vad_filter": options.vad,
        }
