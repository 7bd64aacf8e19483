import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from studio.dataset.shared import Shared, digest_of, shared_clips
from tests.reading import read_manifest

from .conftest import sweep


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two clips of one length, and a copy of the first in another folder."""
    for number in range(2):
        soundfile.write(tmp_path / f"{number}.wav", sweep(8_000, 2.0) * (1 - number / 2), 8_000)
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "0.wav", tmp_path / "other" / "copy.wav")
    return tmp_path


def shared(folder: Path, train: list[dict[str, Any]], test: list[dict[str, Any]]) -> Shared:
    lists = []
    for name, rows in (("train", train), ("test", test)):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": "x", **row}) + "\n" for row in rows))
        lists.append(read_manifest(path).examples)
    return shared_clips(*lists)


def test_a_copy_is_the_same_clip_and_another_sound_of_its_length_is_not(folder: Path) -> None:
    first, second, copy = ({"audio": name} for name in ("0.wav", "1.wav", "other/copy.wav"))
    assert shared(folder, [first], [second]).count == 0
    found = shared(folder, [first, second], [copy, second])
    assert (found.count, found.total, found.names) == (2, 2, ("copy.wav", "1.wav"))
    assert str(found.sentence).startswith("2 of 2 evaluation clips are also trained on: copy.wav, 1.wav. ")


def test_two_recordings_that_begin_and_end_in_silence_are_two(folder: Path) -> None:
    for number in range(2):
        spoken = (1 - number / 2) * sweep(44_100, 2.0)
        samples = np.pad(spoken, 44_100)
        soundfile.write(folder / f"{number}.wav", np.stack([samples, samples], axis=1), 44_100)
    assert shared(folder, [{"audio": "0.wav"}], [{"audio": "1.wav"}]).count == 0


def test_a_file_that_is_recorded_anew_is_another(folder: Path) -> None:
    (folder / "list.jsonl").write_text('{"audio": "0.wav", "text": "x"}\n')
    (example,) = read_manifest(folder / "list.jsonl").examples
    before = digest_of(example)
    (folder / "1.wav").replace(folder / "0.wav")
    assert digest_of(example) != before


def test_a_long_file_that_is_changed_in_its_middle_is_another(folder: Path) -> None:
    samples = np.tile(sweep(8_000, 2.0), 100)
    soundfile.write(folder / "long.wav", samples, 8_000)
    (folder / "list.jsonl").write_text('{"audio": "long.wav", "text": "x"}\n')
    (example,) = read_manifest(folder / "list.jsonl").examples
    before = digest_of(example)
    samples[800_000:806_000] = 0
    soundfile.write(folder / "long.wav", samples, 8_000)
    assert digest_of(example) != before


def test_slices_are_the_same_where_they_begin_at_one_moment(folder: Path) -> None:
    slices = [{"audio": "0.wav", "start_time": at, "end_time": at + 0.5} for at in (0, 0.5, 1)]
    assert shared(folder, slices[:2], slices[2:]).count == 0
    assert shared(folder, slices[:2], slices[1:]).places == (0,)


def test_one_sound_in_two_containers_is_one_clip(folder: Path) -> None:
    for number in range(2):
        soundfile.write(folder / f"{number}.flac", soundfile.read(folder / f"{number}.wav")[0], 8_000)
    first, packed = {"audio": "0.wav", "duration": 2.04}, {"audio": "0.flac", "text": "y", "duration": 1.96}
    assert shared(folder, [first], [packed, {"audio": "1.flac"}]).places == (0,)
    (folder / "1.flac").write_text("no sound")
    assert shared(folder, [first, {"audio": "1.flac", "duration": 2}], [packed, packed]).count == 2


def test_of_many_clips_in_two_containers_those_with_one_text_are_heard(folder: Path) -> None:
    rows = [{"audio": "1.wav", "text": str(number)} for number in range(2000)]
    soundfile.write(folder / "0.flac", soundfile.read(folder / "0.wav")[0], 8_000)
    first = {"audio": "0.wav", "text": "Good morning!"}
    packed = [{"audio": "0.flac", "text": text} for text in ("good morning", "another")]
    assert shared(folder, [*rows, first], packed).places == (0,)


def test_stretches_of_one_recording_are_the_same_where_half_of_one_is_in_the_other(folder: Path) -> None:
    whole = [{"audio": "0.wav", "start_time": 0.5, "end_time": 1.5}]
    for start, end, count in ((0.55, 1.55, 1), (1.4, 2, 0), (0.9, 1.9, 1), (1.1, 2, 0), (0.8, 1, 1)):
        assert (
            shared(folder, whole, [{"audio": "0.wav", "start_time": start, "end_time": end}]).count == count
        )
    assert shared(folder, whole, [{"audio": "other/copy.wav"}]).count == 1, "it has the whole of the slice"


def test_of_many_the_first_are_named(folder: Path) -> None:
    slices = [{"audio": "0.wav", "start_time": at / 10, "end_time": 2} for at in range(9)]
    assert "9 of 9 evaluation clips are also trained on: 0.wav …" in str(
        shared(folder, slices, slices).sentence
    )
