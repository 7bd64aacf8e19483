"""What was written in Label Studio is data to train with, beside the recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reading import read_manifest

from .conftest import Sound, reasons, said


def wrote(*texts: str, name: str = "transcription", **times: float) -> dict[str, Any]:
    """A result of an annotation: of a region of the recording if it has times."""
    value = {"text": list(texts), **times}
    return {"id": "r", "type": "textarea", "from_name": name, "to_name": "audio", "value": value}


def annotation(*results: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"id": 1, "was_cancelled": False, "ground_truth": False, "result": list(results), **others}


def task(audio: str, *annotations: Any) -> dict[str, Any]:
    """A task as Label Studio exports it."""
    return {
        "id": 7,
        "data": {"audio": audio},
        "annotations": list(annotations),
        "predictions": [],
        "project": 1,
    }


LABELS = {"type": "labels", "from_name": "labels", "value": {"start": 0, "end": 1, "labels": ["Speaker"]}}
UPLOADED = "/data/upload/1/1a2b3c4d-a.wav"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_recording_or_each_of_its_regions_is_a_clip(
    sound: Sound, tmp_path: Path, indent: int | None
) -> None:
    sound("clips/a.wav", 3.0)
    sound("clips/b c.wav", 3.0)
    regions = annotation(
        LABELS, wrote("one", start=0, end=1), wrote("\u4f60\u597d", "\u5417", start=1.0, end=2.5)
    )
    tasks = [
        task(UPLOADED, annotation(wrote("hello"))),
        task("/data/local-files/?d=clips/b%20c.wav", regions),
    ]
    (tmp_path / "project-1.json").write_text(json.dumps(tasks, indent=indent), encoding="utf-8")
    for source in (tmp_path, tmp_path / "project-1.json"):
        manifest = read_manifest(source)
        assert not manifest.problems and manifest.format == "label_studio"
        found = [
            (one.audio_path.name, one.text, one.start_seconds, one.end_seconds) for one in manifest.examples
        ]
        assert found == [
            ("a.wav", "hello", None, None),
            ("b c.wav", "one", 0, 1),
            ("b c.wav", "\u4f60\u597d\u5417", 1, 2.5),
        ]


def test_tasks_without_a_text_that_counts_are_named(sound: Sound, tmp_path: Path) -> None:
    sound("a.wav")
    written = annotation(wrote("hello"))
    bad = [
        (task(UPLOADED), "The task is not labelled: no annotation of it has a text."),
        (task(UPLOADED, annotation(wrote("x"), was_cancelled=True)), "not labelled"),
        (task(UPLOADED, annotation(LABELS, {"type": "textarea"}, 5), None), "not labelled"),
        (task(UPLOADED, {"result": {}}), "not labelled"),
        (task(UPLOADED, written, written), "The task has 2 annotations: mark the one that counts"),
        (task(UPLOADED, annotation(wrote("x"), wrote("y", name="notes"))), r"kinds (notes, transcription)"),
        (task(UPLOADED, annotation(wrote("x", start=2, end=9))), "and the file is 1.00 s long"),
        (task("https://example.org/a.wav", written), "There is no audio file https://example.org/a.wav"),
        (
            task("/data/upload/1/99999999-a.wav", written),
            "There is no audio file /data/upload/1/99999999-a.wav",
        ),
        (task("/data/local-files/?d=../a.wav", written), "There is no audio file"),
        ({"id": 7, "data": {"text": "x"}, "annotations": []}, "no column for the audio"),
    ]
    good = [task(UPLOADED, written), task(UPLOADED, written, annotation(wrote("truth"), ground_truth=True))]
    rows = [*good, *(row for row, _reason in bad), "x"]
    (tmp_path / "project.json").write_text(json.dumps(rows), encoding="utf-8")
    manifest = read_manifest(tmp_path)
    assert said(manifest) == [("a.wav", "hello"), ("a.wav", "truth")]
    found = reasons(manifest)
    assert [line for line, _reason in found] == list(range(3, len(rows) + 1))
    assert all(reason in told for (_line, told), (_row, reason) in zip(found, bad, strict=False))
