"""What to make of one window: is anything said, in which language, is the text a loop, when was each word."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.decoding import BEAMS, Decoder, Search, Written
from studio.transcription.engine import Segment, TranscribeOptions
from studio.transcription.languages import AUTO
from studio.transcription.long_form import HeardWindow
from studio.transcription.voice_activity import has_voice, voiced_spans
from studio.transcription.windows import TokenSegment, is_loop, split_segments, without_loops
from studio.transcription.word_times import token_times, within_voice, without_stretched, words_of


@dataclass(frozen=True)
class Start:
    """What is known of a recording's first window, which was decoded together with those of others."""

    encoded: Any
    """Hidden states (1, 1500, d_model)."""
    odds: dict[str, float]
    """Code → probability of each language, likeliest first; empty where the language was given."""
    written: Written


@dataclass(frozen=True)
class _Decoded:
    """The text of a window, and what is to be thought of it."""

    tokens: list[int]
    text: str
    is_stuck: bool
    """It is a loop that no temperature got rid of."""
    is_silence: bool
    """Probably nobody spoke."""


class Hearing:
    """Hears the windows of one recording in turn; holds the model's lock for one window at a time."""

    def __init__(
        self,
        model: Callable[[], AbstractContextManager[Decoder]],
        options: TranscribeOptions,
        language: str,
        *,
        with_times: bool,
        is_short: bool = False,
    ) -> None:
        """`model` gives the decoder under its lock; `language` is a code the model knows, or `auto`.

        `is_short`: the encoder sees a window's own length.
        """
        self._is_short = is_short
        self._model = model
        self._options = options
        self._with_times = with_times
        self._start: Start | None = None
        self._is_first = True
        self._context: tuple[int, ...] = ()
        self.language = "" if language == AUTO else language
        """Empty until speech was found, if it is to be detected."""
        self.language_probabilities: dict[str, float] = {}
        """Code → probability, likeliest first, in the window where the language was detected."""

    def begin_with(self, start: Start) -> None:
        """Gives the first window's states and tokens along, so that they are not computed again."""
        self._start = start

    def go_on(self, before: "Hearing") -> None:
        """Hears what comes after `before`: knows what it remembers, and not the initial prompt."""
        self._is_first, self._context = False, before._context

    def odds(self, decoder: Decoder, encoded: Any) -> list[dict[str, float]]:
        """For each clip the probability of each language, if it is to be detected; else nothing."""
        return [{}] * len(encoded) if self.language else decoder.language_probabilities(encoded)

    @property
    def is_short(self) -> bool:
        """Whether the encoder sees a window's own length."""
        return self._is_short

    def wants(self, samples: NDArray[np.float32]) -> bool:
        """Whether somebody may speak in a window, or that is not to be judged."""
        is_judged = self._options.vad and self._options.no_speech_threshold < 1
        return not is_judged or has_voice(samples)

    def __call__(self, samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        """What is said in `samples` (at most 30 s); `context` are text tokens of the window before."""
        length_seconds = len(samples) / SAMPLING_RATE
        context = self._context = context or self._context
        nothing = HeardWindow((), length_seconds, context)
        start, self._start = self._start, None
        is_first, self._is_first = self._is_first, False
        if start is None and not self.wants(samples):
            return nothing
        with self._model() as decoder:
            encoded = start.encoded if start else decoder.encode([samples], is_short=self._is_short)
            odds = start.odds if start else self.odds(decoder, encoded)[0]
            language = self.language or next(iter(odds))
            prompt = self.prompt(decoder, language, context, is_first=is_first)
            first = start.written if start else None
            heard = self._decode(decoder, encoded, prompt, length_seconds, first)
            if not heard.text or heard.is_silence:
                return nothing
            self.language = language
            self.language_probabilities = odds or self.language_probabilities
            if self._with_times:
                pieces, advance = split_segments(heard.tokens, decoder.tokens, length_seconds)
            else:
                pieces, advance = [TokenSegment(0.0, length_seconds, tuple(heard.tokens))], length_seconds
            if heard.is_stuck:
                pieces, advance = without_loops(pieces), length_seconds
            segments = self._segments(decoder, encoded, pieces, samples)
            said = tuple(token for piece in pieces for token in piece.text_tokens)
            remembered = (*context, *said)[-decoder.text_context // 2 :]
        remember = self._options.condition_on_prev_tokens and not heard.is_stuck
        self._context = remembered if remember else ()
        return HeardWindow(segments, advance, self._context)

    def prompt(self, decoder: Decoder, language: str, context: Sequence[int], *, is_first: bool) -> list[int]:
        """Hotwords, the text before (of the first window: the initial prompt), then what steers the model."""
        steer = decoder.tokens.prompt(language, self._options.task, with_times=self._with_times)
        hotwords = decoder.hint(self._options.hotwords)
        hint = decoder.hint(self._options.initial_prompt) if is_first else []
        room = decoder.prompt_room - len(hotwords) - len(hint)
        before = [*hotwords, *hint, *context[len(context) - min(len(context), room) :]]
        return [decoder.tokens.previous, *before, *steer] if before and decoder.tokens.previous else steer

    @property
    def search(self) -> Search:
        """How the first temperature looks for the text."""
        options = self._options
        beams = options.num_beams or BEAMS
        return Search(beams, options.temperature[0], options.max_new_tokens, options.suppress_tokens)

    def _decode(
        self,
        decoder: Decoder,
        encoded: Any,
        prompt: list[int],
        length_seconds: float,
        first: Written | None,
    ) -> _Decoded:
        """Goes up the temperatures until a text neither repeats itself nor is unsure.

        If none is so, the surest of those that do not repeat themselves is taken. `first` is what the first
        temperature gives, if it is known.
        """
        options = self._options
        best: tuple[float, list[int]] | None = None
        tried: list[int] | None = None
        for temperature in options.temperature:
            written = first
            if written is None:
                search = replace(self.search, temperature=temperature)
                written = decoder.hear(encoded, [prompt], search, [length_seconds])[0]
            tokens, average = written.tokens, written.average_logprob
            tried = tried or tokens
            first = None
            if average is None or average < options.logprob_threshold:
                # A pass of the decoder, and only an unsure text may be silence.
                scores = decoder.score(encoded, prompt, tokens)
                average = scores.average_logprob
                is_silence = scores.no_speech_probability > options.no_speech_threshold
                if average < options.logprob_threshold and is_silence:
                    return _Decoded(tokens, "", is_stuck=False, is_silence=True)
            if self._is_loop(decoder, prompt, tokens):
                continue
            if best is None or average > best[0]:
                best = average, tokens
            if average >= options.logprob_threshold:
                break
        chosen = best[1] if best else tried or []
        text = decoder.text_of(chosen).strip()
        return _Decoded(chosen, text, is_stuck=best is None, is_silence=False)

    def _is_loop(self, decoder: Decoder, prompt: list[int], tokens: list[int]) -> bool:
        room = decoder.text_context - len(prompt)
        return is_loop(
            decoder.text_of(tokens),
            tokens,
            decoder.tokens,
            was_cut=len(tokens) >= min(self._options.max_new_tokens or room, room),
            threshold=self._options.compression_ratio_threshold,
        )

    def _segments(
        self, decoder: Decoder, encoded: Any, pieces: Sequence[TokenSegment], samples: NDArray[np.float32]
    ) -> tuple[Segment, ...]:
        plain = [
            Segment(piece.start_seconds, piece.end_seconds, decoder.text_of(piece.text_tokens).strip())
            for piece in pieces
        ]
        if self._options.timestamps != "word" or not plain:
            return tuple(segment for segment in plain if segment.text)
        prompt = decoder.tokens.prompt(self.language, self._options.task, with_times=False)
        text = [token for piece in pieces for token in piece.text_tokens]
        times = token_times(decoder, encoded, prompt, text, len(samples) / SAMPLING_RATE)
        spans = voiced_spans(samples)
        edges, odds = times.edges.tolist(), times.probabilities.tolist()
        spoken = "en" if self._options.task == "translate" else self.language
        timed = []
        first = 0
        for piece, segment in zip(pieces, plain, strict=True):
            after = min(first + len(piece.text_tokens), len(odds))
            words = words_of(decoder, spoken, text[first:after], edges[first : after + 1], odds[first:after])
            timed.append(_with_words(segment, without_stretched(within_voice(words, spans), spans)))
            first = after
        return tuple(segment for segment in timed if segment.text)


def _with_words(segment: Segment, words: Sequence[Any]) -> Segment:
    """A segment that begins with its first word and ends with its last."""
    if not words:
        return segment
    return replace(
        segment,
        start_seconds=words[0].start_seconds,
        end_seconds=max(words[-1].end_seconds, words[0].start_seconds),
        words=tuple(words),
    )
