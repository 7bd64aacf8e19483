"""Audio below 30 seconds: the encoder works on as many positions as a batch needs, not on all 1,500.

Whisper was trained on windows of 30 s, filled up with silence, and transformers insists on them; the
arithmetic does not: convolutions, positions (the first of them) and attention take any length. What a model
makes of a short window is another matter: a released Whisper reads it badly, one tuned on short windows well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from types import MethodType
from typing import Any

POSITIONS = 1500
"""Of a full window: 50 a second."""
SECONDS_PER_POSITION = 0.02
FRAMES_PER_POSITION = 2
"""Frames of 10 ms that the second convolution takes together."""
FULL, SHORT = "full", "short"
"""Whether a model's encoder sees 30 seconds or the audio's own length; a model's card says which."""
_MARGIN_FRAMES = 20
_STEP_POSITIONS = 32
"""Lengths are rounded up to 0.64 s, so that kernels meet few of them."""


def positions_for(frames: int) -> int:
    """Positions that the encoder is given for so many frames of sound: a little more than they fill."""
    needed = -(-(frames + _MARGIN_FRAMES) // FRAMES_PER_POSITION)
    return min(POSITIONS, -(-needed // _STEP_POSITIONS) * _STEP_POSITIONS)


def positions_of(seconds: float) -> int:
    """The same for a length of sound."""
    return positions_for(round(100 * seconds))


@contextmanager
def audio_context(encoder: Any, positions: int) -> Iterator[None]:
    """Within it, a transformers `WhisperEncoder` takes features of `2 × positions` frames.

    Its configuration and weights are the same afterwards. Not for two threads at once.
    """
    config, count = encoder.config, encoder.embed_positions.num_embeddings
    shorter = copy(config)
    shorter.max_source_positions = positions
    encoder.config, encoder.embed_positions.num_embeddings = shorter, positions
    try:
        yield
    finally:
        encoder.config, encoder.embed_positions.num_embeddings = config, count


def allow_short_audio(model: Any) -> None:
    """Lets the encoder of a `WhisperForConditionalGeneration` take features of any length up to 30 s.

    What is saved of the model does not change.
    """
    encoder = model.get_encoder()
    plain = type(encoder).forward

    def forward(self: Any, input_features: Any, *inputs: Any, **options: Any) -> Any:
        """The encoder's own, told how many frames there are."""
        with audio_context(self, input_features.shape[-1] // FRAMES_PER_POSITION):
            return plain(self, input_features, *inputs, **options)

    encoder.forward = MethodType(forward, encoder)
