"""Times made for texts that have none: kept beside the run, and made again only where something changed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from studio.dataset.example import Example
from studio.options.training import TrainingConfig
from studio.training import adapters
from studio.training.data import preparation
from studio.training.data.preparation import with_made_times
from studio.training.data.times_file import TimesFile
from studio.training.stop import StopRequested
from studio.transcription.engines.transformers import TransformersModel
from tests.reading import read_manifest
from tests.unit.training.attempts import Runs, told


@pytest.fixture(scope="module")
def decoder(demo_model: Path) -> TransformersModel:
    return adapters.load_training_base(demo_model, TrainingConfig(), adapters.Precision("fp32")).decoder


@pytest.fixture(scope="module")
def spoken(demo_speech: Path, decoder: TransformersModel) -> tuple[Example, ...]:
    """Four short clips without times, two of them labelled as the demo model hears them."""
    rows = read_manifest(demo_speech / "test.jsonl", max_rows=4).examples
    known = demo_speech / "samples" / "kitchen-light.flac"
    text = json.loads((demo_speech / "samples" / "samples.json").read_text(encoding="utf-8"))
    said = next(row["text"] for row in text if row["file"] == known.name)
    light = replace(rows[0], audio_path=known, text=said, segments=(), duration_seconds=4.5)
    plain = [replace(row, segments=()) for row in rows]
    plain[1] = plain[3] = light
    return tuple(plain)


def made(
    examples: Sequence[Example], decoder: TransformersModel, path: Path, model: str = "model", most: int = 99
) -> tuple[list[Example], int, int]:
    """The examples with times, how many got some, and how many batches were listened to."""
    heard = 0

    def on_batch() -> None:
        nonlocal heard
        if heard == most:
            raise StopRequested
        heard += 1

    file = TimesFile(path, model)
    found, count = with_made_times(examples, decoder, lambda _: "en", "transcribe", on_batch, file)
    return list(found), count, heard


def test_times_are_made_once_and_read_again(
    spoken: tuple[Example, ...],
    decoder: TransformersModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparation, "_BATCH_SIZE", 2)
    path = tmp_path / "times.jsonl"
    with pytest.raises(StopRequested):
        made(spoken, decoder, path, most=1)
    whole = made(spoken, decoder, path)
    assert whole[1:] == (2, 1), "two texts are the model's, and one batch of two was known"
    assert whole[0][1].segments and whole[0][1] == whole[0][3] and not whole[0][2].segments
    assert made(spoken, decoder, path) == (whole[0], 2, 0)

    path.write_bytes(path.read_bytes()[:-3])
    assert made(spoken, decoder, path) == (whole[0], 2, 1), "the last line was cut off"
    assert made(spoken, decoder, path) == (whole[0], 2, 0)
    assert made(spoken, decoder, path, model="another")[2] == 2
    changed = (replace(spoken[0], text="something else"), *spoken[1:])
    assert made(changed, decoder, path, model="another")[2] == 2
    path.write_text("{", encoding="utf-8")
    assert made(spoken, decoder, path) == (whole[0], 2, 2)


def test_a_resumed_run_does_not_make_its_times_again(runs: Runs) -> None:
    run = runs.new(make_timestamps=True)
    assert runs.carry_out(run, stop_at=3).state == "stopped"
    before = run.times.stat()
    assert before.st_size > 100
    assert runs.carry_out(run).state == "finished"
    after = run.times.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert [event["made_times"] for event in told(run, "data")] == [0, 0], "this model knows no words"
