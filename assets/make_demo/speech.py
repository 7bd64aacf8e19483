"""Demo speech: a small domain that the demo model does not know, and sample recordings that it does.

The domain is the command deck of a space station: fifteen new words, robot voices, an intercom. It is so
small that an adapter learns it within two minutes on two CPU cores.
"""

import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from scipy import signal

from .voices import SAMPLE_RATE, Samples, Voice, as_samples, espeak

SLOTS: dict[str, str] = {
    "system": "reactor airlock shuttle scanner beacon",
    "verb": "engage reboot",
    "place": "mars saturn",
    "crew": "captain pilot",
    "state": "offline stable",
}
TEMPLATES = (
    "{verb} the {system}",
    "{crew} the {system} is {state}",
    "{verb} the {system} near {place}",
    "{crew} {verb} the {system}",
    "set course for {place}",
)
ROBOT_VOICES = ("en-us+klatt4", "en-us+robosoft3", "en+klatt6")
SPLITS: dict[str, tuple[int, float]] = {
    "train": (112, 7 / 12),
    "validation": (24, 1 / 6),
    "test": (40, 1 / 4),
}
"""Clips, and the share of all sentences."""
_COMPRESSION = 0.92
_WORDS = {name: text.split() for name, text in SLOTS.items()}


def intercom(samples: Samples, rng: np.random.Generator) -> Samples:
    """A narrow band, a little ring modulation and hiss."""
    sections = signal.butter(2, (300, 3400), "bandpass", fs=SAMPLE_RATE, output="sos")
    narrow = signal.sosfilt(sections, samples)
    times = np.arange(len(samples)) / SAMPLE_RATE
    ringing = narrow * (1 + 0.3 * np.sin(2 * np.pi * 70 * times))
    hiss = 0.002 * rng.standard_normal(len(samples))
    return as_samples(0.5 * (ringing + hiss) / np.abs(ringing).max())


@dataclass(frozen=True)
class Row:
    """A line of a manifest and its sound."""

    sentence: str
    samples: Samples
    start: float
    """Seconds at which the sentence begins …"""
    end: float
    """… and ends."""


def every_sentence() -> list[str]:
    """All sentences of the space station, sorted."""
    found: list[str] = []
    for template in TEMPLATES:
        parts = [_WORDS[part[1:-1]] if part.startswith("{") else [part] for part in template.split()]
        found += [" ".join(words) for words in itertools.product(*parts)]
    return sorted(found)


def domain_rows(seed: int = 0) -> dict[str, list[Row]]:
    """The splits of the domain; no sentence is in two of them, and in one it may be spoken twice or more."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    sentences = every_sentence()
    rng.shuffle(sentences)
    rows: dict[str, list[Row]] = {}
    for split, (count, share) in SPLITS.items():
        several = round(share * len(every_sentence()))
        chosen, sentences = sentences[:several], sentences[several:]
        rows[split] = [_robot(text, rng, noise) for text in itertools.islice(itertools.cycle(chosen), count)]
    return rows


def _robot(text: str, rng: random.Random, noise: np.random.Generator) -> Row:
    """A sentence over the intercom; half of the clips are silent for a while before and after it."""
    voice = Voice(rng.choice(ROBOT_VOICES), rng.randint(150, 185), rng.randint(35, 60), 30)
    spoken = espeak().say(text, voice).samples
    lead, tail = _silence(0.05, 0.3, rng), _silence(0.05, 0.3, rng)
    heard = intercom(np.concatenate((lead, spoken, tail)), noise)
    start = len(lead)
    if rng.random() < 0.5:
        before, after = _silence(0.2, 1.8, rng), _silence(0.2, 1.8, rng)
        heard = np.concatenate((before, heard, after))
        start += len(before)
    return Row(text, heard, start / SAMPLE_RATE, (start + len(spoken)) / SAMPLE_RATE)


def _silence(shortest: float, longest: float, rng: random.Random) -> Samples:
    return np.zeros(int(rng.uniform(shortest, longest) * SAMPLE_RATE), np.float32)


def write_opus(path: Path, samples: Samples) -> None:
    """Write Ogg Opus of about 30 kbit/s."""
    sf.write(path, samples, SAMPLE_RATE, format="OGG", subtype="OPUS", compression_level=_COMPRESSION)


def write_domain(folder: Path, seed: int = 0) -> None:
    """Write `train.jsonl`, `validation.jsonl`, `test.jsonl` and `audio/`."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    for split, rows in domain_rows(seed).items():
        lines = []
        for number, row in enumerate(rows):
            name = f"audio/{split}-{number:03d}.ogg"
            write_opus(folder / name, row.samples)
            segment = {"start": round(row.start, 2), "end": round(row.end, 2), "text": row.sentence}
            line = {
                "audio": {"path": name},
                "sentence": row.sentence,
                "sentences": [segment],
                "language": "en",
                "duration": round(len(row.samples) / SAMPLE_RATE, 2),
            }
            lines.append(json.dumps(line, ensure_ascii=False))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
