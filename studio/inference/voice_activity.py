"""Does anybody speak? Silero's voice activity detector, as it comes with faster-whisper.

A Whisper asked to write down noise makes words up; windows without a voice are not shown to it.
"""

import numpy as np
from numpy.typing import NDArray

SILENCE_PEAK = 2e-4
"""Nothing louder than this (-74 dB): nobody spoke."""
VOICE_PROBABILITY = 0.2
"""Speech, whispered too, is far above this, and noise, hum and tones are below."""
_FRAME = 512
_SHORTEST_VOICE_FRAMES = 4
"""About 130 ms: shorter than any word, longer than a click."""


def has_voice(samples: NDArray[np.float32]) -> bool:
    """Whether somebody may be speaking in mono samples at 16 kHz, (samples,)."""
    return voice_probability(samples) >= VOICE_PROBABILITY


def voice_probability(samples: NDArray[np.float32]) -> float:
    """The highest probability of a voice over any 130 ms of mono samples at 16 kHz; 0 for silence."""
    if not len(samples) or float(np.abs(samples).max()) < SILENCE_PEAK:
        return 0.0
    from faster_whisper.vad import get_vad_model

    whole = np.pad(samples, (0, -len(samples) % _FRAME))
    frames = np.asarray(get_vad_model()(whole), dtype=np.float64).ravel()
    width = min(_SHORTEST_VOICE_FRAMES, len(frames))
    return float(np.convolve(frames, np.full(width, 1 / width), mode="valid").max())
