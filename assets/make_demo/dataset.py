"""The clips of a training run, made by several processes and kept in memory as 16-bit features."""

import multiprocessing
import os
import random
from dataclasses import dataclass

from .clips import Clip, silent_clip, speech_clip

_CHUNK = 50


@dataclass(frozen=True)
class Recipe:
    """How many clips of each kind, and the number of the first one."""

    single: int
    joined: int
    long: int
    silent: int
    first: int = 0

    def scaled(self, share: float) -> "Recipe":
        """The same mixture, smaller or larger."""
        counts = {kind: max(1, round(count * share)) for kind, count in self.counts().items()}
        return Recipe(**counts, first=self.first)

    def counts(self) -> dict[str, int]:
        """Clips by kind."""
        return {"single": self.single, "joined": self.joined, "long": self.long, "silent": self.silent}


def make_clip(kind: str, seed: int, test: bool = False) -> Clip:
    """The clip of a kind and a number, always the same one."""
    rng = random.Random(f"{kind}-{seed}-{test}")
    return silent_clip(rng) if kind == "silent" else speech_clip(kind, test, rng)


def _make_chunk(task: tuple[str, int, int]) -> list[Clip]:
    kind, first, count = task
    return [make_clip(kind, first + index) for index in range(count)]


def _one_thread() -> None:
    """A worker must not take the threads of its siblings."""
    import torch

    torch.set_num_threads(1)


def make_dataset(recipe: Recipe) -> dict[str, list[Clip]]:
    """All clips of a recipe by kind, in a fixed order."""
    clips: dict[str, list[Clip]] = {}
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), _one_thread) as pool:
        for kind, count in recipe.counts().items():
            tasks = [
                (kind, recipe.first + done, min(_CHUNK, count - done)) for done in range(0, count, _CHUNK)
            ]
            clips[kind] = [clip for chunk in pool.imap(_make_chunk, tasks) for clip in chunk]
    return clips
