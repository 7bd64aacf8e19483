"""The proof of an export: both forms write the same tokens of a few seconds of speech, or how many differ."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.settings import DEMO_SPEECH
from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.window_model import Search, Written

MOST_TOKENS = 96
"""Of a clip: enough for a difference to show, and written within minutes by a large model on a CPU."""
_CLIPS = ("samples/kitchen-light.flac", "audio/test-000.ogg", "audio/test-001.ogg")


class Writer(Protocol):
    """Of a `WindowModel`, what it takes to see what is written of a clip."""

    @property
    def tokens(self) -> SpecialTokens:
        """Its special tokens."""
        ...

    def encode(self, clips: Sequence[NDArray[np.float32]]) -> Any:
        """What `generate` takes of mono samples at 16 kHz."""
        ...

    def generate(self, encoded: Any, prompts: Sequence[Sequence[int]], search: Search) -> Sequence[Written]:
        """A text for each clip."""
        ...


@dataclass(frozen=True)
class Decoded:
    """What one form of a model wrote, for each clip the tokens behind the prompt."""

    form: str
    """`model`, `adapter`, or a `ModelKind`."""
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Parity:
    """How much two forms of a model differ."""

    a: str
    b: str
    clips: int
    tokens: int
    """Written by the first."""
    different_tokens: int
    """Changes that make the second's tokens of the first's: inserted, deleted or replaced."""

    @property
    def is_equal(self) -> bool:
        """Whether not one token differs."""
        return self.different_tokens == 0

    def to_json(self) -> dict[str, Any]:
        """As the card has it."""
        return {**asdict(self), "equal": self.is_equal}


def proof_clips() -> list[NDArray[np.float32]]:
    """A few seconds of speech each, from the demo speech; mono samples at 16 kHz."""
    return [read_audio(DEMO_SPEECH / name) for name in _CLIPS]


def decode_with(model: Writer, clips: Sequence[NDArray[np.float32]], form: str) -> Decoded:
    """What a model writes greedily, whatever library plays it."""
    prompt = model.tokens.prompt(_language(model.tokens.languages), "transcribe", with_times=False)
    search = Search(max_new_tokens=MOST_TOKENS)
    rows = [model.generate(model.encode([clip]), [prompt], search)[0].tokens for clip in clips]
    return Decoded(form, tuple(map(tuple, rows)))


def compare(a: Decoded, b: Decoded) -> Parity:
    """Edit distance between the tokens of two forms of a model, summed over the clips."""
    from rapidfuzz.distance import Levenshtein

    different = sum(Levenshtein.distance(left, right) for left, right in zip(a.rows, b.rows, strict=True))
    return Parity(a.form, b.form, len(a.rows), sum(map(len, a.rows)), different)


def _language(known: Collection[str]) -> str:
    """That of the clips, if the model knows it; an English-only model is told none."""
    return "en" if "en" in known else next(iter(known), "")
