"""Sound of any length to text with times, whatever library computes the model.

How Whisper is decoded here, from the top:

1. A recording is read in pieces, and each is cut into stretches where nobody speaks (`windows`,
   `voice_activity`). Unless told otherwise, a stretch is as long as somebody speaks, and its windows of 30 s
   are heard in turn, each told of the text before it. For windows that are decoded together, it is cut in
   pauses; what fits into one window is one.
2. Windows, of one recording or of several, are encoded together, and the language is detected.
3. Each is written down with time tokens, again if it is unsure or a loop (`decoding`, `loops`). Without
   them a model leaves out more sentences. Where they say that the text ends before the window does, the rest
   of the stretch is one more window (`time_tokens`).
4. The text is aligned with the sound: tokens to words, words to segments (`word_times`). A voice for which
   no word was written is heard once more, alone (`unheard`).
5. Chinese is kept in one script (`chinese_script`).

Only steps 2 to 4 ask the model (`window_model`), and hold it for one batch of windows at a time.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, audio_duration, stream_audio
from studio.transcription.chinese_script import LANGUAGES as CHINESE
from studio.transcription.chinese_script import in_one_script
from studio.transcription.decoding import Decoded, Window, decode, write
from studio.transcription.engine import (
    OnProgress,
    Progress,
    Segment,
    ShouldStop,
    TranscribeOptions,
    Transcript,
    Word,
)
from studio.transcription.languages import AUTO, join_texts, resolve_language
from studio.transcription.options import check_prompt, check_suppressed, check_values
from studio.transcription.time_tokens import TokenSegment, split_segments, taken
from studio.transcription.unheard import Span, split_at, unheard
from studio.transcription.voice_activity import has_voice, loud_enough, voiced_spans
from studio.transcription.window_model import Search, WindowModel
from studio.transcription.windows import WINDOW_SECONDS, WindowLengths, cut_windows, pieces, without_silence
from studio.transcription.word_times import timed_segments
from studio.whisper.audio_context import FULL, SHORT

WINDOWS_TOGETHER = 8
"""Windows that are decoded together, unless told."""
LANGUAGES_TOLD = 5
"""Of the languages that a model weighed, so many are told."""
_QUICK_SECONDS, _SLOW_SECONDS = 4.0, 12.0
"""Unless told, batches grow while they take less than this, and shrink above: so long nobody can stop."""
_PLAIN_SECONDS = 15.0
"""If nobody asks for times, what is not longer is written without: fewer tokens, and nothing is left out."""
WINDOW_SAMPLES = int(WINDOW_SECONDS * SAMPLING_RATE)
_SURE_LANGUAGE, _FURTHER_WINDOWS = 0.9, 3
"""Below this probability of the likeliest language, so many more windows are asked."""
_TOLD_UP_TO = 0.5
"""What was found at a higher temperature is not told to the next window, as in Whisper's own decoding."""
_SHORTEST_SAMPLES = SAMPLING_RATE // 20
"""Less than this at the end of a recording holds no word."""
log = logging.getLogger(__name__)


class Loaded(Protocol):
    """A model in memory, which is lent for one batch of windows at a time."""

    @property
    def model(self) -> WindowModel:
        """For what needs no weights, such as the tokens of a text."""
        ...

    @property
    def engine(self) -> str:
        """The library that plays it."""
        ...

    def using(self, adapter_id: str | None) -> AbstractContextManager[WindowModel]:
        """The model with one of its adapters, or none, for whoever holds it."""
        ...


@dataclass
class _Recording:
    """A recording while it is being heard."""

    language: str
    """Code; empty until speech was found, if it is to be detected."""
    language_probabilities: dict[str, float] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    end_seconds: float = 0.0
    context: list[int] = field(default_factory=list)
    """Tokens of the text and times so far, if the next window is told of them."""
    is_begun: bool = False


@dataclass
class _Stretch:
    """A part of a recording, heard from window to window; none depends on another."""

    recording: _Recording
    samples: NDArray[np.float32]
    """Mono at 16 kHz."""
    start_seconds: float
    """In the recording."""
    with_times: bool
    """Whether the model writes time tokens, and what it leaves is heard once more."""
    is_left_out: bool = False
    """It was passed over when its neighbours were heard: only a text that is sure counts."""
    position_seconds: float = 0.0
    """Where the next window begins."""
    text_end_seconds: float = 0.0
    """Nothing that is written later was said before this."""

    @property
    def window(self) -> NDArray[np.float32]:
        """The next samples for the model, at most 30 s."""
        first = int(self.position_seconds * SAMPLING_RATE)
        return self.samples[first : first + WINDOW_SAMPLES]

    def windows_after(self, most: int) -> list[NDArray[np.float32]]:
        """At most so many whole windows that may follow the next one."""
        first = int(self.position_seconds * SAMPLING_RATE) + WINDOW_SAMPLES
        starts = range(first, len(self.samples) - WINDOW_SAMPLES + 1, WINDOW_SAMPLES)
        return [self.samples[start : start + WINDOW_SAMPLES] for start in starts[:most]]

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / SAMPLING_RATE


class Transcriber:
    """A model that transcribes, as long as its lease lasts. See `studio.transcription.model_cache`."""

    def __init__(
        self,
        loaded: Loaded,
        model_id: str,
        adapter_id: str | None = None,
        audio_context: str = FULL,
        windows: WindowLengths | None = None,
    ) -> None:
        """`model_id` is what transcripts name; `adapter_id` must have been added to `loaded`.

        `audio_context`: what the encoder was trained to see, `full` windows or the sound's length (`short`).
        `windows`: how a recording is cut for a model that sees the sound's length.
        """
        self._lent: Loaded | None = loaded
        self._adapter_id = adapter_id
        self._audio_context = audio_context
        self._windows = windows or WindowLengths()
        self.model_id = model_id

    @property
    def _loaded(self) -> Loaded:
        assert self._lent is not None, "the lease of this model has ended"
        return self._lent

    def release(self) -> None:
        """Lets go of the model, so that whoever still holds the transcriber does not keep it in memory."""
        self._lent = None

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes that the model knows; none for an English-only model."""
        return tuple(self._loaded.model.tokens.languages)

    # ------------------------------------------------------------------ recordings

    def transcribe(
        self,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes a recording of any length, a piece at a time, never holding it whole in memory.

        If `should_stop` says so, the transcript ends with the windows at hand.

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
        recording = _Recording(self._checked(options))
        length = 0.0
        is_stopped = False
        for samples in pieces(blocks):
            offset, length = length, length + len(samples) / SAMPLING_RATE
            stretches = self._cut(recording, samples, offset, options)
            for left in self._hear_all(stretches, options):
                if on_progress:
                    told = self._in_script(recording, options)
                    on_progress(Progress(length - left, max(total_seconds, length), told))
                is_stopped = should_stop is not None and should_stop()
                if is_stopped:
                    break
            if is_stopped:
                length = max(length, total_seconds)
                break
            if on_progress:
                told = self._in_script(recording, options)
                on_progress(Progress(length, max(total_seconds, length), told))
        took = time.perf_counter() - began
        return self._transcript(recording, length, options, took, audio_path)

    def transcribe_clips(
        self,
        clips: Sequence[NDArray[np.float32]],
        options: TranscribeOptions,
        audio_paths: Sequence[str] = (),
    ) -> list[Transcript]:
        """Several recordings at once, windows of all of them together; mono samples at 16 kHz.

        Raises:
            ConfigError: if the model lacks the language or the task, or an option has no such value.
        """
        began = time.perf_counter()
        language = self._checked(options)
        recordings = [_Recording(language) for _ in clips]
        stretches = [
            stretch
            for recording, clip in zip(recordings, clips, strict=True)
            for stretch in self._cut(recording, clip, 0.0, options)
        ]
        for _ in self._hear_all(stretches, options):
            pass
        lengths = [len(clip) / SAMPLING_RATE for clip in clips]
        took = (time.perf_counter() - began) / max(sum(lengths), 1e-9)
        names = [*audio_paths, *[""] * (len(clips) - len(audio_paths))]
        return [
            self._transcript(recording, length, options, took * length, name)
            for recording, length, name in zip(recordings, lengths, names, strict=True)
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
        codes = [resolve_language(language, self.languages) for language in languages]
        with self._loaded.using(self._adapter_id) as model:
            encoded = model.encode([loud_enough(clip) for clip in clips], is_short=self._is_short(options))
            if AUTO in codes:
                detected = [next(iter(row)) for row in model.detect_language(encoded)]
                codes = [seen if code == AUTO else code for code, seen in zip(codes, detected, strict=True)]
            prompts = [model.tokens.prompt(code, options.task, with_times=False) for code in codes]
            beams = options.num_beams or model.usual_beams
            search = Search(beams, 0.0, options.max_new_tokens, options.suppress_tokens)
            return [model.text_of(row).strip() for row in write(model, encoded, prompts, search)]

    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Code → probability, likeliest first, from the first 30 s; empty where nothing is heard.

        An English-only model answers `{"en": 1.0}`.
        """
        window = loud_enough(samples[: int(WINDOW_SECONDS * SAMPLING_RATE)])
        if not has_voice(window):
            return {}
        if not self.languages:
            return {"en": 1.0}
        with self._loaded.using(self._adapter_id) as model:
            return model.detect_language(model.encode([window], is_short=self._audio_context == SHORT))[0]

    # ------------------------------------------------------------------ windows

    def _cut(
        self,
        recording: _Recording,
        samples: NDArray[np.float32],
        offset_seconds: float,
        options: TranscribeOptions,
    ) -> list[_Stretch]:
        """The stretches of a piece that begins `offset_seconds` into its recording."""
        lengths = self._window_lengths(options)
        is_judged = options.vad and options.no_speech_threshold < 1
        if len(samples) <= lengths.longest_seconds * SAMPLING_RATE:
            is_heard = len(samples) >= (_SHORTEST_SAMPLES if offset_seconds else 1)
            spans = [(0, len(samples))] if is_heard and (not is_judged or has_voice(samples)) else []
        elif not options.vad and lengths == WindowLengths():
            spans = [(0, len(samples))]
        elif self._tells_text_before(options):
            spans = without_silence(samples)
        else:
            spans = cut_windows(samples, lengths, vad=options.vad)
        return [
            _Stretch(
                recording,
                loud_enough(samples[start:end]),
                offset_seconds + start / SAMPLING_RATE,
                # A window that a model of short clips reads is a clip: the model writes all of it.
                with_times=lengths == WindowLengths()
                and (options.timestamps != "none" or end - start > _PLAIN_SECONDS * SAMPLING_RATE),
            )
            for start, end in spans
        ]

    def _hear_all(self, stretches: Iterable[_Stretch], options: TranscribeOptions) -> Iterator[float]:
        """Hears stretches to their ends, some of them together; tells the seconds that are left.

        As many together as was asked for; else as many as take seconds, not minutes.
        """
        waiting = deque(stretches)
        size = options.batch_size or 1
        while waiting:
            batch = _next(waiting, size, in_turn=self._tells_text_before(options))
            began = time.perf_counter()
            left_out = self._hear(batch, options)
            took = time.perf_counter() - began
            more = [stretch for stretch in batch if self._has_more(stretch, options)]
            waiting.extendleft(reversed([*left_out, *more]))
            yield sum(stretch.seconds - stretch.position_seconds for stretch in waiting)
            if not options.batch_size:
                if took < _QUICK_SECONDS:
                    size = min(2 * size, WINDOWS_TOGETHER)
                elif took > _SLOW_SECONDS:
                    size = max(1, size // 2)

    def _has_more(self, stretch: _Stretch, options: TranscribeOptions) -> bool:
        """Whether something may be said in what is left of a stretch; silence is passed over."""
        rest = stretch.samples[int(stretch.position_seconds * SAMPLING_RATE) :]
        if len(rest) < _SHORTEST_SAMPLES:
            return False
        if len(rest) > WINDOW_SAMPLES:
            return True  # a stretch has no long silence inside; to look for one again takes longer each time
        return not (options.vad and options.no_speech_threshold < 1) or has_voice(rest)

    def _hear(self, batch: Sequence[_Stretch], options: TranscribeOptions) -> list[_Stretch]:
        """Writes the next window of each stretch down: what is said in it is added to its recording.

        Gives what the model left out, to be heard alone.
        """
        windows = [stretch.window for stretch in batch]
        seconds = [len(window) / SAMPLING_RATE for window in windows]
        with self._loaded.using(self._adapter_id) as model:
            encoded = model.encode(windows, is_short=self._is_short(options))
            odds = _languages(model, encoded, batch, is_short=self._is_short(options))
            languages = [
                stretch.recording.language or next(iter(row))
                for stretch, row in zip(batch, odds, strict=True)
            ]
            asked = [
                Window(_prompt(model, stretch, language, options), length, 1 if stretch.is_left_out else None)
                for stretch, language, length in zip(batch, languages, seconds, strict=True)
            ]
            written = decode(model, encoded, asked, options)
            found = [
                _text(model, stretch, decoded, length)
                for stretch, decoded, length in zip(batch, written, seconds, strict=True)
            ]
            said = {
                number: text
                for number, text in enumerate(found)
                if model.text_of(text.tokens).strip() and (text.is_sure or not batch[number].is_left_out)
            }
            segments: dict[int, list[Segment]] = {}
            voices = {number: voiced_spans(windows[number]) for number in said}
            # Also where nobody asks for times: they tell what was passed over.
            if options.timestamps != "none" or any(stretch.with_times for stretch in batch):
                segments = _segments(model, encoded, batch, windows, voices, said, languages, options)
        left_out: list[_Stretch] = []
        for number, stretch in enumerate(batch):
            if number in said:
                recording = stretch.recording
                recording.language = languages[number]
                recording.language_probabilities = recording.language_probabilities or odds[number]
                if self._tells_text_before(options):
                    context = found[number].context
                    recording.context = (
                        [*recording.context, *context][-_prompt_room(model) :] if context else []
                    )
                plain = [Segment(0.0, seconds[number], model.text_of(said[number].tokens).strip())]
                heard = segments.get(number, plain)
                spans: list[Span] = []
                if number in segments and stretch.with_times and options.vad:
                    words = [word for segment in heard for word in segment.words]
                    # Both the alignment and the model's own times have to say that nothing was written there.
                    covered = [(word.start_seconds, word.end_seconds) for word in words]
                    covered += [(part.start_seconds, part.end_seconds) for part in found[number].parts]
                    spans = unheard(covered, voices[number], found[number].advance_seconds)
                _add(stretch, split_at(heard, spans, recording.language), seconds[number])
                if spans:
                    left_out += [_left_out(stretch, *span) for span in spans]
            stretch.position_seconds += found[number].advance_seconds
        return left_out

    # ------------------------------------------------------------------ results

    def _in_script(self, recording: _Recording, options: TranscribeOptions) -> tuple[Segment, ...]:
        is_chinese = recording.language in CHINESE and options.task == "transcribe"
        segments = recording.segments
        if options.timestamps == "segment":
            segments = [Segment(one.start_seconds, one.end_seconds, one.text) for one in segments]
        return in_one_script(segments, options.chinese_script) if is_chinese else tuple(segments)

    def _transcript(
        self,
        recording: _Recording,
        duration: float,
        options: TranscribeOptions,
        took: float,
        audio_path: str,
    ) -> Transcript:
        segments = self._in_script(recording, options)
        written = "en" if options.task == "translate" else recording.language
        text = join_texts([segment.text for segment in segments], written)
        if options.timestamps == "none":
            segments = (Segment(0.0, duration, text),) if text else ()
        return Transcript(
            text=text,
            segments=segments,
            language=recording.language,
            duration_seconds=duration,
            model=self.model_id,
            engine=self._loaded.engine,
            processing_seconds=took,
            audio_path=audio_path,
            language_probabilities=dict(list(recording.language_probabilities.items())[:LANGUAGES_TOLD]),
        )

    def _tells_text_before(self, options: TranscribeOptions) -> bool:
        """Whether windows of a recording are heard in turn, each told of the text before it.

        A model of short clips has never read such a thing.
        """
        is_whole = self._window_lengths(options) == WindowLengths()
        return is_whole and options.condition_on_prev_tokens and options.batch_size <= 1

    def _window_lengths(self, options: TranscribeOptions) -> WindowLengths:
        return self._windows if self._is_short(options) else WindowLengths()

    def _is_short(self, options: TranscribeOptions) -> bool:
        asked = options.audio_context
        return (self._audio_context if asked == "auto" else asked) == SHORT

    def _checked(self, options: TranscribeOptions) -> str:
        """The language's code, or nothing if it is to be detected; the other options are what they may be."""
        check_values(options)
        model = self._loaded.model
        model.tokens.checked_task(options.task)
        language = resolve_language(options.language, self.languages)
        check_suppressed(options, model.vocabulary)
        length = len(_hint(model, options.initial_prompt)) + len(_hint(model, options.hotwords))
        check_prompt(options, length, _prompt_room(model), has_place=model.tokens.previous is not None)
        return "" if language == AUTO else language


# ---------------------------------------------------------------------- one batch


@dataclass(frozen=True)
class _Text:
    """What is taken of a window's text."""

    parts: list[TokenSegment]
    """From one time that the model wrote to the next."""
    advance_seconds: float
    """Where the next window begins."""
    is_sure: bool
    context: tuple[int, ...]
    """Tokens of text and times that the next window may be told; none of a text that was hard to find."""

    @property
    def tokens(self) -> list[int]:
        """Those of all parts."""
        return [token for part in self.parts for token in part.text_tokens]


def _next(waiting: deque[_Stretch], size: int, *, in_turn: bool) -> list[_Stretch]:
    """Takes the stretches that are heard next; `in_turn`: only one of each recording."""
    batch: list[_Stretch] = []
    left: list[_Stretch] = []
    while waiting and len(batch) < size:
        stretch = waiting.popleft()
        is_behind = in_turn and any(stretch.recording is other.recording for other in (*batch, *left))
        (left if is_behind else batch).append(stretch)
    waiting.extendleft(reversed(left))
    return batch


def _text(model: WindowModel, stretch: _Stretch, decoded: Decoded, seconds: float) -> _Text:
    """The text of a window up to the last time that its model wrote, and where to go on."""
    is_whole = decoded.is_stuck or not stretch.with_times or not decoded.tokens
    if is_whole:
        part = tuple(token for token in decoded.tokens if token < model.tokens.end)
        context = () if decoded.is_stuck else part
        return _Text([TokenSegment(0.0, seconds, part)], seconds, decoded.is_sure, context)
    parts, advance = split_segments(decoded.tokens, model.tokens, seconds)
    context = taken(decoded.tokens, parts, model.tokens) if decoded.temperature <= _TOLD_UP_TO else ()
    return _Text(parts, advance, decoded.is_sure, context)


def _languages(
    model: WindowModel, encoded: Any, batch: Sequence[_Stretch], *, is_short: bool
) -> list[dict[str, float]]:
    """For each window the probability of each language in its recording's windows, likeliest first.

    Empty where it is known. Where the first window leaves a doubt, the next ones of the stretch are asked,
    too: all that follows is read in that language.
    """
    odds: list[dict[str, float]] = [{} for _ in batch]
    unknown = [number for number, stretch in enumerate(batch) if not stretch.recording.language]
    if not unknown:
        return odds
    if not model.tokens.languages:
        return [{"en": 1.0} for _ in batch]
    found = model.detect_language(encoded if len(unknown) == len(batch) else model.rows(encoded, unknown))
    for _, group in groupby(zip(unknown, found, strict=True), key=lambda pair: id(batch[pair[0]].recording)):
        pairs = list(group)
        rows = [row for _, row in pairs]
        further = batch[pairs[-1][0]].windows_after(_FURTHER_WINDOWS)
        if further and max(_mean(rows).values()) < _SURE_LANGUAGE:
            rows += model.detect_language(model.encode(further, is_short=is_short))
        for number, _ in pairs:
            odds[number] = _mean(rows)
    return odds


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of the probabilities of each language, likeliest first."""
    mean = {code: sum(row[code] for row in rows) / len(rows) for code in rows[0]}
    return dict(sorted(mean.items(), key=lambda item: item[1], reverse=True))


def _prompt(model: WindowModel, stretch: _Stretch, language: str, options: TranscribeOptions) -> list[int]:
    """Hotwords, the text before (of the first window: the initial prompt), then what steers the model."""
    recording = stretch.recording
    steer = model.tokens.prompt(language, options.task, with_times=stretch.with_times)
    hotwords = _hint(model, options.hotwords)
    hint = [] if recording.is_begun else _hint(model, options.initial_prompt)
    recording.is_begun = True
    room = _prompt_room(model) - len(hotwords) - len(hint)
    context = recording.context
    before = [*hotwords, *hint, *context[len(context) - min(len(context), room) :]]
    return [model.tokens.previous, *before, *steer] if before and model.tokens.previous else steer


def _hint(model: WindowModel, text: str) -> list[int]:
    """Tokens of text that comes before; it begins with a space, as in Whisper's own decoding."""
    return model.tokens_of(f" {text.strip()}") if text.strip() else []


def _prompt_room(model: WindowModel) -> int:
    """Tokens of the prompt for text that comes before, 223: half the context without its first token."""
    return model.text_context // 2 - 1


def _segments(
    model: WindowModel,
    encoded: Any,
    batch: Sequence[_Stretch],
    windows: Sequence[NDArray[np.float32]],
    voices: Mapping[int, Sequence[Span]],
    said: Mapping[int, _Text],
    languages: Sequence[str],
    options: TranscribeOptions,
) -> dict[int, list[Segment]]:
    """The segments of windows by their numbers, words and all, with times from each window's beginning."""
    segments = {}
    for language in dict.fromkeys(languages[number] for number in said):
        numbers = [number for number in said if languages[number] == language]
        states = encoded if len(numbers) == len(windows) else model.rows(encoded, numbers)
        prompt = model.tokens.prompt(language, options.task, with_times=False)
        # What the model left to the next window is not said in this text.
        seconds = [
            min(said[number].advance_seconds, len(windows[number]) / SAMPLING_RATE) for number in numbers
        ]
        times = model.align(states, prompt, [said[number].tokens for number in numbers], seconds)
        spoken = "en" if options.task == "translate" else language
        for number, timed in zip(numbers, times, strict=True):
            segments[number] = timed_segments(
                model,
                spoken,
                said[number].parts,
                timed,
                voices[number],
                is_one=not batch[number].with_times,
            )
    return segments


def _left_out(stretch: _Stretch, start: float, end: float) -> _Stretch:
    """A part of a stretch's window as a stretch of its own."""
    first, after = (int((stretch.position_seconds + edge) * SAMPLING_RATE) for edge in (start, end))
    offset = stretch.start_seconds + first / SAMPLING_RATE
    samples = stretch.samples[first:after]
    with_times = len(samples) > _PLAIN_SECONDS * SAMPLING_RATE
    return _Stretch(stretch.recording, samples, offset, with_times=with_times, is_left_out=True)


def _add(stretch: _Stretch, segments: Sequence[Segment], seconds: float) -> None:
    """Moves a window's segments to their place in the recording, and keeps times from going back."""
    offset = stretch.start_seconds + stretch.position_seconds
    for segment in segments:
        placed = moved(
            segment, offset, max(stretch.start_seconds, stretch.text_end_seconds), offset + seconds
        )
        stretch.recording.segments.append(placed)
        stretch.text_end_seconds = placed.end_seconds
    stretch.recording.segments.sort(key=lambda one: one.start_seconds)


def moved(segment: Segment, offset: float, earliest: float, latest: float) -> Segment:
    """A segment `offset` seconds later, its times and those of its words between the two limits."""

    def place(seconds: float, not_before: float) -> float:
        return min(round(max(seconds + offset, not_before), 3), max(latest, not_before))

    start = place(segment.start_seconds, earliest)
    words = []
    at = start
    for word in segment.words:
        begin = place(word.start_seconds, at)
        at = place(word.end_seconds, begin)
        words.append(Word(begin, at, word.text, word.probability))
    end = place(segment.end_seconds, at)
    return Segment(start, end, segment.text, tuple(words))
