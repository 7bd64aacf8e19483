"""What to make of one window: is anything said, in which language, is the text a loop, when was each word."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.inference.decoding import Decoder, Search
from studio.inference.engine import Segment, TranscribeOptions
from studio.inference.languages import AUTO
from studio.inference.long_form import HeardWindow
from studio.inference.voice_activity import has_voice, voiced_spans
from studio.inference.windows import TokenSegment, is_loop, split_segments, without_loops
from studio.inference.word_times import token_times, within_voice, without_stretched, words_of

UNSURE_LOGPROB = -1.0
"""Below this mean log-probability a text that may stand for silence is not believed."""
_WAYS_OUT_OF_A_LOOP = (0.2, 0.4, 0.6, 0.8, 1.0)


class Hearing:
    """Hears the windows of one recording in turn; holds the model's lock for one window at a time."""

    def __init__(
        self,
        model: Callable[[], AbstractContextManager[Decoder]],
        options: TranscribeOptions,
        language: str,
        *,
        with_times: bool,
    ) -> None:
        """`model` gives the decoder under its lock; `language` is a code the model knows, or `auto`."""
        self._model = model
        self._options = options
        self._with_times = with_times
        self.language = "" if language == AUTO else language
        """Empty until speech was found, if it is to be detected."""

    def __call__(self, samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        """What is said in `samples` (at most 30 s); `context` are text tokens of the window before."""
        length_seconds = len(samples) / SAMPLING_RATE
        nothing = HeardWindow((), length_seconds, context)
        if self._options.no_speech_threshold < 1 and not has_voice(samples):
            return nothing
        with self._model() as decoder:
            encoded = decoder.encode([samples])
            language = self.language or next(iter(decoder.language_probabilities(encoded)[0]))
            prompt = self._prompt(decoder, language, context)
            tokens, text, is_stuck = self._decode(decoder, encoded, prompt)
            if not text or self._is_silence(decoder, encoded, prompt, tokens):
                return nothing
            self.language = language
            if self._with_times:
                pieces, advance = split_segments(tokens, decoder.tokens, length_seconds)
            else:
                pieces, advance = [TokenSegment(0.0, length_seconds, tuple(tokens))], length_seconds
            if is_stuck:
                pieces, advance = without_loops(pieces), length_seconds
            segments = self._segments(decoder, encoded, pieces, samples)
            said = tuple(token for piece in pieces for token in piece.text_tokens)
            remembered = (*context, *said)[-decoder.text_context // 2 :]
        remember = self._options.condition_on_prev_tokens and not is_stuck
        return HeardWindow(segments, advance, remembered if remember else ())

    def _prompt(self, decoder: Decoder, language: str, context: Sequence[int]) -> list[int]:
        steer = decoder.tokens.prompt(language, self._options.task, with_times=self._with_times)
        text = self._options.initial_prompt.strip()
        room = decoder.text_context // 2 - 1
        hint = decoder.tokens_of(f" {text}")[-room:] if text else []
        before = [*hint, *context[len(context) - min(len(context), room - len(hint)) :]]
        return [decoder.tokens.previous, *before, *steer] if before and decoder.tokens.previous else steer

    def _decode(self, decoder: Decoder, encoded: Any, prompt: list[int]) -> tuple[list[int], str, bool]:
        """Tokens, their text, and whether it is a loop that no temperature got rid of."""
        search = Search(self._options.num_beams, max_new_tokens=self._options.max_new_tokens)
        first = decoder.generate(encoded, [prompt], search)[0]
        if not self._is_loop(decoder, prompt, first):
            return first, decoder.text_of(first).strip(), False
        for temperature in _WAYS_OUT_OF_A_LOOP:
            tokens = decoder.generate(encoded, [prompt], replace(search, temperature=temperature))[0]
            is_sure = decoder.score(encoded, prompt, tokens).average_logprob > UNSURE_LOGPROB
            if is_sure and not self._is_loop(decoder, prompt, tokens):
                return tokens, decoder.text_of(tokens).strip(), False
        return first, decoder.text_of(first).strip(), True

    def _is_loop(self, decoder: Decoder, prompt: list[int], tokens: list[int]) -> bool:
        room = decoder.text_context - len(prompt)
        was_cut = len(tokens) >= min(self._options.max_new_tokens or room, room)
        return is_loop(decoder.text_of(tokens), tokens, decoder.tokens, was_cut=was_cut)

    def _is_silence(self, decoder: Decoder, encoded: Any, prompt: list[int], tokens: list[int]) -> bool:
        scores = decoder.score(encoded, prompt, tokens)
        return (
            scores.no_speech_probability > self._options.no_speech_threshold
            and scores.average_logprob < UNSURE_LOGPROB
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
            timed.append(_with_words(segment, without_stretched(within_voice(words, spans))))
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
