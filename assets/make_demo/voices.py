"""Speech from espeak-ng, in this process through its C library, with the time of each word."""

import ctypes
import functools
import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr

Samples = npt.NDArray[np.float32]
SAMPLE_RATE = 16_000

ACCENTS = ("en-us", "en", "en-gb-x-rp")
TRAIN_VARIANTS = (
    "", "m1", "m2", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f4", "f5",
    "Alex", "Annie", "Andrea", "Gene", "Michael", "david", "linda", "paul",
)  # fmt: skip
TEST_VARIANTS = ("m3", "f3", "Andy", "belinda")
"""Never trained on."""

_SYNCHRONOUS, _CHARS_UTF8, _EVENT_LIST_END, _EVENT_WORD = 2, 1, 0, 1
_RATE, _PITCH, _RANGE = 1, 3, 4


class _Event(ctypes.Structure):
    """`espeak_EVENT` of speak_lib.h."""

    _fields_ = (
        ("type", ctypes.c_int), ("unique_identifier", ctypes.c_uint), ("text_position", ctypes.c_int),
        ("length", ctypes.c_int), ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p), ("id", ctypes.c_char * 8),
    )  # fmt: skip


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Voice:
    """How a sentence is spoken."""

    name: str
    """espeak-ng's voice and variant: `en-us+f2`."""
    words_per_minute: int = 165
    pitch: int = 50
    pitch_range: int = 50
    shift: float = 1.0
    """Playback speed: above 1 is faster and higher."""


@dataclass(frozen=True)
class Utterance:
    """A spoken sentence without silence around it."""

    text: str
    samples: Samples
    """float32 mono, 16 kHz."""
    word_starts: tuple[float, ...]
    """Seconds from the beginning, one for each word that espeak-ng reported."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE


def draw_voice(test: bool, rng: random.Random) -> Voice:
    """A voice with a random accent, variant, speed and pitch; for a test, a held-out variant."""
    base = rng.choice(ACCENTS)
    variant = rng.choice(TEST_VARIANTS if test else TRAIN_VARIANTS)
    return Voice(
        f"{base}+{variant}" if variant else base,
        words_per_minute=rng.randint(125, 210),
        pitch=rng.randint(25, 75),
        pitch_range=rng.randint(25, 75),
        shift=rng.uniform(0.93, 1.07),
    )


def as_samples(values: npt.ArrayLike) -> Samples:
    """Any numbers as float32 samples."""
    return np.asarray(values, np.float32)


class Espeak:
    """libespeak-ng in this process. One a process: the library keeps its state in globals."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        self._library.espeak_Synth.argtypes = (
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
            ctypes.c_void_p, ctypes.c_void_p,
        )  # fmt: skip
        self.rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, None, 0)
        if self.rate <= 0:
            raise RuntimeError(f"espeak-ng did not start (code {self.rate}); is it installed?")
        self._chunks: list[npt.NDArray[np.int16]] = []
        self._words: list[int] = []
        self._callback = _CALLBACK(self._receive)  # kept: the library holds only its address
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: object, count: int, events: object) -> int:
        if count > 0 and samples:
            self._chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type != _EVENT_LIST_END:  # type: ignore[index]
            if events[index].type == _EVENT_WORD:  # type: ignore[index]
                self._words.append(events[index].sample)  # type: ignore[index]
            index += 1
        return 0

    def say(self, text: str, voice: Voice) -> Utterance:
        """Speak a sentence; RuntimeError names the voice that espeak-ng does not know."""
        if self._library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise RuntimeError(f"espeak-ng has no voice {voice.name!r}.")
        for parameter, value in (
            (_RATE, voice.words_per_minute),
            (_PITCH, voice.pitch),
            (_RANGE, voice.pitch_range),
        ):
            self._library.espeak_SetParameter(parameter, value, 0)
        self._chunks, self._words = [], []
        data = text.encode() + b"\0"
        self._library.espeak_Synth(data, len(data), 0, 1, 0, _CHARS_UTF8, None, None)
        raw = np.concatenate(self._chunks).astype(np.float32) / 32768
        samples = soxr.resample(raw, self.rate * voice.shift, SAMPLE_RATE).astype(np.float32)
        first, last = _speech_bounds(samples)
        offset = first / SAMPLE_RATE
        speech = _level(samples[first:last])
        starts = tuple(max(0.0, word / (self.rate * voice.shift) - offset) for word in self._words)
        end = len(speech) / SAMPLE_RATE - 0.03  # espeak-ng sometimes reports one more word at the very end
        return Utterance(text, speech, tuple(start for start in starts if start < end))


@functools.cache
def espeak() -> Espeak:
    """The one Espeak of this process."""
    return Espeak()


def _speech_bounds(samples: Samples, threshold: float = 0.01) -> tuple[int, int]:
    """First and last sample louder than a share of the peak, with 10 ms to spare."""
    loud = np.flatnonzero(np.abs(samples) > threshold * max(float(np.abs(samples).max()), 1e-6))
    margin = SAMPLE_RATE // 100
    return max(0, int(loud[0]) - margin), min(len(samples), int(loud[-1]) + margin)


def _level(samples: Samples, peak: float = 0.5) -> Samples:
    """Scale to a peak."""
    return (samples * (peak / max(float(np.abs(samples).max()), 1e-6))).astype(np.float32)
