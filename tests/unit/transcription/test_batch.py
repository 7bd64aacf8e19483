"""A list of recordings that is broken off and gone on with, and what is taken away of it."""

import io
import json
import os
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from studio.errors import DataError
from studio.transcription.batch import Asked, Batch
from studio.transcription.captions import FORMATS, CaptionLayout
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcription_jobs import distinct_stems, groups, transcribe_many
from tests.unit.transcription.small_models import Sample

ASKED = Asked("demo", TranscribeOptions(), EngineChoice())


def hear(engines: ModelCache, batch: Batch, paths: list[Path]) -> None:
    transcribe_many(engines, "demo", paths, ASKED.options, batch.add)
    batch.save()


def test_a_list_that_was_broken_off_goes_on_where_it_ended(
    engines: ModelCache, command: Sample, samples: dict[str, Sample], tmp_path: Path
) -> None:
    paths = [command.path, tmp_path / "missing.wav", samples["silence"].path]
    first = Batch(paths, ASKED, tmp_path / "kept")
    hear(engines, first, paths[:2])
    assert str(paths[1]) in first.errors and first.todo == paths[2:]
    again = Batch(paths, ASKED, tmp_path / "kept")
    assert again.todo == paths[1:], "what failed is tried again"
    assert again.done_seconds == again.seconds[paths[0]] > 0
    other = Batch(
        paths, Asked("demo", TranscribeOptions(task="translate"), EngineChoice()), tmp_path / "kept"
    )
    assert other.todo == paths
    hear(engines, again, again.todo)
    assert again.todo == [] and list((tmp_path / "kept").iterdir()) == []


def test_a_recording_that_changed_is_heard_again(
    engines: ModelCache, command: Sample, samples: dict[str, Sample], tmp_path: Path
) -> None:
    path = tmp_path / "a.flac"
    shutil.copy(samples["silence"].path, path)
    paths = [path, command.path]
    hear(engines, Batch(paths, ASKED, tmp_path / "kept"), paths[:1])
    shutil.copy(command.path, path)
    assert Batch(paths, ASKED, tmp_path / "kept").todo == paths


def test_what_nobody_went_on_with_is_kept_as_long_as_is_said(
    engines: ModelCache, command: Sample, samples: dict[str, Sample], tmp_path: Path
) -> None:
    paths, kept = [command.path, samples["silence"].path], tmp_path / "kept"
    hear(engines, Batch(paths, ASKED, kept), paths[:1])
    (left,) = kept.iterdir()
    os.utime(left, (time.time() - 4000,) * 2)
    (kept / "gone.json").symlink_to("what another visitor has just finished")
    assert Batch(paths, ASKED, kept).todo == paths[1:]
    assert Batch(paths, ASKED, kept, kept_seconds=3600).todo == paths


def test_all_results_are_one_json_and_a_zip_of_captions(
    engines: ModelCache, command: Sample, tmp_path: Path
) -> None:
    twin = tmp_path / "twin" / "kitchen-light.flac"
    twin.parent.mkdir()
    shutil.copy(command.path, twin)
    paths = [command.path, tmp_path / "missing.wav", twin]
    batch = Batch(paths, ASKED, tmp_path / "kept")
    hear(engines, batch, paths)
    rows = json.loads(batch.to_json())
    assert [row["audio_path"] for row in rows] == ["kitchen-light.flac", "missing.wav", "kitchen-light.flac"]
    with zipfile.ZipFile(io.BytesIO(batch.captions(CaptionLayout()))) as archive:
        names = [f"{ending}/{stem}" for stem in ("kitchen-light", "kitchen-light-2") for ending in FORMATS]
        assert sorted(archive.namelist()) == sorted(f"{name}.{name.partition('/')[0]}" for name in names)
        assert "-->" in archive.read("srt/kitchen-light-2.srt").decode("utf-8")


def test_a_transcript_comes_back_from_its_row(engines: ModelCache, command: Sample) -> None:
    heard = engines.transcribe("demo", command.path, TranscribeOptions(timestamps="word"))
    again = Transcript.from_json(json.loads(json.dumps(heard.to_json())))
    assert again.to_json() == heard.to_json() and again.segments == heard.segments


def test_short_recordings_go_together_and_a_long_one_alone(
    command: Sample, samples: dict[str, Sample]
) -> None:
    short, long = command.path, samples["long"].path
    assert list(groups([short, short, short, long, short], 2)) == [[short, short], [short], [long], [short]]


@pytest.mark.parametrize(
    ("names", "stems"),
    [
        (["a/x", "b/x", "b/y"], ["x", "x-2", "y"]),
        (["x", "x-2", "a/x", "b/x"], ["x", "x-2", "x-3", "x-4"]),
        (["x", "a/x", "x-2"], ["x", "x-2", "x-2-2"]),
        (["X", "a/x"], ["X", "x-2"]),
        (["灯" * 50 + "上", "灯" * 50 + "下"], ["灯" * 40, "灯" * 39 + "-2"]),
    ],
)
def test_files_made_of_recordings_of_one_name_are_numbered(names: list[str], stems: list[str]) -> None:
    assert list(distinct_stems([Path(f"{name}.wav") for name in names]).values()) == stems


def test_a_name_that_is_kept_is_nobody_elses() -> None:
    kept = {Path("b/x.wav"): "x", Path("c/x.wav"): "X-2"}
    stems = distinct_stems([Path(f"{name}.wav") for name in ("a/x", "b/x", "c/x", "d/x")], kept)
    assert stems == {**kept, Path("a/x.wav"): "x-3", Path("d/x.wav"): "x-4"}


def test_what_a_batch_is_told_is_kept_in_the_order_of_the_recordings(tmp_path: Path) -> None:
    paths = [tmp_path / "a.wav", tmp_path / "b.wav"]
    batch = Batch(paths, ASKED, tmp_path / "kept")
    row: dict[str, Any] = {"error": "no", "model": "demo"}
    for path in reversed(paths):
        batch.add({**row, "audio_path": str(path)}, DataError("no"))
    assert [row["audio_path"] for row in batch.rows] == [str(path) for path in paths]
