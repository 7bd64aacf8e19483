"""Test material besides single clips: recordings longer than a window, and degraded clips."""

import random
from dataclasses import dataclass

import numpy as np

from .augment import record
from .clips import SHAPES, Clip, draw_sentence, join, lay_out
from .features import log_mel
from .samples import recording
from .voices import Samples, as_samples, draw_voice, espeak

_LONG_SENTENCES = 26


@dataclass(frozen=True)
class LongRecording:
    """About 80 seconds of held-out sentences in one held-out voice."""

    samples: Samples
    text: str
    word_starts: tuple[float, ...]
    """Seconds; as many as the text has words."""


def long_recordings(count: int, seed: int = 7) -> list[LongRecording]:
    """Recordings with pauses of 0.5 to 1.9 s."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        voice = draw_voice(True, rng)
        texts = [draw_sentence(True, rng) for _ in range(_LONG_SENTENCES)]
        samples, segments = recording(texts, voice, (0.5, 1.9), number)
        starts = [s.start + word for s, text in zip(segments, texts, strict=True)
                  for word in espeak().say(text, voice).word_starts]  # fmt: skip
        found.append(LongRecording(samples, join(texts).strip(), tuple(starts)))
    return found


def degraded(number: int) -> Clip:
    """A held-out sentence in a held-out voice with the faults of training: room, band, noise, gain."""
    rng = random.Random(f"degraded-{number}")
    samples, segments = lay_out(SHAPES["single"], True, rng)
    return Clip(log_mel(record(samples, np.random.default_rng(number))), tuple(segments))


def noisy(number: int, decibels: float) -> Clip:
    """A held-out sentence in a held-out voice under white noise, so many decibels below the speech."""
    rng, noise = random.Random(f"noisy-{number}"), np.random.default_rng(number)
    samples, segments = lay_out(SHAPES["single"], True, rng)
    power = float(np.sqrt(np.mean(samples[np.abs(samples) > 0.01] ** 2)))
    hiss = noise.standard_normal(len(samples)) * power * 10 ** (-decibels / 20)
    return Clip(log_mel(as_samples(samples + hiss)), tuple(segments))
