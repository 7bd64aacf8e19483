"""Clips that are in the training and the evaluation data: they show memorisation, not recognition."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from studio.dataset.example import Example
from studio.dataset.listening import ClipLevels
from studio.dataset.usable import HEARD_AT_ONCE, hear
from studio.files import file_digest
from studio.messages import Message

_NAMED = 3
_ENOUGH = 0.5
"""Neighbours often have a margin in common."""

_Stretch = tuple[float, float]
"""Where a clip begins and ends in its file, in seconds."""


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
    def sentence(self) -> Message:
        """What it means, for people."""
        more = " …" if self.count > len(self.names) else ""
        return Message(
            "{count} of {total} evaluation clips are also trained on: {names}. Their errors show what was "
            "learned by heart: give test_data with other clips.",
            count=self.count,
            total=self.total,
            names=", ".join(self.names) + more,
        )


def shared_clips(train: Sequence[Example], evaluation: Sequence[Example], *, listens: bool = True) -> Shared:
    """How many clips of `evaluation` are in `train`, too, and which: the same sound, in whatever file.

    Two stretches of one recording are the same clip where they have half of the shorter one in common. Files
    are compared only where their sizes are equal, and heard only where clips are about equally long (and if
    it `listens`): of many clips those whose texts are the same as well.
    """
    cut = set(_from_one_file(train, evaluation))
    places = sorted(cut.union(_heard_twice(train, evaluation, cut) if listens else ()))
    names = dict.fromkeys(evaluation[place].audio_path.name for place in places[:_NAMED])
    return Shared(len(evaluation), tuple(places), tuple(names))


def _from_one_file(train: Sequence[Example], evaluation: Sequence[Example]) -> Iterator[int]:
    """Places of the evaluation clips that overlap a training clip in one file, or in copies of it."""
    sizes = {example.audio_bytes for example in evaluation}
    learned: dict[bytes, set[_Stretch]] = defaultdict(set)
    for example in train:
        if example.audio_bytes in sizes:
            learned[digest_of(example)].add(_stretch(example))
    sizes = {example.audio_bytes for example in train}
    for place, example in enumerate(evaluation):
        if example.audio_bytes in sizes:
            others = learned.get(digest_of(example), ())
            if any(_is_same(_stretch(example), other) for other in others):
                yield place


def _stretch(example: Example) -> _Stretch:
    start = example.start_seconds or 0.0
    return start, start + (example.duration_seconds or 0.0)


def _is_same(one: _Stretch, other: _Stretch) -> bool:
    shorter = min(one[1] - one[0], other[1] - other[0])
    return min(one[1], other[1]) - max(one[0], other[0]) >= _ENOUGH * shorter


def _heard_twice(
    train: Sequence[Example], evaluation: Sequence[Example], known: Collection[int]
) -> Iterator[int]:
    """Places of the evaluation clips that sound as a training clip does, to the sample; but for the known."""
    has_text = len(train) + len(evaluation) > HEARD_AT_ONCE
    waiting = [(place, evaluation[place]) for place in range(len(evaluation)) if place not in known]
    kinds = {kind for _, example in waiting for kind in _kinds(example, has_text=has_text)}
    alike = [example for example in train if not kinds.isdisjoint(_kinds(example, has_text=has_text))]
    kinds = {kind for example in alike for kind in _kinds(example, has_text=has_text)}
    learned = {_sound(example) for example in alike} - {None}
    for place, example in waiting:
        if not kinds.isdisjoint(_kinds(example, has_text=has_text)) and _sound(example) in learned:
            yield place


def _kinds(example: Example, *, has_text: bool) -> tuple[tuple[int, str], ...]:
    """Tenths of a second, as lists round, with the letters of the text: the same clip has one in common."""
    text = "".join(filter(str.isalnum, example.text.casefold())) if has_text else ""
    tenths = int(10 * (example.duration_seconds or 0.0) - 0.5)
    return (tenths, text), (tenths + 1, text)


def _sound(example: Example) -> bytes | None:
    heard = hear(example)
    return heard.fingerprint if isinstance(heard, ClipLevels) else None


def digest_of(example: Example) -> bytes:
    """Of what its file holds: another sound has another, and so has the same file once it is changed."""
    try:
        return _digest(example.audio_path, example.audio_path.stat().st_mtime_ns)
    except OSError:
        return os.fsencode(example.audio_path)  # it is named with its reason when it is read


@lru_cache(maxsize=4096)
def _digest(path: Path, _changed_ns: int) -> bytes:
    return file_digest(path)
