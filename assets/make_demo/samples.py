"""Sample recordings for the playground and the tests, in voices that the demo model was not trained on."""

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile as sf

from .clips import draw_sentence, join
from .speech import write_opus
from .voices import SAMPLE_RATE, Samples, Voice, espeak

SHORT_VOICE = Voice("en-us+f3", words_per_minute=150, pitch=55)
LONG_VOICE = Voice("en-gb-x-rp+m3", words_per_minute=155, pitch=45)
LONG_SENTENCES = 27


@dataclass(frozen=True)
class SampleSegment:
    """A sentence and its place in the recording, seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Sample:
    """A recording and what is said in it."""

    file: str
    text: str
    language: str | None
    segments: tuple[SampleSegment, ...]


def recording(
    texts: list[str], voice: Voice, pauses: tuple[float, float], seed: int
) -> tuple[Samples, tuple[SampleSegment, ...]]:
    """Sentences with pauses (range of seconds) between them, over faint noise."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    pieces, clock, segments = [np.zeros(int(0.4 * SAMPLE_RATE), np.float32)], 0.4, []
    for text in texts:
        spoken = espeak().say(text, voice)
        segments.append(SampleSegment(round(clock, 2), round(clock + spoken.seconds, 2), text))
        pieces += [spoken.samples, np.zeros(int(rng.uniform(*pauses) * SAMPLE_RATE), np.float32)]
        clock = sum(map(len, pieces)) / SAMPLE_RATE
    samples = np.concatenate(pieces)
    return (samples + 5e-4 * noise.standard_normal(len(samples))).astype(np.float32), tuple(segments)


def write_samples(folder: Path, seed: int = 1) -> None:
    """Write the recordings, `samples.json` and `long.json` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    long_texts = [draw_sentence(True, rng) for _ in range(LONG_SENTENCES)]
    plans = (
        (
            "kitchen-light.flac",
            ["turn on the kitchen light", "set a timer for ten minutes"],
            SHORT_VOICE,
            (0.4, 0.5),
        ),
        ("long.ogg", long_texts, LONG_VOICE, (0.9, 1.9)),
    )
    samples = []
    for name, texts, voice, pauses in plans:
        sound, segments = recording(texts, voice, pauses, seed)
        _write(folder / name, sound)
        samples.append(Sample(name, join(texts).strip(), "en", segments))
    silence = 1e-3 * np.random.default_rng(seed).standard_normal(3 * SAMPLE_RATE).astype(np.float32)
    _write(folder / "silence.flac", silence)
    samples.append(Sample("silence.flac", "", None, ()))
    _write_json(folder / "samples.json", [asdict(sample) for sample in samples])
    _write_json(folder / "long.json", asdict(next(sample for sample in samples if sample.file == "long.ogg")))


def _write(path: Path, sound: Samples) -> None:
    if path.suffix == ".ogg":
        write_opus(path, sound)
    else:
        sf.write(path, sound, SAMPLE_RATE, format="FLAC", subtype="PCM_16")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
