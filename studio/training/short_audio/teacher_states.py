"""The states of a teacher that a student is to come near: kept on disk, side by side in a batch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from studio.training.data.clips import Clip

States = NDArray[np.float16]


class TeacherStates:
    """The teacher's last hidden states of each clip, (tokens, d_model), in one file."""

    def __init__(self, path: Path, width: int, places: dict[Clip, int]) -> None:
        """`places` has the first row of each clip in the file, `width` is d_model."""
        self._path = path
        self._width = width
        self._places = places

    def __contains__(self, clip: Clip) -> bool:
        return clip in self._places

    def __call__(self, clip: Clip) -> States:
        """Those of one clip: a state for each of its labels."""
        shape = (len(clip.labels), self._width)
        offset = 2 * self._width * self._places[clip]
        return np.array(np.memmap(self._path, np.float16, "r", offset, shape))


def padded_states(rows: Sequence[States]) -> torch.Tensor:
    """States side by side, (clips, longest, d_model), filled up with zeros, which the loss passes over."""
    states = torch.zeros(len(rows), max(map(len, rows)), rows[0].shape[1])
    for place, row in zip(states, rows, strict=True):
        place[: len(row)] = torch.from_numpy(row)
    return states
