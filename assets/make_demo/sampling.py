"""Which clips go together into a batch: of like length, so that little of it is padding."""

import random
from collections.abc import Iterator, Sequence

from .batches import Batch, Targets, make_batch, padded_frames
from .clips import Clip
from .features import FRAMES
from .stages import Stage

_BUCKETS = 20
_LONGEST_SHORT = 900
"""Silent clips up to this many frames are batched with the short ones …"""
_SILENT_SHARE = 1 / 30
"""… but no more of them than this share of the clips with one sentence."""


class Pool:
    """An endless, shuffled supply of clips grouped by length."""

    def __init__(
        self, clips: Sequence[Clip], frame_budget: int, rng: random.Random, sort: bool = True
    ) -> None:
        self._clips, self._budget, self._rng, self._sort = list(clips), frame_budget, rng, sort
        self._ready: Iterator[list[Clip]] = iter(())

    def next(self) -> list[Clip]:
        """The next group of clips; its longest times its size stays within the frame budget."""
        while True:
            for group in self._ready:
                return group
            self._rng.shuffle(self._clips)
            self._ready = iter(self._groups())

    def _groups(self) -> list[list[Clip]]:
        longest = max(clip.features.shape[1] for clip in self._clips)
        stretch = max(1, self._budget // longest) * _BUCKETS
        groups: list[list[Clip]] = []
        for first in range(0, len(self._clips), stretch):
            part = self._clips[first : first + stretch]
            if self._sort:
                part.sort(key=lambda clip: clip.features.shape[1])
            groups += self._split(part)
        self._rng.shuffle(groups)
        return groups

    def _split(self, clips: list[Clip]) -> list[list[Clip]]:
        groups: list[list[Clip]] = [[]]
        for clip in clips:
            frames = clip.features.shape[1] if self._sort else FRAMES
            if groups[-1] and frames * (len(groups[-1]) + 1) > self._budget:
                groups.append([])
            groups[-1].append(clip)
        return groups


def batches(clips: dict[str, list[Clip]], targets: Targets, stage: Stage, seed: int) -> Iterator[Batch]:
    """The batches of a stage."""
    rng = random.Random(seed)
    small, large = stage.budgets
    silent_short = [clip for clip in clips["silent"] if clip.features.shape[1] <= _LONGEST_SHORT]
    silent_long = [clip for clip in clips["silent"] if clip.features.shape[1] > _LONGEST_SHORT]
    short = clips["single"] + silent_short[: round(len(clips["single"]) * _SILENT_SHARE)]
    pools = {
        "short": Pool(short, small, rng),
        "joined": Pool(clips["joined"], small, rng),
        "long": Pool(clips["long"] + silent_long, large, rng),
        "full": Pool(clips["single"] + clips["joined"] + clips["silent"] * 2, large, rng, sort=False),
    }
    for _ in range(stage.steps):
        name = rng.choices(list(stage.mixture), list(stage.mixture.values()))[0]
        group = pools[name].next()
        frames = FRAMES if name == "full" else padded_frames(group, rng)
        size = max(1, (large if name in ("long", "full") else small) // frames)
        yield make_batch(rng.sample(group, min(len(group), size)), frames, targets, rng)
