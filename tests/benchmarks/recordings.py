"""Recordings whose borders are known, for `tests.benchmarks.transcription`: joined, spliced, noisy, silent.

Made from `STUDIO_TEST_SPEECH` but for the synthetic ones, with a fixed seed: two runs hear the same sound.
"""

import itertools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.settings import DEMO_SPEECH

Sound = NDArray[np.float32]
FOLDERS = {"en": "speechocean762_en", "zh": "aishell1_zh"}
RECORDING_SECONDS = 240.0
PAUSE_SECONDS = (0.1, 1.0)
WORD_SECONDS = (0.3, 0.7)
WORDS = 200
BLOCK_SECONDS = (15.0, 60.0)
CLIP_SECONDS = (5, 20, 29, 31)
SPEAKERS_OF_BABBLE = 16
NOISE_DECIBELS = (10, 5, 0)
NOISY_RECORDINGS = 4
_EDGE_SHARE, _ABOVE_FLOOR = 0.05, 3.0
"""Of the loudest hundredth of a second, and times the quiet tenth: what is quieter at an edge is silence."""
_HUNDREDTH = SAMPLING_RATE // 100


@dataclass(frozen=True)
class Utterance:
    """A text, and where it is said in a recording."""

    start_seconds: float
    end_seconds: float
    text: str


@dataclass(frozen=True)
class Recording:
    """A sound, what is said in it, and the pool that its errors count for."""

    pool: str
    name: str
    language: str
    """Code; `auto`: more than one, which nobody tells."""
    samples: Sound
    utterances: tuple[Utterance, ...]
    """Empty: nobody speaks."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / SAMPLING_RATE


def clips(language: str, splits: Sequence[str] = ("train", "test")) -> list[tuple[Sound, str]]:
    """The clips of a language with their texts, without silence at the edges, in a seeded order."""
    folder = Path(os.environ["STUDIO_TEST_SPEECH"]) / FOLDERS[language]
    rows = [row for split in splits for row in _rows(folder / f"{split}.jsonl")]
    random.Random(0).shuffle(rows)
    return [(trimmed(read_audio(folder / row["audio"])), row["text"]) for row in rows]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def trimmed(samples: Sound) -> Sound:
    """Without what is quiet at both edges."""
    frames = samples[: len(samples) // _HUNDREDTH * _HUNDREDTH].reshape(-1, _HUNDREDTH)
    loudness = np.sqrt(np.square(frames).mean(axis=1))
    least = max(_EDGE_SHARE * loudness.max(), _ABOVE_FLOOR * np.quantile(loudness, 0.1), 1e-4)
    loud = np.flatnonzero(loudness > min(least, 0.3 * loudness.max()))
    return samples[loud[0] * _HUNDREDTH : (loud[-1] + 1) * _HUNDREDTH]


def joined(
    pool: str,
    language: str,
    pairs: Sequence[tuple[Sound, str]],
    pauses: tuple[float, float] = PAUSE_SECONDS,
    length_seconds: float = RECORDING_SECONDS,
) -> Iterator[Recording]:
    """Clips one after the other, in recordings of about `length_seconds`, pauses drawn from `pauses`."""
    rng = random.Random(1)
    parts: list[Sound] = []
    said: list[Utterance] = []
    at = number = 0
    for place, (samples, text) in enumerate(pairs):
        pause = np.zeros(int(rng.uniform(*pauses) * SAMPLING_RATE), np.float32)
        said.append(Utterance(at / SAMPLING_RATE, (at + len(samples)) / SAMPLING_RATE, text))
        parts += [samples, pause]
        at += len(samples) + len(pause)
        if at >= length_seconds * SAMPLING_RATE or place == len(pairs) - 1:
            yield Recording(pool, f"{pool}-{number}", language, np.concatenate(parts), tuple(said))
            parts, said, at, number = [], [], 0, number + 1


def speech(language: str) -> Iterator[Recording]:
    """All clips with pauses, and those of the test once more without any."""
    yield from joined(f"{language} joined", language, clips(language))
    yield from joined(f"{language} without pauses", language, clips(language, ["test"]), (0.0, 0.0))


def two_languages() -> Iterator[Recording]:
    """Four recordings in which the language changes every quarter of a minute to minute."""
    rng = random.Random(3)
    left = {language: itertools.cycle(clips(language)) for language in FOLDERS}
    for number in range(4):
        parts: list[Sound] = []
        said: list[Utterance] = []
        at = 0
        languages = sorted(FOLDERS)[:: rng.choice((1, -1))]
        for language in itertools.cycle(languages):
            border = at + rng.uniform(*BLOCK_SECONDS) * SAMPLING_RATE
            while at < border:
                samples, text = next(left[language])
                pause = np.zeros(int(rng.uniform(*PAUSE_SECONDS) * SAMPLING_RATE), np.float32)
                said.append(Utterance(at / SAMPLING_RATE, (at + len(samples)) / SAMPLING_RATE, text))
                parts += [samples, pause]
                at += len(samples) + len(pause)
            if at >= RECORDING_SECONDS * SAMPLING_RATE:
                break
        pool = "two languages"
        yield Recording(pool, f"{pool}-{number}", "auto", np.concatenate(parts), tuple(said))


def lengths(language: str) -> Iterator[Recording]:
    """Clips of 5, 20, 29 and 31 s, sixteen of each length, cut from the joined sound between utterances."""
    pairs = clips(language)
    for seconds in CLIP_SECONDS:
        pool = f"{language} clips of {seconds} s"
        taken = 0
        for number in range(16):
            chosen: list[tuple[Sound, str]] = []
            while sum(len(samples) + 0.3 * SAMPLING_RATE for samples, _ in chosen) < seconds * SAMPLING_RATE:
                chosen.append(pairs[taken % len(pairs)])
                taken += 1
            whole = next(joined(pool, language, chosen, (0.3, 0.3), 1e9))
            # The last clip is cut off at the length wanted: its text counts only if all of it is heard.
            end = int(seconds * SAMPLING_RATE)
            kept = tuple(u for u in whole.utterances if u.end_seconds <= seconds)
            if len(kept) < len(whole.utterances):
                end = min(end, int(whole.utterances[len(kept)].start_seconds * SAMPLING_RATE))
            filled = np.zeros(int(seconds * SAMPLING_RATE), np.float32)
            filled[:end] = whole.samples[:end]
            if kept:
                yield Recording(pool, f"{pool}-{number}", language, filled, kept)


def synthetic() -> Iterator[Recording]:
    """The studio's long sample, and its test clips joined: the synthesiser tells where sentences begin."""
    folder = DEMO_SPEECH / "samples"
    row = json.loads((folder / "long.json").read_text(encoding="utf-8"))
    said = tuple(Utterance(one["start"], one["end"], one["text"]) for one in row["segments"])
    yield Recording("synthetic", "synthetic sample", "en", read_audio(folder / row["file"]), said)
    pairs = [
        (read_audio(DEMO_SPEECH / row["audio"]["path"], one["start"], one["end"]), one["text"])
        for row in _rows(DEMO_SPEECH / "test.jsonl")
        for one in row["sentences"]
    ]
    yield from joined("synthetic", "en", pairs)


# ---------------------------------------------------------------------- single words


def words(language: str, cut: Path) -> Iterator[Recording]:
    """Single words, each a recording of its own, and spliced recordings of them; `cut` is of `cut_words`."""
    rows = json.loads(cut.read_text(encoding="utf-8"))
    folder = Path(os.environ["STUDIO_TEST_SPEECH"]) / FOLDERS[language]
    pairs = []
    for number, row in enumerate(rows):
        samples = read_audio(folder / row["audio"], row["start"], row["end"])
        seconds = len(samples) / SAMPLING_RATE
        said = (Utterance(0.0, seconds, row["text"]),)
        yield Recording(f"{language} single words", f"{language} word-{number}", language, samples, said)
        pairs.append((samples, row["text"]))
    yield from joined(f"{language} spliced words", language, pairs, (0.2, 1.0), 60.0)


def candidates(
    language: str, words_of_clip: Sequence[tuple[str, float, float]]
) -> list[tuple[str, float, float]]:
    """Words of one clip, (text, start, end), that are as long as `WORD_SECONDS` says; Mandarin by twos."""
    found = list(words_of_clip)
    if language == "zh":
        pairs = itertools.pairwise(words_of_clip)
        found = [(a[0] + b[0], a[1], b[2]) for a, b in pairs if len(a[0]) == len(b[0]) == 1]
    low, high = WORD_SECONDS
    return [word for word in found if low <= word[2] - word[1] <= high]


def usual_pairs(texts: Sequence[str]) -> set[str]:
    """Two characters that stand together in three texts or more: in Mandarin, mostly a word."""
    counts = Counter(text[i : i + 2] for text in texts for i in range(len(text) - 1))
    return {pair for pair, count in counts.items() if count >= 3 and re.fullmatch("[\u4e00-\u9fff]{2}", pair)}


# ---------------------------------------------------------------------- noise, and nobody


def non_speech() -> Iterator[Recording]:
    """Half a minute each of silence, noises, tones, and babble of sixteen voices in both languages."""
    rng = np.random.default_rng(2)
    count = 30 * SAMPLING_RATE
    white = rng.standard_normal(count).astype(np.float32)
    time = np.arange(count) / SAMPLING_RATE
    hum = sum(np.sin(2 * np.pi * 50 * k * time) / k for k in range(1, 6))
    notes = np.repeat(rng.choice([220.0, 262.0, 330.0, 392.0, 440.0], 60), count // 60)
    tones = np.sin(2 * np.pi * np.cumsum(notes) / SAMPLING_RATE)
    kinds = {
        "silence": np.zeros(count),
        "faint noise": 1e-4 * white,
        "white noise": 0.05 * white,
        "pink noise": 0.05 * _pink(white),
        "hum": 0.05 * hum,
        "tones": 0.1 * tones,
        "babble en": babble("en", count),
        "babble zh": babble("zh", count),
    }
    for name, samples in kinds.items():
        language = "zh" if name.endswith("zh") else "en"
        yield Recording("nobody speaks", name, language, samples.astype(np.float32), ())
        short = samples[: SAMPLING_RATE // 2].astype(np.float32)
        yield Recording("nobody speaks, half a second", f"{name}, short", language, short, ())


def noisy(language: str) -> Iterator[Recording]:
    """Clips joined to two minutes, in white noise and in babble, at three ratios of speech to noise.

    Of one recording an interval is 20 points wide.
    """
    whole = joined("", language, clips(language), length_seconds=120.0)
    for number, clean in enumerate(itertools.islice(whole, NOISY_RECORDINGS)):
        count = len(clean.samples)
        white = np.random.default_rng(30 + number).standard_normal(count).astype(np.float32)
        voices = babble(language, (number + 1) * count)[-count:]
        for kind, noise in {"white noise": white, "babble": voices}.items():
            for decibels in NOISE_DECIBELS:
                ratio = _loudness(clean.samples) / _loudness(noise) / 10 ** (decibels / 20)
                mixed = (clean.samples + ratio * noise).astype(np.float32)
                mixed *= min(1.0, 0.95 / float(np.abs(mixed).max()))
                pool = f"{language} in {kind}, {decibels} dB"
                yield Recording(pool, f"{pool}-{number}", language, mixed, clean.utterances)


def babble(language: str, count: int) -> Sound:
    """Sixteen voices at once, equally loud, from training clips; no word of it can be made out."""
    pairs = clips(language, ["train"])
    total = np.zeros(count, np.float32)
    for voice in range(SPEAKERS_OF_BABBLE):
        parts: list[Sound] = []
        for samples, _ in pairs[voice::SPEAKERS_OF_BABBLE]:
            parts.append(samples / _loudness(samples))
            if sum(map(len, parts)) >= count:
                break
        spoken = np.concatenate(parts)
        total += np.tile(spoken, -(-count // len(spoken)))[:count]
    return (0.05 * total / _loudness(total)).astype(np.float32)


def _pink(white: Sound) -> Sound:
    spectrum = np.fft.rfft(white)
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    pink = np.fft.irfft(spectrum, len(white))
    return (pink / pink.std()).astype(np.float32)


def _loudness(samples: Sound) -> float:
    return float(np.sqrt(np.square(samples).mean()))
