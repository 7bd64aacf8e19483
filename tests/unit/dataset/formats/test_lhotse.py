import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from studio.dataset.manifest import TextSegment
from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said


def cut(source: str = "a.wav", **changes: Any) -> dict[str, Any]:
    """A cut as lhotse writes it."""
    said = {
        "id": "s", "recording_id": "r", "start": 0, "duration": 1.0, "channel": 0,
        "text": "good morning", "language": "English", "speaker": "ann",
    }  # fmt: skip
    recording = {
        "id": "r", "sources": [{"type": "file", "channels": [0], "source": source}],
        "sampling_rate": 16000, "num_samples": 48000, "duration": 3.0, "channel_ids": [0],
    }  # fmt: skip
    values = {"id": "c", "start": 0.5, "duration": 1.0, "channel": 0, "supervisions": [said]}
    return {**values, "recording": recording, "type": "MonoCut", **changes}


def recorded(**changes: Any) -> dict[str, Any]:
    """A cut whose recording is another one."""
    return cut(recording={**cut()["recording"], **changes})


@pytest.fixture
def folder(tmp_path: Path, sound: Sound) -> Path:
    sound("a.wav", 3.0)
    return tmp_path


def write(path: Path, *cuts: Any) -> Path:
    data = "".join(json.dumps(row) + "\n" for row in cuts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_cuts_are_read_packed_or_not(folder: Path, name: str) -> None:
    for source in (write(folder / name, cut(), cut(start=0, duration=3.0)), folder):
        manifest = read_manifest(source)
        assert manifest.format == "lhotse" and manifest.problems == ()
        first, second = manifest.examples
        assert (first.text, first.language, first.speaker) == ("good morning", "English", "ann")
        assert (first.start_seconds, first.end_seconds, second.duration_seconds) == (0.5, 1.5, 3.0)


def test_chinese_supervisions_become_a_text_without_spaces(folder: Path) -> None:
    parts = [{"start": n / 2, "duration": 0.5, "text": text} for n, text in enumerate(("今天", "天气很好"))]
    (example,) = read_manifest(write(folder / "cuts.jsonl", cut(supervisions=parts))).examples
    assert example.text == "今天天气很好"


def test_several_supervisions_are_segments_within_the_cut(folder: Path) -> None:
    parts = [{"start": -0.2, "duration": 0.6, "text": "one"}, {"start": 0.5, "duration": 9, "text": " two"}]
    (example,) = read_manifest(write(folder / "cuts.jsonl", cut(supervisions=parts))).examples
    assert example.text == "one two"
    assert example.segments == (TextSegment(0.0, pytest.approx(0.4), "one"), TextSegment(0.5, 1.0, "two"))


def test_supervisions_are_said_in_the_order_of_their_times(folder: Path) -> None:
    one, two = {"start": 0, "duration": 0.5, "text": "one"}, {"start": 0.5, "duration": 0.5, "text": "two"}
    at_once = {"start": 0.3, "duration": 0.6, "text": "other"}
    path = write(folder / "cuts.jsonl", cut(supervisions=[two, one]), cut(supervisions=[two, at_once, one]))
    sorted_, mixed = read_manifest(path).examples
    assert sorted_.text == "one two" and [part.text for part in sorted_.segments] == ["one", "two"]
    assert (mixed.text, mixed.segments) == ("one other two", ()), "who speak at once have no times"


BAD = [
    (recorded(sources=[{"type": "command", "source": "touch ran"}]), "is a command and no file"),
    (recorded(sources=[{"type": "url", "source": "http://127.0.0.1:9/a.wav"}]), "is a url and no file"),
    (recorded(sources=[]), "a single source"),
    (recorded(sources=[{"type": "file", "source": "a.wav", "channels": [0, 1]}]), "with several"),
    (recorded(transforms=[{"name": "Speed", "kwargs": {"factor": 1.1}}]), r"while it is read \(Speed\)"),
    (cut(recording=None), "a single source"),
    (cut(type="MixedCut", tracks=[]), "is a MixedCut, where a MonoCut is needed"),
    (cut(supervisions=[]), "has no text"),
    (cut(supervisions=[{"text": "x", "start": "0"}, {"text": "y"}]), "are no numbers"),
    (cut("gone.wav"), r"no audio file gone\.wav"),
]


def test_what_is_no_stretch_of_one_file_is_named_and_nothing_is_run_or_fetched(folder: Path) -> None:
    manifest = read_manifest(write(folder / "cuts.jsonl", cut(), *(row for row, _ in BAD)))
    assert said(manifest) == [("a.wav", "good morning")]
    found = reasons(manifest)
    assert [line for line, _ in found] == list(range(2, len(BAD) + 2))
    for (_, reason), (_, wanted) in zip(found, BAD, strict=True):
        assert re.search(wanted, reason), reason
    assert [path.name for path in folder.iterdir() if path.name == "ran"] == []


def test_a_packed_list_that_is_cut_off_is_refused(folder: Path) -> None:
    whole = write(folder / "cuts.jsonl.gz", *[cut()] * 50).read_bytes()
    (folder / "cuts.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(folder / "cuts.jsonl.gz")


@pytest.mark.parametrize("part", [cut()["recording"], cut()["supervisions"][0]])
def test_recordings_and_supervisions_alone_are_refused_with_what_makes_cuts(
    folder: Path, part: dict[str, Any]
) -> None:
    (folder / "part.jsonl").write_text(json.dumps(part), encoding="utf-8")
    with pytest.raises(ManifestError, match="supervisions, lhotse cut simple makes cuts"):
        read_manifest(folder / "part.jsonl")


def test_a_list_that_says_of_which_recording_a_clip_is_has_no_cuts(folder: Path) -> None:
    row = {"audio": "a.wav", "text": "x", "recording_id": "a", "sources": ["radio"]}
    (folder / "list.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (example,) = read_manifest(folder / "list.jsonl").examples
    assert example.text == "x"


def test_of_the_two_texts_of_libriheavy_the_one_with_marks_counts(folder: Path) -> None:
    texts = {"texts": ["Good morning, Sir.", "GOOD MORNING SIR"], "begin_byte": 0}
    said_so = {"id": "s", "recording_id": "r", "start": 0, "duration": 1.0, "channel": 0, "custom": texts}
    (folder / "cuts.jsonl").write_text(json.dumps(cut(supervisions=[said_so])) + "\n")
    assert said(read_manifest(folder / "cuts.jsonl")) == [("a.wav", "Good morning, Sir.")]
