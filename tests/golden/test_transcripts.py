"""What the demo model hears through both engines, word by word; a time may move by a fiftieth of a second."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.options.choices import ENGINES
from studio.publishing.export import Exporter
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_MODEL
from studio.transcription.captions import CaptionLayout, render
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from tests.golden.conftest import RECORDS, Golden

WAYS = {
    "usual": TranscribeOptions(),
    "words": TranscribeOptions(timestamps="word", language="en", condition_on_prev_tokens=False),
    "text": TranscribeOptions(timestamps="none", num_beams=1),
    "together": TranscribeOptions(batch_size=4, vad=False, temperature=(0.0,)),
    "captions": TranscribeOptions(audio_context="short", timestamps="word"),
}
RECORDINGS = {
    "command": tuple(WAYS),
    "long": ("usual", "together", "captions"),
    "silence": ("usual", "together"),
}
MOST_SECONDS = 0.02


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelCache]:
    registry = ModelRegistry(tmp_path_factory.mktemp("models"), demo=DEMO_MODEL, hf_cache=None)
    made = ModelCache(registry, idle_seconds=300, device="cpu", threads=1, exports=Exporter(registry))
    yield made
    made.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_way_to_hear_gives_the_texts_and_times_of_before(
    engines: ModelCache, demo_speech: Path, golden: Golden, engine: str
) -> None:
    sounds = recordings(demo_speech / "samples")
    with engines.lease("demo", EngineChoice(engine, "float32")) as lent:
        heard = {
            f"{name} {way}": spoken(
                lent.transcribe_samples([sound], len(sound) / SAMPLING_RATE, WAYS[way]),
                as_captions=way == "captions",
            )
            for name, sound in sounds.items()
            for way in RECORDINGS[name]
        }
    golden(f"heard_{engine}", near(heard, RECORDS / f"heard_{engine}.json"))


def recordings(samples: Path) -> dict[str, Any]:
    """What the model is sure of, so that another processor's last digits change nothing."""
    command = read_audio(samples / "kitchen-light.flac")
    silence = read_audio(samples / "silence.flac")
    long = np.concatenate([command, *[silence] * 9, command])
    return {"command": command, "long": long, "silence": silence}


def spoken(transcript: Any, *, as_captions: bool) -> dict[str, Any]:
    """The text and, of each segment or word, or of each caption, start and end in seconds."""
    pieces = [piece for segment in transcript.segments for piece in segment.words or (segment,)]
    told = [f"{piece.start_seconds:.2f} {piece.end_seconds:.2f} {piece.text}" for piece in pieces]
    return {
        "text": transcript.text,
        "language": transcript.language,
        "notes": [str(note) for note in transcript.notes],
        "times": captions(transcript) if as_captions else told,
    }


def captions(transcript: Any) -> list[str]:
    """As they stand in narrow SRT."""
    whole = re.findall(
        r"00:00:(\S+) --> 00:00:(\S+)\n(.+)\n", render(transcript, "srt", CaptionLayout(20, 1))
    )
    return [
        f"{float(start.replace(',', '.')):.2f} {float(end.replace(',', '.')):.2f} {text}"
        for start, end, text in whole
    ]


def near(heard: dict[str, Any], record: Path) -> dict[str, Any]:
    """The same with the times of the record where they are as good as those."""
    before = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for name, row in heard.items():
        known = before.get(name, {}).get("times", [])
        if len(known) == len(row["times"]):
            row["times"] = [
                old if is_near(old, new) else new for old, new in zip(known, row["times"], strict=True)
            ]
    return heard


def is_near(old: str, new: str) -> bool:
    (*before, old_text), (*now, new_text) = old.split(" ", 2), new.split(" ", 2)
    moved = max(abs(float(a) - float(b)) for a, b in zip(before, now, strict=True))
    return old_text == new_text and moved <= MOST_SECONDS + 1e-6
