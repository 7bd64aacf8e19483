"""Short-audio training: batches of like lengths, and now and then one that is padded to 30 seconds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from studio.options.training import TrainingConfig
from studio.training.data.clips import Clip, TrainingData
from studio.training.schedule import Schedule
from studio.transcription.windows import WINDOW_SECONDS
from studio.whisper.audio_context import FRAMES_PER_POSITION, POSITIONS, positions_of
from studio.whisper.loss import IGNORED

WORTH_IT_SECONDS = 20.0
"""Above this mean length there is little to gain."""
FEWEST_STEPS = 50
"""A model needs them to learn to read short windows as well as it reads padded ones.

The demo model's word errors after 28 steps: 38.9 % read short, 14.8 % padded; after 56 steps: 8.3, 11.1 and
13.0 % (three seeds) read short, 12.0 % padded.
"""
_BATCHES_SORTED_TOGETHER = 50


def short_audio(
    config: TrainingConfig, data: TrainingData, schedule: Schedule, *, was_short: bool, alike: int
) -> "ShortAudio | None":
    """Short-audio mode for a run; None: clips are padded to 30 seconds. See `is_short` and `ShortAudio`."""
    if not is_short(config, data, schedule, was_short=was_short):
        return None
    longest = positions_of(max(map(seconds_of, data.train)))
    batch_size = config.per_device_train_batch_size
    size = padded_batch_size(batch_size, longest)
    return ShortAudio(config.padded_share, size, longest, was_short or config.distill, alike)


def is_short(
    config: TrainingConfig, data: TrainingData, schedule: Schedule, *, was_short: bool = False
) -> bool:
    """Whether a run trains on clips as long as they are; `auto` decides by their lengths and the steps.

    `was_short`: the model to start from reads short windows already, and goes on so.
    """
    if config.asks_for_short_audio or config.short_audio == "off":
        return config.asks_for_short_audio
    if was_short:
        return True
    mean = sum(map(seconds_of, data.train)) / len(data.train)
    return (
        mean <= WORTH_IT_SECONDS
        and schedule.max_steps >= FEWEST_STEPS
        and config.training_method.trains_encoder
        and not config.torch_compile
    )


def seconds_of(clip: Clip) -> float:
    """Length of a clip; a full window where it is not known."""
    return min(WINDOW_SECONDS, clip.example.duration_seconds or WINDOW_SECONDS)


def lengths_of(clips: Sequence[Clip]) -> dict[str, float]:
    """Mean and greatest length of clips in seconds, for the card of a model that knows no longer windows."""
    seconds = list(map(seconds_of, clips))
    return {"mean": round(sum(seconds) / len(seconds), 3), "longest": round(max(seconds), 3)}


@dataclass(frozen=True)
class ShortAudio:
    """Which batches are padded to 30 seconds, in pieces no larger than the planned memory."""

    padded_share: float
    """Of all batches; every tenth, say, is padded to 30 s."""
    padded_batch_size: int
    """Clips of a padded batch that are worked on at once."""
    positions: int = POSITIONS
    """Of the longest clip."""
    was_short: bool = False
    """Whether the model to start from is to be judged on short windows: it was trained on them, or shall
    learn nothing else."""
    alike: int = 1
    """Clips of like lengths that follow each other: a batch as the run began with, so that the order is the
    same when memory ran out and batches became smaller."""

    def is_padded(self, batch: int) -> bool:
        """Whether the batch of that number (from 0, over all epochs) is padded."""
        return int((batch + 1) * self.padded_share) > int(batch * self.padded_share)

    def pieces(self, inputs: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
        """A batch padded and divided into pieces, each with its share of the batch's labels."""
        whole = {**inputs, "input_features": padded(inputs["input_features"])}
        features, labels = whole["input_features"], whole["labels"]
        counts = (labels != IGNORED).sum(dim=1)
        size = self.padded_batch_size
        found = []
        for first in range(0, len(features), size):
            part = slice(first, first + size)
            piece = {
                name: value[part] if isinstance(value, torch.Tensor) else value
                for name, value in whole.items()
            }
            found.append((piece, counts[part].sum() / counts.sum()))
        return found


@dataclass
class Paces:
    """How long a clip takes in short batches and in padded ones, as measured in this run."""

    short_seconds: float = 0.0
    short_clips: int = 0
    padded_seconds: float = 0.0
    padded_clips: int = 0
    window_seconds: float = 0.0
    windows: int = 0

    def note(self, seconds: float, clips: int, *, is_padded: bool) -> None:
        """Takes in a batch."""
        if is_padded:
            self.padded_seconds, self.padded_clips = self.padded_seconds + seconds, self.padded_clips + clips
        else:
            self.short_seconds, self.short_clips = self.short_seconds + seconds, self.short_clips + clips

    def note_window(self, seconds: float) -> None:
        """Takes in a window that was rehearsed: it takes as long as a padded clip, and teaches none."""
        self.window_seconds, self.windows = self.window_seconds + seconds, self.windows + 1

    @property
    def speedup(self) -> float | None:
        """How many times as fast all clips are as if each were padded; None until both were seen."""
        whole_seconds, wholes = self.padded_seconds + self.window_seconds, self.padded_clips + self.windows
        if not wholes or not self.short_clips:
            return None
        every = (self.short_seconds + whole_seconds) / (self.short_clips + self.padded_clips)
        return whole_seconds / wholes / every


def padded_batch_size(batch_size: int, positions: int) -> int:
    """Clips of 30 s that take no more positions than a batch of shorter ones, and at least one."""
    return min(batch_size, max(1, batch_size * positions // POSITIONS))


def padded(features: torch.Tensor) -> torch.Tensor:
    """Features as long as 30 s: what comes after the last frame is like it (it holds no sound)."""
    missing = FRAMES_PER_POSITION * POSITIONS - features.shape[-1]
    if missing <= 0:
        return features
    return torch.cat([features, features[..., -1:].expand(*features.shape[:-1], missing)], dim=-1)


class ClipsByLength(torch.utils.data.Sampler[int]):
    """Clips in a random order in which those of one batch are of like lengths.

    As transformers' `LengthGroupedSampler`, with the batches themselves in random order, and without using
    the process's random numbers: the order is a matter of seed and epoch, so that a resumed run has the same.
    """

    def __init__(self, clips: Sequence[Clip], batch_size: int, seed: int, epoch: Callable[[], int]) -> None:
        """`epoch` tells the number of the epoch that begins or goes on."""
        self._lengths = [seconds_of(clip) for clip in clips]
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        dice = torch.Generator().manual_seed(self._seed + 1_000_003 * self._epoch())
        order = torch.randperm(len(self._lengths), generator=dice).tolist()
        size = self._batch_size
        together = size * min(_BATCHES_SORTED_TOGETHER, max(1, len(order) // (4 * size)))
        batches = []
        for first in range(0, len(order), together):
            alike = sorted(order[first : first + together], key=lambda index: -self._lengths[index])
            batches += [alike[at : at + size] for at in range(0, len(alike), size)]
        # A batch that is not full can only be the last one.
        full = [batch for batch in batches if len(batch) == size]
        rest = [batch for batch in batches if len(batch) < size]
        for index in torch.randperm(len(full), generator=dice).tolist():
            yield from full[index]
        for batch in rest:
            yield from batch
