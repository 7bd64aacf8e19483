"""A recording as a picture: how loud it is from left to right."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE

_PER_SECOND = 100
"""Peaks kept while the recording is read: its length is known only at the end."""
_STEP = SAMPLING_RATE // _PER_SECOND


def waveform_peaks(blocks: Iterable[NDArray[np.float32]], count: int) -> NDArray[np.float32]:
    """The greatest magnitude in each of `count` equal parts of a recording, 0 to 1; (count,).

    `blocks` are mono samples at 16 kHz; only one of them is in memory at a time. A recording of fewer than
    `count` hundredths of a second gives one value a hundredth; an empty one gives none.
    """
    rest = np.zeros(0, np.float32)
    fine: list[NDArray[np.float32]] = []
    for block in blocks:
        samples = np.abs(np.concatenate([rest, block]))
        whole = len(samples) // _STEP * _STEP
        fine.append(samples[:whole].reshape(-1, _STEP).max(axis=1))
        rest = samples[whole:]
    if len(rest):
        fine.append(rest.max(keepdims=True))
    peaks = np.concatenate(fine) if fine else rest
    if len(peaks) <= count:
        return np.minimum(peaks, 1.0)
    starts = np.linspace(0, len(peaks), count, endpoint=False).astype(np.int64)
    return np.minimum(np.maximum.reduceat(peaks, starts), 1.0)
