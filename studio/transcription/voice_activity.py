"""Does anybody speak? Silero's voice activity detector, as it comes with faster-whisper.

A Whisper asked to write down noise makes words up; windows without a voice are not shown to it.
"""

import numpy as np
from numpy.typing import NDArray

SILENCE_PEAK = 2e-4
"""Nothing louder than this (-74 dB): nobody spoke."""
VOICE_PROBABILITY = 0.2
"""Speech, whispered too, is far above this, and noise, hum and tones are below."""
_LOUDNESS = 0.5
"""What all but the loudest thousandth of the samples are brought below before they are judged: at its own
level a voice of -40 dB is found in three of four clips, so in all of them."""
_FRAME = 512
_FRAME_SECONDS = 0.032
_MARGIN_SECONDS = 0.1
"""The detector finds beginnings late and ends early, by this much at most."""
_SHORTEST_VOICE_FRAMES = 4
"""About 130 ms: shorter than any word, longer than a click."""


def has_voice(samples: NDArray[np.float32]) -> bool:
    """Whether somebody may be speaking in mono samples at 16 kHz, (samples,)."""
    return voice_probability(samples) >= VOICE_PROBABILITY


def voice_probability(samples: NDArray[np.float32]) -> float:
    """The highest probability of a voice over any 130 ms of mono samples at 16 kHz; 0 for silence."""
    if _is_silent(samples):
        return 0.0
    frames = _frame_probabilities(samples)
    width = min(_SHORTEST_VOICE_FRAMES, len(frames))
    return float(np.convolve(frames, np.full(width, 1 / width), mode="valid").max())


def voiced_spans(samples: NDArray[np.float32]) -> list[tuple[float, float]]:
    """Where somebody may be speaking in mono samples at 16 kHz: (start, end) in seconds, in order."""
    if _is_silent(samples):
        return []
    padded = np.pad(_frame_probabilities(samples) >= VOICE_PROBABILITY, 1).astype(np.int8)
    edges = np.flatnonzero(np.diff(padded)) * _FRAME_SECONDS
    spans: list[tuple[float, float]] = []
    for start, end in zip(edges[::2] - _MARGIN_SECONDS, edges[1::2] + _MARGIN_SECONDS, strict=True):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], float(end))
        else:
            spans.append((max(0.0, float(start)), float(end)))
    return spans


def _is_silent(samples: NDArray[np.float32]) -> bool:
    return float(np.abs(samples).max(initial=0.0)) < SILENCE_PEAK


def _frame_probabilities(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """The probability of a voice in each frame of 32 ms."""
    from faster_whisper.vad import get_vad_model

    whole = np.pad(_loud_enough(samples), (0, -len(samples) % _FRAME))
    return np.asarray(get_vad_model()(whole), dtype=np.float64).ravel()


def _loud_enough(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Samples of a quiet recording louder; a click that is cut off by that is no voice."""
    level = max(float(np.quantile(np.abs(samples), 0.999)), SILENCE_PEAK)
    if level >= _LOUDNESS:
        return samples
    louder: NDArray[np.float32] = np.clip(samples * np.float32(_LOUDNESS / level), -1.0, 1.0)
    return louder
