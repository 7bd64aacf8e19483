"""A third engine, from outside of the studio: it writes what a test tells it to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.transcription.engine import TranscribeOptions
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.window_model import Search, TokenTimes, WindowModel, Written

RATE = 16_000
WORDS = (" one", " two", " three", " four", " five", ".")
TOKENS = SpecialTokens(
    end=100,
    start=101,
    no_timestamps=109,
    languages={"en": 102, "zh": 103},
    tasks={"transcribe": 104, "translate": 105},
    previous=107,
)
OPTIONS = TranscribeOptions("en", vad=False)
"""No voice is in these sounds."""
Write = Callable[[NDArray[np.float32], list[int], Search], Written]
"""A window, its prompt and the search → what is written of it."""


def at(seconds: float) -> int:
    """The time token."""
    return TOKENS.first_time + round(seconds / 0.02)


class ScriptedModel:
    """A `WindowModel` without weights. Words are equally long, from the window's beginning to its end."""

    tokens = TOKENS
    text_context = 448
    vocabulary = 2000
    usual_beams = 3

    def __init__(self, write: Write) -> None:
        self._write = write
        self.language: Callable[[NDArray[np.float32]], dict[str, float]] = lambda _: {"en": 0.75, "zh": 0.25}
        self.batches: list[int] = []
        """Windows of each call of `generate`."""
        self.encoded: list[int] = []
        """Windows of each call of `encode`."""
        self.prompts: list[list[int]] = []
        self.searches: list[Search] = []

    def tokens_of(self, text: str) -> list[int]:
        return [WORDS.index(f" {word}") for word in text.split()]

    def decoded(self, tokens: Sequence[int]) -> str:
        return "".join(WORDS[token] for token in tokens)

    def text_of(self, tokens: Sequence[int]) -> str:
        return self.decoded([token for token in tokens if token < TOKENS.end])

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        self.encoded.append(len(clips))
        return list(clips)

    def rows(self, encoded: Any, numbers: Sequence[int]) -> Any:
        return [encoded[number] for number in numbers]

    def detect_language(self, encoded: Any) -> list[dict[str, float]]:
        return [self.language(samples) for samples in encoded]

    def generate(
        self,
        encoded: Any,
        prompts: Sequence[Sequence[int]],
        search: Search,
        seconds: Sequence[float] | None = None,
    ) -> list[Written]:
        assert len({len(prompt) for prompt in prompts}) == 1
        self.batches.append(len(encoded))
        self.prompts += [list(prompt) for prompt in prompts]
        self.searches.append(search)
        pairs = zip(encoded, prompts, strict=True)
        return [self._write(samples, list(prompt), search) for samples, prompt in pairs]

    def align(
        self, encoded: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]], seconds: Sequence[float]
    ) -> list[TokenTimes]:
        return [
            TokenTimes(np.linspace(0.0, length, len(text) + 1), np.full(len(text), 0.5))
            for text, length in zip(texts, seconds, strict=True)
        ]


class Lent:
    """What lends it."""

    engine = "scripted"
    notes = ()

    def __init__(self, model: WindowModel) -> None:
        self.model = model

    @contextmanager
    def using(self, adapter_id: str | None) -> Iterator[WindowModel]:
        yield self.model


def sound(seconds: float) -> NDArray[np.float32]:
    """Samples whose value is their time."""
    return np.arange(int(seconds * RATE), dtype=np.float32) / RATE


def two_sentences(samples: NDArray[np.float32], _prompt: list[int], _search: Search) -> Written:
    """One of 20 s, and one that the window's end cuts off, if there is so much."""
    if len(samples) <= 20 * RATE:
        return Written([at(0), 0, 1, 5, at(len(samples) / RATE)], -0.1)
    return Written([at(0), 0, 1, 5, at(20), at(20), 2, 3], -0.1)
