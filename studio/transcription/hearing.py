"""The next window of each of several stretches: its language, its text, and when each word was said."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.decoding import Decoded, Window, decode
from studio.transcription.engine import USUAL_BEAMS, Segment, Span, TranscribeOptions
from studio.transcription.left_out import left_out, split_at
from studio.transcription.spoken_languages import mean_odds, spans_to_ask
from studio.transcription.stretches import Stretch
from studio.transcription.time_tokens import TokenSegment, split_segments, taken
from studio.transcription.voice_activity import voice_probability, voiced_spans
from studio.transcription.window_model import WORD_SECONDS, WindowModel
from studio.transcription.word_times import timed_segments

_SURE_LANGUAGE, _PARTED_SAMPLES = 0.9, 8 * SAMPLING_RATE
"""Below this probability of the likeliest language, what is so long is asked once more in parts."""
_HOLE_SECONDS = 3.0
"""A voice that lasts so long has a word in it: where the alignment knows none, the text left some out."""
_SHORTER_SECONDS = 1.0
"""By so much what is heard once more is shorter than what it was left out of, if that was left out itself."""
_CLEAR_VOICE = 0.4
"""Half a second of tones or of many voices stays below this, of 400 single words 373 are above."""
_CLEARLY_LESS_LIKELY = 0.3
"""So much lower a mean log-probability is no other way to read the same sound."""
_TOLD_UP_TO = 0.5
"""What was found at a higher temperature is not told to the next window, as in Whisper's own decoding."""


@dataclass(frozen=True)
class _Text:
    """What is taken of a window's text."""

    parts: list[TokenSegment]
    """From one time that the model wrote to the next."""
    advance_seconds: float
    """Where the next window begins."""
    is_sure: bool
    context: list[tuple[float, tuple[int, ...]]]
    """Where each part begins, and its tokens and times, for the next window; none if it was hard to find."""
    average_logprob: float = -math.inf
    """As it was decoded."""

    @property
    def tokens(self) -> list[int]:
        """Those of all parts."""
        return [token for part in self.parts for token in part.text_tokens]


@dataclass
class HeardWindow:
    """A stretch's next window, written down."""

    stretch: Stretch
    samples: NDArray[np.float32]
    language: str
    """Code."""
    odds: dict[str, float]
    """Code → probability, where the language was not known, likeliest first."""
    asked: Window
    """What the model is asked to write down."""
    text: _Text = field(default_factory=lambda: _Text([], 0.0, False, []))
    plain: str = ""
    """The text, if anything was said."""
    voices: list[Span] = field(default_factory=list)
    """Where somebody may be speaking; if nothing was written, where somebody clearly is."""
    timed: list[Segment] | None = None
    """Segments and words with times from the window's beginning, where they were asked for."""

    @property
    def seconds(self) -> float:
        """The window's length."""
        return len(self.samples) / SAMPLING_RATE

    def take(self, options: TranscribeOptions, room: int) -> list[Stretch]:
        """Adds what is said to the recording, and goes on to the next window.

        `room`: tokens that the next window can be told. Gives what the model left out, to be heard alone.
        """
        stretch, recording = self.stretch, self.stretch.recording
        recording.is_begun = True
        spans = self._left_out() if options.vad else []
        parts = [stretch.part(span) for span in spans]
        if self.plain:
            if recording.language != self.language:
                recording.context = []
            recording.language = self.language
            recording.language_probabilities = recording.language_probabilities or self.odds
            said = [(stretch.window_seconds + at, tokens) for at, tokens in self.text.context]
            recording.context = sorted([*recording.context, *said])[-room:] if said and room else []
            segments = [Segment(0.0, self.seconds, self.plain)] if self.timed is None else self.timed
            stretch.add(split_at(segments, spans), self.seconds)
        stretch.position_seconds += self.text.advance_seconds
        return parts

    def _left_out(self) -> list[Span]:
        """Where both the alignment and the model's own times say that nothing was written; and the holes.

        Of what is heard alone already only what is shorter, so that it comes to an end.
        """
        spans = self.holes()
        if self.timed is not None and self.stretch.with_times:
            own = [(part.start_seconds, part.end_seconds) for part in self.text.parts]
            gaps = left_out([*self._words(), *own], self.voices, self.text.advance_seconds)
            spans = sorted(
                [*spans, *(part for part in gaps if not any(_overlap(part, hole) for hole in spans))]
            )
        longest = self.seconds - _SHORTER_SECONDS if self.stretch.is_left_out else self.seconds
        return [(start, end) for start, end in spans if end - start <= longest]

    def holes(self) -> list[Span]:
        """Long parts with a voice but no word, whatever the model's own times say."""
        if self.plain and (self.timed is None or not self.stretch.with_times):
            return []
        return left_out(self._words(), self.voices, self.text.advance_seconds, _HOLE_SECONDS)

    def _words(self) -> list[Span]:
        return [(word.start_seconds, word.end_seconds) for part in self.timed or () for word in part.words]


def hear(
    model: WindowModel, batch: Sequence[Stretch], options: TranscribeOptions, *, is_short: bool
) -> list[HeardWindow]:
    """Writes the next window of each stretch down.

    Times are also made where nobody asks for them: they tell what was left out.
    """
    windows = [stretch.window for stretch in batch]
    encoded = model.encode(windows, is_short=is_short)
    odds = _languages(model, encoded, batch, is_short=is_short)
    languages = [stretch.language or next(iter(row)) for stretch, row in zip(batch, odds, strict=True)]
    begun = [stretch.recording for stretch in batch if stretch.recording.is_begun]
    heard = []
    for stretch, language, window, row in zip(batch, languages, windows, odds, strict=True):
        is_first = not any(stretch.recording is other for other in begun)
        begun.append(stretch.recording)
        prompt = _prompt(model, stretch, language, options, is_first=is_first)
        is_word = (
            options.vad
            and stretch.seconds < WORD_SECONDS
            and voice_probability(stretch.samples) >= _CLEAR_VOICE
        )
        asked = Window(prompt, len(window) / SAMPLING_RATE, is_once=stretch.is_left_out or is_word)
        heard.append(HeardWindow(stretch, window, language, row, asked))
    _write(model, encoded, heard, options)
    if options.vad:
        _write_again(model, encoded, heard, options)
    return heard


def _write_again(
    model: WindowModel, encoded: Any, heard: list[HeardWindow], options: TranscribeOptions
) -> None:
    """Looks once for texts with long holes with another number of beams; what leaves out less is taken.

    A search may begin in the middle of what is said, most often a wide one: the shorter text is the likelier.
    The other one must be sure, too, and nearly as likely: whatever is made up also fills a hole.
    """
    holed = [number for number, window in enumerate(heard) if window.holes()]
    if not holed:
        return
    again = [replace(heard[number]) for number in holed]
    beams = USUAL_BEAMS if options.num_beams == 1 else 1
    _write(model, model.rows(encoded, holed), again, replace(options, num_beams=beams, temperature=(0.0,)))
    for number, other in zip(holed, again, strict=True):
        first = heard[number]
        is_good = other.plain and other.text.is_sure
        is_likely = other.text.average_logprob >= first.text.average_logprob - _CLEARLY_LESS_LIKELY
        if is_good and is_likely and _seconds(other.holes()) < _seconds(first.holes()):
            heard[number] = other


def _clear_voices(samples: NDArray[np.float32]) -> list[Span]:
    """Where somebody speaks, and not only may: what a model took for silence often is."""
    spans = voiced_spans(samples)
    parts = [samples[int(start * SAMPLING_RATE) : int(end * SAMPLING_RATE)] for start, end in spans]
    return [span for span, part in zip(spans, parts, strict=True) if voice_probability(part) >= _CLEAR_VOICE]


def _seconds(spans: Sequence[Span]) -> float:
    return sum(end - start for start, end in spans)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _write(
    model: WindowModel, encoded: Any, heard: Sequence[HeardWindow], options: TranscribeOptions
) -> None:
    """Finds the texts of windows, and their times."""
    for window, decoded in zip(
        heard, decode(model, encoded, [window.asked for window in heard], options), strict=True
    ):
        window.text = _text(model, window.stretch, decoded, window.seconds)
        is_said = window.text.is_sure or not window.stretch.is_left_out
        window.plain = model.text_of(window.text.tokens).strip() if is_said else ""
        window.timed = None
        is_nothing = not (window.plain or window.stretch.is_left_out or window.stretch.is_short)
        window.voices = _clear_voices(window.samples) if is_nothing and options.vad else []
    if options.timestamps != "none" or any(window.stretch.with_times for window in heard):
        _time(model, encoded, heard, options)


def _text(model: WindowModel, stretch: Stretch, decoded: Decoded, seconds: float) -> _Text:
    """The text of a window up to the last time that its model wrote, and where to go on."""
    is_whole = decoded.is_stuck or not stretch.with_times or not decoded.tokens
    if is_whole:
        part = tuple(token for token in decoded.tokens if token < model.tokens.end)
        context = [] if decoded.is_stuck else [(0.0, part)]
        whole = [TokenSegment(0.0, seconds, part)]
        return _Text(whole, seconds, decoded.is_sure, context, decoded.average_logprob)
    parts, advance = split_segments(decoded.tokens, model.tokens, seconds)
    context = taken(decoded.tokens, parts, model.tokens) if decoded.temperature <= _TOLD_UP_TO else []
    return _Text(parts, advance, decoded.is_sure, context, decoded.average_logprob)


def _languages(
    model: WindowModel, encoded: Any, batch: Sequence[Stretch], *, is_short: bool
) -> list[dict[str, float]]:
    """For each window the probability of each language in its recording's windows, likeliest first.

    Empty where it is known. Where that leaves a doubt, they are asked once more in short parts, and each
    counts by its length: all that follows is read in that language. Of 60 clips of 20 s of accented English,
    whisper-tiny takes 56 for English so, and 50 by halves.
    """
    odds: list[dict[str, float]] = [{} for _ in batch]
    unknown = [number for number, stretch in enumerate(batch) if not stretch.language]
    if not unknown:
        return odds
    if not model.tokens.languages:
        return [{"en": 1.0} for _ in batch]
    found = model.detect_language(encoded if len(unknown) == len(batch) else model.rows(encoded, unknown))
    for _, group in groupby(zip(unknown, found, strict=True), key=lambda pair: id(batch[pair[0]].recording)):
        pairs = list(group)
        windows = [batch[number].window for number, _ in pairs]
        mean = mean_odds([row for _, row in pairs], [len(window) for window in windows])
        if max(mean.values()) < _SURE_LANGUAGE and sum(map(len, windows)) >= _PARTED_SAMPLES:
            parts = [window[start:end] for window in windows for start, end in spans_to_ask(window)]
            if parts:
                rows = model.detect_language(model.encode(parts, is_short=True))
                mean = mean_odds(rows, [len(part) for part in parts])
        for number, _ in pairs:
            odds[number] = mean
    return odds


def _prompt(
    model: WindowModel, stretch: Stretch, language: str, options: TranscribeOptions, *, is_first: bool
) -> list[int]:
    """Hotwords, the text before (of the first window: the initial prompt), then what steers the model.

    What was left out is not told the text before: of what it hardly hears, a model would write that again.
    Nor is another language, in which it would go on.
    """
    recording = stretch.recording
    steer = model.tokens.prompt(language, options.task, with_times=stretch.with_times)
    hotwords = hint_tokens(model, options.hotwords)
    hint = initial_tokens(model, options) if is_first else []
    room = prompt_room(model) - len(hotwords) - len(hint)
    is_alone = stretch.is_left_out or recording.language != language
    context = [] if is_alone else recording.said_before(stretch.window_seconds)
    before = [*hotwords, *hint, *context[len(context) - min(len(context), room) :]]
    return [model.tokens.previous, *before, *steer] if before and model.tokens.previous else steer


def hint_tokens(model: WindowModel, text: str) -> list[int]:
    """Tokens of text that comes before; it begins with a space, as in Whisper's own decoding."""
    return model.tokens_of(f" {text.strip()}") if text.strip() else []


def initial_tokens(model: WindowModel, options: TranscribeOptions) -> list[int]:
    """Tokens of the initial prompt; if it may be truncated, the last that have room beside the hotwords."""
    tokens = hint_tokens(model, options.initial_prompt)
    if not options.truncate_prompt:
        return tokens
    room = max(0, prompt_room(model) - len(hint_tokens(model, options.hotwords)))
    return tokens[max(0, len(tokens) - room) :]


def prompt_room(model: WindowModel) -> int:
    """Tokens of the prompt for text that comes before, 223: half the context without its first token."""
    return model.text_context // 2 - 1


def _time(model: WindowModel, encoded: Any, heard: Sequence[HeardWindow], options: TranscribeOptions) -> None:
    """Aligns what was said in windows with their sound, those of one language together."""
    said = [number for number, window in enumerate(heard) if window.plain]
    for language in dict.fromkeys(heard[number].language for number in said):
        numbers = [number for number in said if heard[number].language == language]
        states = encoded if len(numbers) == len(heard) else model.rows(encoded, numbers)
        windows = [heard[number] for number in numbers]
        prompt = model.tokens.prompt(language, options.task, with_times=False)
        # What the model left to the next window is not said in this text.
        seconds = [min(window.text.advance_seconds, window.seconds) for window in windows]
        times = model.align(states, prompt, [window.text.tokens for window in windows], seconds)
        written = options.written_in(language)
        for window, timed in zip(windows, times, strict=True):
            window.voices = voiced_spans(window.samples)
            is_one = not window.stretch.with_times
            window.timed = timed_segments(
                model, written, window.text.parts, timed, window.voices, is_one=is_one
            )
