"""Clips that are learned from and judged by at once: those tell only what was learned by heart."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from studio.dataset.example import Example
from studio.sentences import Sentence

_NAMED = 3
_LOOKED_AT_BYTES = 2**16
"""Of each end of a file. Two files of one size that begin and end alike are one."""


@dataclass(frozen=True)
class Shared:
    """Evaluation clips that are among the training clips, too."""

    total: int
    """All evaluation clips."""
    places: tuple[int, ...]
    """Which of them those are."""
    names: tuple[str, ...]
    """Files of the first of those."""

    @property
    def count(self) -> int:
        """How many those are."""
        return len(self.places)

    @property
    def sentence(self) -> Sentence:
        """What it means, for people."""
        more = " …" if self.count > len(self.names) else ""
        return Sentence(
            "{count} of {total} evaluation clips are also trained on: {names}. Their errors show what was "
            "learned by heart: give test_data with other clips.",
            count=self.count,
            total=self.total,
            names=", ".join(self.names) + more,
        )


def shared_clips(train: Sequence[Example], evaluation: Sequence[Example]) -> Shared:
    """How many clips of `evaluation` are in `train`, too, and which: the same sound from the same moment on.

    Files are read only where their sizes are equal.
    """
    kinds = {_kind(example) for example in evaluation}
    learned = {_sound(example) for example in train if _kind(example) in kinds}
    kinds = {kind for kind, _ in learned}
    places = [
        place
        for place, example in enumerate(evaluation)
        if _kind(example) in kinds and _sound(example) in learned
    ]
    names = dict.fromkeys(evaluation[place].audio_path.name for place in places[:_NAMED])
    return Shared(len(evaluation), tuple(places), tuple(names))


def _kind(example: Example) -> tuple[int, int]:
    """Size of the file, and where in it the clip begins, in hundredths of a second."""
    return example.audio_bytes, round(100 * (example.start_seconds or 0.0))


def _sound(example: Example) -> tuple[tuple[int, int], bytes]:
    return _kind(example), _ends(example.audio_path, example.audio_bytes)


@lru_cache(maxsize=4096)
def _ends(path: Path, _size_bytes: int) -> bytes:
    """Of what a file begins and ends with. One of another size is another file."""
    try:
        with path.open("rb") as file:
            digest = hashlib.blake2b(file.read(_LOOKED_AT_BYTES), digest_size=16)
            file.seek(max(0, path.stat().st_size - _LOOKED_AT_BYTES))
            digest.update(file.read())
    except OSError:
        return str(path).encode()  # it is named with its reason when it is read
    return digest.digest()
