"""Training clips: sentences laid on a time line, recorded, turned into features; when each is said."""

import random
from dataclasses import dataclass

import numpy as np

from . import language
from .augment import no_speech, record
from .features import FRAMES, Features, log_mel
from .voices import SAMPLE_RATE, Samples, Utterance, Voice, draw_voice, espeak

WINDOW_SECONDS = 30.0
_LOOSE_SHARE = 0.2
"""Of the sentences to train on, this share is words in no order."""


@dataclass(frozen=True)
class Segment:
    """A sentence and its place in the clip."""

    start: float
    """Seconds."""
    end: float
    """Seconds; beyond 30 if the window cuts the sentence."""
    text: str
    word_starts: tuple[float, ...] = ()
    """Seconds in the clip, as espeak-ng reported them."""


@dataclass(frozen=True)
class Clip:
    """Features and what is said in them."""

    features: Features
    """(80, frames), not padded."""
    segments: tuple[Segment, ...]
    previous: str = ""
    """Text said before the clip, for `<|startofprev|>`."""


@dataclass(frozen=True)
class Shape:
    """How the sentences of a kind of clip are laid out."""

    sentences: tuple[int, int]
    """Least and most."""
    pauses: tuple[tuple[float, float], ...]
    """Ranges of seconds between sentences; a clip keeps to one of them."""
    limit_seconds: float
    """No sentence starts after this."""
    lead: float = 0.35
    """Share of clips that start with silence of up to three seconds, otherwise up to 0.2 s."""


SHAPES: dict[str, Shape] = {
    "single": Shape((1, 1), ((0.2, 0.5),), WINDOW_SECONDS),
    "joined": Shape((2, 5), ((0.1, 0.4), (0.25, 0.9), (0.5, 2.5)), 13.0),
    "long": Shape(
        (40, 40), ((0.1, 0.4), (0.25, 0.9), (0.25, 0.9), (0.5, 2.5), (2.0, 8.0)), WINDOW_SECONDS, 0.15
    ),
}


def draw_sentence(held_out: bool, rng: random.Random) -> str:
    """A sentence that is, or is not, kept for testing."""
    while True:
        is_loose = not held_out and rng.random() < _LOOSE_SHARE
        text = language.loose_words(rng) if is_loose else language.sentence(rng)
        if language.is_held_out(text) == held_out:
            return text


def speak(voice: Voice | None, test: bool, rng: random.Random) -> Utterance:
    """A random sentence; for a test both the sentence and the voice are held out."""
    voice = voice or draw_voice(test, rng)
    return espeak().say(draw_sentence(test, rng), voice)


def lay_out(shape: Shape, test: bool, rng: random.Random) -> tuple[Samples, list[Segment]]:
    """Sentences on a time line: float32 16 kHz samples with silence between them, and where each one is."""
    one_voice = draw_voice(test, rng) if rng.random() < 0.75 else None
    pauses = rng.choice(shape.pauses)
    clock = rng.uniform(0.0, 3.0) if rng.random() < shape.lead else rng.uniform(0.0, 0.2)
    pieces, segments = [np.zeros(int(clock * SAMPLE_RATE), np.float32)], []
    for index in range(rng.randint(*shape.sentences)):
        if index:
            gap = np.zeros(int(rng.uniform(*pauses) * SAMPLE_RATE), np.float32)
            pieces.append(gap)
        clock = sum(map(len, pieces)) / SAMPLE_RATE
        if clock >= shape.limit_seconds:
            break
        spoken = speak(one_voice, test, rng)
        gain = 1.0 if one_voice else rng.uniform(0.4, 1.0)
        pieces.append(spoken.samples * np.float32(gain))
        words = tuple(clock + start for start in spoken.word_starts)
        segments.append(Segment(clock, clock + spoken.seconds, spoken.text, words))
    tail = rng.uniform(0.0, 3.0) if rng.random() < 0.35 else rng.uniform(0.0, 0.4)
    pieces.append(np.zeros(int(tail * SAMPLE_RATE), np.float32))
    return np.concatenate(pieces), segments


def speech_clip(kind: str, test: bool, rng: random.Random) -> Clip:
    """A clip of a kind of `SHAPES`, recorded with random faults unless it is a test."""
    samples, segments = lay_out(SHAPES[kind], test, rng)
    if kind == "long" and not test and rng.random() < 0.3:
        samples, segments = _after_a_cut(samples, segments, rng)
    cut = int(WINDOW_SECONDS * SAMPLE_RATE)
    if kind == "long" and rng.random() < 0.25:
        cut = int(rng.uniform(10.0, 30.0) * SAMPLE_RATE)  # the last window of a recording
        segments = [segment for segment in segments if segment.end * SAMPLE_RATE < cut]
        samples = samples.copy()
        samples[int((segments[-1].end if segments else 0.0) * SAMPLE_RATE) :] = 0
    samples = samples[:cut]
    if not test:
        samples = record(samples, np.random.default_rng(rng.getrandbits(32)))
    kept = tuple(segment for segment in segments if segment.start < WINDOW_SECONDS)
    previous = ""
    if kind != "single" or rng.random() < 0.15:
        spoken_before = [draw_sentence(False, rng) for _ in range(rng.randint(1, 12))]
        previous = join(spoken_before) if rng.random() < 0.3 else ""
    return Clip(log_mel(samples)[:, :FRAMES], kept, previous)


def _after_a_cut(
    samples: Samples, segments: list[Segment], rng: random.Random
) -> tuple[Samples, list[Segment]]:
    """Begin with the last 20–90 ms of the first sentence, as a window does after a slightly early end."""
    start = max(0.0, segments[0].end - rng.uniform(0.02, 0.09))
    moved = [
        Segment(s.start - start, s.end - start, s.text, tuple(word - start for word in s.word_starts))
        for s in segments[1:]
    ]
    return samples[int(start * SAMPLE_RATE) :], moved


def silent_clip(rng: random.Random) -> Clip:
    """A clip without speech, mostly of 1 to 8 seconds, sometimes up to 30."""
    seconds = rng.uniform(8.0, 30.0) if rng.random() < 0.2 else rng.uniform(1.0, 8.0)
    samples = no_speech(int(seconds * SAMPLE_RATE), np.random.default_rng(rng.getrandbits(32)))
    return Clip(log_mel(samples)[:, :FRAMES], ())


def join(sentences: list[str]) -> str:
    """Sentences as Whisper writes them: with a leading space each."""
    return "".join(f" {text}" for text in sentences)
