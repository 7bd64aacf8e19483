"""Test material besides single clips: recordings longer than a window, and degraded clips."""

import random
from dataclasses import dataclass

import numpy as np

from .augment import record
from .clips import SHAPES, Clip, Segment, draw_sentence, join, lay_out
from .features import log_mel
from .samples import recording
from .voices import TEST_VARIANTS, Samples, draw_voice, espeak

_LONG_SENTENCES = 26


@dataclass(frozen=True)
class LongRecording:
    """About 80 seconds of held-out sentences in one held-out voice."""

    samples: Samples
    text: str
    language: str
    word_starts: tuple[float, ...]
    """Seconds; as many as the text has words, in English."""


def long_recordings(count: int = 8, seed: int = 7) -> list[LongRecording]:
    """Recordings with pauses of 0.5 to 1.9 s; every fourth is Mandarin."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        which = "zh" if number % 4 == 3 else "en"
        voice = draw_voice(which, TEST_VARIANTS, rng)
        texts = [draw_sentence(which, True, rng) for _ in range(_LONG_SENTENCES)]
        samples, segments = recording(texts, voice, (0.5, 1.9), number)
        starts = [s.start + word for s, text in zip(segments, texts, strict=True)
                  for word in espeak().say(text, voice).word_starts]  # fmt: skip
        found.append(LongRecording(samples, join(texts, which).strip(), which, tuple(starts)))
    return found


def degraded(number: int, which: str) -> Clip:
    """A held-out sentence in a held-out voice with the faults of training: room, band, noise, gain."""
    rng = random.Random(f"degraded-{which}-{number}")
    samples, segments = lay_out(SHAPES["single"], which, True, rng)
    samples = record(samples, np.random.default_rng(number))
    kept: tuple[Segment, ...] = tuple(segments)
    return Clip(log_mel(samples), kept, which)
