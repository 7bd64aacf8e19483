"""The worst batch there may be: full windows, and texts that are all as long as the longest."""

from pathlib import Path
from typing import Any

import numpy as np

from studio.dataset.example import Example
from studio.training.data.clips import Clip
from studio.training.data.collator import Features, FeatureSource
from studio.transcription.windows import WINDOW_SECONDS

_TOKEN = 2


class Silence(FeatureSource):
    """Features of clips that nobody recorded."""

    def __init__(self, extractor: Any, mel_bins: int, frames: int) -> None:
        super().__init__(extractor, keep=False)
        self._silent = np.zeros((mel_bins, frames), np.float16)

    def __call__(self, clip: Clip) -> Features:
        """(mel bins, frames), all zero, whatever the clip."""
        return self._silent


def worst_clips(label_length: int, count: int) -> tuple[Clip, ...]:
    """So many clips of a full window, with so many tokens each."""
    return tuple(
        Clip(
            Example(
                audio_path=Path("silence"),
                text="",
                language="en",
                task="transcribe",
                start_seconds=None,
                end_seconds=None,
                duration_seconds=WINDOW_SECONDS,
                segments=(),
                line=line + 1,
            ),
            language="en",
            task="transcribe",
            labels=(_TOKEN,) * label_length,
        )
        for line in range(count)
    )
