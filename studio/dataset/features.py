"""Sound to log-mel features, a batch at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOG_FLOOR = -1.5
"""What the extractor makes of nothing at all: (log10(1e-10) + 4) / 4."""
_DYNAMIC_RANGE = 2.0
"""It lifts whatever is below the loudest minus this: 8 / 4."""


def log_mel(extractor: Any, audio: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Features of clips of mono 16 kHz samples: (batch, mel bins, frames of 30 s), as from the extractor.

    `extractor` is a `WhisperFeatureExtractor`. It pads each clip to 30 s and transforms the padding as well;
    here only the part that the longest clip fills is transformed, and the constant that follows is filled in.
    Longer clips are cut at 30 s.
    """
    hop, window = extractor.hop_length, extractor.n_fft
    longest = max(len(clip) for clip in audio)
    # A window's length of silence behind the clip keeps the transform's mirrored edge out of it.
    samples = min(extractor.n_samples, -(-(longest + window) // hop) * hop)
    if extractor.dither:
        samples = extractor.n_samples
    batch = extractor(
        list(audio),
        sampling_rate=extractor.sampling_rate,
        padding="max_length",
        max_length=samples,
        return_tensors="np",
    )["input_features"]
    features = np.asarray(batch, dtype=np.float32)
    frames: int = extractor.nb_max_frames
    if features.shape[2] == frames:
        return features
    silence = np.maximum(features.max(axis=(1, 2), keepdims=True) - _DYNAMIC_RANGE, _LOG_FLOOR)
    padded = np.empty((*features.shape[:2], frames), dtype=np.float32)
    padded[:, :, features.shape[2] :] = silence
    padded[:, :, : features.shape[2]] = features
    return padded
