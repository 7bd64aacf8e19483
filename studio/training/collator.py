"""Clips into batches: audio is decoded and turned into log-mel features when a batch needs it.

Features are kept in memory if all fit, without their padding and in half precision. Those of a small dataset
are made before the first step, so that a file that cannot be read is reported then.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.features import log_mel
from studio.dataset.manifest import RowProblem
from studio.errors import AudioError
from studio.training.data import WINDOW_SECONDS, Clip

IGNORED = -100
CACHE_LIMIT_BYTES = 1024**3
_EDGE_FRAMES = 4
"""A window of the transform reaches this many frames over the end of the sound."""

Features = NDArray[np.float16]


class FeatureSource:
    """Log-mel features of clips, (mel bins, frames); the frames after the last are all like the last."""

    def __init__(self, extractor: Any, keep: bool) -> None:
        """`extractor` is a `WhisperFeatureExtractor`; `keep` remembers what was made."""
        self._extractor = extractor
        self._keep = keep
        self._kept: dict[Clip, Features] = {}

    def __call__(self, clip: Clip) -> Features:
        """Raises AudioError: if the clip cannot be read."""
        features = self._kept.get(clip)
        if features is None:
            features = self._make(clip)
            if self._keep:
                self._kept[clip] = features
        return features

    def _make(self, clip: Clip) -> Features:
        example = clip.example
        audio = read_audio(example.audio_path, example.start_seconds, example.end_seconds)
        audio = audio[: int(WINDOW_SECONDS * SAMPLING_RATE)]
        features = log_mel(self._extractor, [audio])[0]
        frames = min(features.shape[1], len(audio) // self._extractor.hop_length + _EDGE_FRAMES)
        kept: Features = features[:, :frames].astype(np.float16)
        return kept


def fits_in_memory(clips: Sequence[Clip], mel_bins: int) -> bool:
    """Whether the features of all clips take less than `CACHE_LIMIT_BYTES`."""
    seconds = sum(clip.example.duration_seconds or WINDOW_SECONDS for clip in clips)
    return seconds * 100 * mel_bins * 2 < CACHE_LIMIT_BYTES


def readable(
    clips: Sequence[Clip], read: Callable[[Clip], object], on_clip: Callable[[], None]
) -> tuple[tuple[Clip, ...], list[RowProblem]]:
    """Tries `read` on every clip (the features, or a look at its file); what fails comes back as problems."""
    kept, problems = [], []
    for clip in clips:
        on_clip()
        try:
            read(clip)
        except AudioError as error:
            problems.append(RowProblem.from_error(clip.example.line, str(clip.example.audio_path), error))
        else:
            kept.append(clip)
    return tuple(kept), problems


class Collator:
    """Clips → `{input_features: (batch, mel bins, 3000), labels: (batch, tokens)}`."""

    def __init__(self, features: FeatureSource, frames: int, on_problem: Callable[[str], None]) -> None:
        """`frames` of a full window: 3000; `on_problem` is told of each clip that is left out, once."""
        self._features = features
        self._frames = frames
        self._on_problem = on_problem
        self._left_out: set[Clip] = set()

    def __call__(self, clips: Sequence[Clip]) -> dict[str, torch.Tensor]:
        """A clip that cannot be read is left out; where it was the only one, its error is raised.

        Raises:
            AudioError: if no clip of the batch can be read.
        """
        read: list[tuple[Clip, Features]] = []
        failure: AudioError | None = None
        for clip in clips:
            try:
                read.append((clip, self._features(clip)))
            except AudioError as error:
                failure = error
                if clip not in self._left_out:
                    self._left_out.add(clip)
                    self._on_problem(f"Line {clip.example.line} is not used: {error}")
        if not read and failure is not None:
            raise failure
        batch = np.empty((len(read), read[0][1].shape[0], self._frames), np.float32)
        for row, (_, features) in zip(batch, read, strict=True):
            row[:, : features.shape[1]] = features
            row[:, features.shape[1] :] = features[:, -1:]
        return {
            "input_features": torch.from_numpy(batch),
            "labels": padded_labels([_labels(clip, place) for place, (clip, _) in enumerate(read)]),
        }


def _labels(clip: Clip, place: int) -> tuple[int, ...]:
    """The clip's labels, with times at every other place of a batch: from times alone a model forgets to
    write without them. The order of the clips decides, so that a resumed run does the same.
    """
    is_timed = clip.timed_labels and (place + clip.example.line) % 2
    return clip.timed_labels if is_timed else clip.labels


def padded_labels(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Token rows side by side, (rows, longest), filled up with -100, which the loss passes over.

    The rows have no start token: the model shifts them and puts it in front.
    """
    labels = torch.full((len(rows), max(map(len, rows))), IGNORED, dtype=torch.long)
    for index, row in enumerate(rows):
        labels[index, : len(row)] = torch.tensor(row)
    return labels


class ClipDataset(torch.utils.data.Dataset[Clip]):
    """Clips by number, for the trainer."""

    def __init__(self, clips: Sequence[Clip]) -> None:
        self.clips = clips

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Clip:
        return self.clips[index]
