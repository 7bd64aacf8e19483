"""Does anybody speak? Silero's voice activity detector, as it comes with faster-whisper.

A Whisper asked to write down noise makes words up; windows without a voice are not shown to it. The detector
is right at one loudness only, so what it is shown is set to that: by the voice, not by a hum below it or by
somebody louder at another place.
"""

import hashlib
import threading
from functools import cache

import numpy as np
from numpy.typing import NDArray

SILENCE_PEAK = 1e-4
"""Nothing louder than this (-80 dB, three steps of 16 bits): nobody spoke."""
VOICE_PROBABILITY = 0.2
"""Speech, whispered too, is far above this; noise and hum are below, a melody of pure tones may not be."""
_JUDGED_LEVEL = 0.015
"""The loudness at which the detector judges: louder, it takes a third of white noises for voices; 40 dB lower
it misses every fourth voice. Here it finds them all, in noise of -5 dB, too, and takes no noise for one. Of
400 single words of half a second it misses 8, at half the level 24."""
_QUIET_LEVEL, _HEARD_LEVEL = 0.02, 0.5
"""Below the first, a model hears better what is raised to the second: of Mandarin at -40 dB 25 % of the
characters are wrong, then 20 %; at -50 dB 60 %, then 38 %. Above it, Whisper takes a sound as it is."""
_FRAME = 512
_FRAME_SECONDS = 0.032
_MARGIN_SECONDS = 0.1
"""The detector finds beginnings late and ends early, by this much at most."""
_SHORTEST_VOICE_FRAMES = 4
"""About 130 ms: shorter than any word, longer than a click."""
_LOWEST_HERTZ, _HUM_SHARE = 150, 0.1
"""What lies below is hum or an offset if it never stops and has so much of the level of what lies above: at
0.3 it hides a voice as loud from the detector. Voices are clear without it, single words less so."""
_QUIET_FRAMES, _EDGE_FRAMES, _QUIETER = 94, 15, 4
"""Three seconds in which nobody was found, without half a second at their edges, are judged once more if they
are so many times lower: somebody further away speaks 30 dB below others, and 40 of 50 dB were lost."""
_MOST_KNOWN = 32
_known: dict[bytes, NDArray[np.float64]] = {}
"""Voices of the last sounds: a piece is asked for its languages, then cut, and its windows are timed."""
_knowing = threading.Lock()


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


def loud_enough(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a model is to hear of mono samples, (samples,): voices louder where the microphone was set low."""
    level = _level(samples)
    if level >= _QUIET_LEVEL or not has_voice(samples):
        return samples
    raised: NDArray[np.float32] = np.clip(samples * np.float32(_HEARD_LEVEL / level), -1.0, 1.0)
    return raised


def _is_silent(samples: NDArray[np.float32]) -> bool:
    return float(np.abs(samples).max(initial=0.0)) < SILENCE_PEAK


def _frame_probabilities(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """The probability of a voice in each frame of 32 ms; what was asked lately is known."""
    key = hashlib.blake2b(samples.tobytes(), digest_size=16).digest()
    if (frames := _known.get(key)) is None:
        frames = _looked_at(samples)
        with _knowing:
            _known[key] = frames
            if len(_known) > _MOST_KNOWN:
                del _known[next(iter(_known))]
    return frames


def _looked_at(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    level = _level(samples)
    frames = _judged(samples, level)
    above = _without_hum(samples)
    if above is not None:
        samples, level = above, _level(above)
        frames = np.maximum(frames, _judged(above, level))
    edges = np.flatnonzero(np.diff(np.pad(frames < VOICE_PROBABILITY, 1).astype(np.int8)))
    for start, end in zip(edges[::2] + _EDGE_FRAMES, edges[1::2] - _EDGE_FRAMES, strict=True):
        part = samples[start * _FRAME : end * _FRAME]
        if end - start >= _QUIET_FRAMES and SILENCE_PEAK < (lower := _level(part)) < level / _QUIETER:
            frames[start:end] = _judged(part, lower)[: end - start]
    return frames


def _judged(samples: NDArray[np.float32], level: float) -> NDArray[np.float64]:
    """The same for sounds of one loudness, which is given."""
    from faster_whisper.vad import get_vad_model

    judged = samples * np.float32(_JUDGED_LEVEL / level)
    whole = np.pad(judged, (0, -len(samples) % _FRAME))
    return np.asarray(get_vad_model()(whole), dtype=np.float64).ravel()


def _without_hum(samples: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """What lies above a hum or an offset; None if there is none."""
    from scipy.signal import sosfilt

    above = sosfilt(_high_pass(), samples - samples[:1])
    below = (samples - above)[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME)
    lowest = np.quantile(np.sqrt(np.square(below).mean(axis=1)), 0.1) if len(below) else 0.0
    if lowest < _HUM_SHARE * _level(above):
        return None
    return np.asarray(above, dtype=np.float32)


@cache
def _high_pass() -> NDArray[np.float32]:
    from scipy.signal import butter

    return np.asarray(butter(4, _LOWEST_HERTZ, "highpass", fs=16_000, output="sos"), dtype=np.float32)


def _level(samples: NDArray[np.float32]) -> float:
    """What all but the loudest thousandth stay below: a click is no voice."""
    return max(float(np.quantile(np.abs(samples), 0.999)), SILENCE_PEAK) if len(samples) else 0.0
