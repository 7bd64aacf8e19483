"""Whisper's log-mel features without the padding to 30 seconds, and the value that padding would have."""

import functools

import numpy as np
import numpy.typing as npt
import torch
from transformers import WhisperFeatureExtractor

from .voices import Samples

FRAMES = 3000
"""Feature frames of a 30-second window (10 ms each)."""
Features = npt.NDArray[np.float16]


def feature_extractor() -> WhisperFeatureExtractor:
    """Whisper's own, for 80 mel bands and 30 seconds."""
    return WhisperFeatureExtractor(feature_size=80)  # type: ignore[no-untyped-call]


@functools.cache
def _tables() -> tuple[torch.Tensor, torch.Tensor]:
    """Mel filters (80, 201) and the analysis window."""
    filters = np.asarray(feature_extractor().mel_filters, np.float32).T
    return torch.from_numpy(np.ascontiguousarray(filters)), torch.hann_window(400)


def log_mel(samples: Samples) -> Features:
    """Features (80, frames) of float32 mono 16 kHz samples; a frame is 160 samples.

    The arithmetic is that of `WhisperFeatureExtractor`: base-10 logarithm, at most 8 below the maximum,
    (x + 4) / 4. Zeros follow the clip, as they do when it is padded to 30 seconds.
    """
    filters, window = _tables()
    padded = torch.nn.functional.pad(torch.from_numpy(samples), (0, 560))
    spectrum = torch.stft(padded, 400, 160, window=window, return_complex=True)
    mel = filters @ spectrum[:, : len(samples) // 160 + 2].abs() ** 2
    logarithm = torch.clamp(mel, min=1e-10).log10()
    logarithm = torch.maximum(logarithm, logarithm.max() - 8.0)
    result: Features = ((logarithm + 4.0) / 4.0).numpy().astype(np.float16)
    return result


def padding_value(features: Features) -> float:
    """What zero samples appended to the clip become: the logarithm's floor, or 8 below the maximum."""
    return max(-1.5, float(features.max()) - 2.0)
