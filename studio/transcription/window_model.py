"""What a Whisper does with windows of sound, whatever library computes it.

Everything else (which windows there are, what to make of an unsure text, when each word was said) is written
once, in terms of these four: `encode`, `detect_language`, `generate`, `align`. A further engine is one more
class that has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.special_tokens import SpecialTokens

WORD_SECONDS = 1.0
"""What is shorter is taken for a single word."""
_HOP = 160
_BEHIND_A_WORD = 0.0


def pad_word(features: NDArray[np.float32], length: int) -> None:
    """Fills log-mel features (bins, frames) behind a clip of `length` samples, if that is a single word.

    Longer clips keep the silence that the extractor writes. Behind a word whisper-tiny makes words up in it:
    of 200 English words 36 are right, errors 139 %; with the value that faster-whisper has behind every clip
    42 are, errors 109 %. Mandarin is alike with both.
    """
    if length < WORD_SECONDS * SAMPLING_RATE:
        features[:, length // _HOP + 1 :] = _BEHIND_A_WORD


@dataclass(frozen=True)
class Search:
    """How to look for the best text."""

    num_beams: int = 1
    temperature: float = 0.0
    """0: the most likely token each time; above: sampling, without beams."""
    max_new_tokens: int = 0
    """0: as many as fit."""
    suppress_tokens: tuple[int, ...] | None = None
    """Tokens that are never written; None: those that the model names."""
    logprob_threshold: float | None = None
    """Texts are judged, and below this mean log-probability the silence, too; None: nobody asks."""


@dataclass(frozen=True)
class Written:
    """What a model wrote of a window."""

    tokens: list[int]
    """Text (and times, if the prompt asks for them), without prompt and end token."""
    average_logprob: float = 0.0
    """Mean natural logarithm of the probability of each token, the end token included, if it was asked."""
    no_speech_probability: float = 0.0
    """That nobody speaks; only told of a text whose `average_logprob` is below the search's threshold."""


@dataclass(frozen=True)
class TokenTimes:
    """Token `i` was said from `edges[i]` to `edges[i + 1]` seconds, with `probabilities[i]`."""

    edges: NDArray[np.float64]
    probabilities: NDArray[np.float64]


class WindowModel(Protocol):
    """A loaded Whisper for a batch of windows of at most 30 s. Whoever calls holds it alone."""

    @property
    def tokens(self) -> SpecialTokens:
        """Its special tokens: which languages and tasks it knows."""
        ...

    @property
    def text_context(self) -> int:
        """Positions of the decoder, 448: prompt and text together."""
        ...

    @property
    def vocabulary(self) -> int:
        """How many tokens it has."""
        ...

    @property
    def usual_beams(self) -> int:
        """Unless told, so many, as its library has it."""
        ...

    def tokens_of(self, text: str) -> list[int]:
        """Text tokens of a text, without special ones."""
        ...

    def decoded(self, tokens: Sequence[int]) -> str:
        """Text of text tokens, with U+FFFD for a part of a character."""
        ...

    def text_of(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; half a character at the end of a cut text is left out."""
        ...

    def encode(self, clips: Sequence[NDArray[np.float32]], *, is_short: bool = False) -> Any:
        """Hidden states (clips, 1500, d_model) of mono samples at 16 kHz, each padded with silence to 30 s.

        `is_short`: only a little longer than the longest clip, for a model that was trained so.
        """
        ...

    def rows(self, encoded: Any, numbers: Sequence[int]) -> Any:
        """The hidden states of some of the windows."""
        ...

    def detect_language(self, encoded: Any) -> list[dict[str, float]]:
        """For each window the probability of each language the model knows, likeliest first."""
        ...

    def generate(
        self,
        encoded: Any,
        prompts: Sequence[Sequence[int]],
        search: Search,
        seconds: Sequence[float] | None = None,
    ) -> list[Written]:
        """A text for each window. The prompts must be of one length, and all ask for times or none does.

        A prompt without `<|notimestamps|>` asks for time tokens: none is later than the window's end, if
        `seconds` says how long each is.
        """
        ...

    def align(
        self, encoded: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]], seconds: Sequence[float]
    ) -> list[TokenTimes]:
        """When each token of each window's text was said.

        `prompt` ends with `<|notimestamps|>`; `texts` have no time tokens and at least one token each;
        `seconds` are the windows' lengths without padding.
        """
        ...
