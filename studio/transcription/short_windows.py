"""Short windows for faster-whisper: the encoder sees the sound and little more, not 30 seconds."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.whisper.audio_context import FRAMES_PER_POSITION, positions_for

_SILENCE_BELOW_LOUDEST = 2.0
"""Whisper's features are cut off 8 below the loudest, in decades, and divided by 4."""


def sound_frames(features: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many frames of each window are sound: (…, bins, frames) → (…), without faster-whisper's filling."""
    is_sound = np.any(features != 0, axis=-2)
    return np.where(is_sound.any(-1), is_sound.shape[-1] - is_sound[..., ::-1].argmax(-1), 0)


def cut_to_sound(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-mel features (…, bins, frames) without the zeros that faster-whisper fills windows up with.

    As many frames are left as transformers is given for the longest of them; those behind a sound are
    silence, as the extractor writes it.
    """
    positions = positions_for(int(sound_frames(features).max()))
    missing = max(0, FRAMES_PER_POSITION * positions - features.shape[-1])
    around = [(0, 0)] * (features.ndim - 1)
    window = np.pad(features, [*around, (0, missing)])[..., : FRAMES_PER_POSITION * positions]
    is_filler = np.all(window == 0, axis=-2, keepdims=True)
    silence = window.max(axis=(-2, -1), keepdims=True) - np.float32(_SILENCE_BELOW_LOUDEST)
    return np.ascontiguousarray(np.where(is_filler, silence, window), dtype=np.float32)


def with_short_windows(model: Any) -> Any:
    """The same `faster_whisper.WhisperModel`, weights shared, which encodes no more than the sound."""
    short = copy(model)
    short.encode = lambda features: model.encode(cut_to_sound(features))
    return short
