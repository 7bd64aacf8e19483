"""Lists of recordings."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from studio.errors import ConfigError, DataError
from studio.transcription.engine import TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.transcription.results import ResultsFile
from studio.transcription.transcription_jobs import transcribe_many
from tests.unit.transcription.small_models import Sample

PLAIN = TranscribeOptions(timestamps="none")


def test_a_file_that_cannot_be_used_has_an_error_and_stops_nothing(
    engines: ModelCache, command: Sample, tmp_path: Path
) -> None:
    told: list[tuple[dict[str, Any], Transcript | DataError]] = []
    rows = transcribe_many(
        engines,
        "demo",
        [tmp_path / "missing.wav", command.path],
        PLAIN,
        lambda row, transcript: told.append((row, transcript)),
    )
    assert [row["audio_path"] for row in rows] == [str(tmp_path / "missing.wav"), str(command.path)]
    assert "missing.wav" in rows[0]["error"]
    assert (rows[1]["text"], rows[1]["error"]) == (command.text, None)
    assert rows[0].keys() == rows[1].keys()
    assert [row for row, _ in told] == rows
    assert isinstance(told[0][1], DataError) and isinstance(told[1][1], Transcript)


def test_a_name_that_is_not_utf_8_is_refused_can_be_written_and_stops_nothing(
    engines: ModelCache, command: Sample, tmp_path: Path
) -> None:
    odd, place = tmp_path / os.fsdecode(b"caf\xe9.flac"), tmp_path / "results.json"
    try:
        shutil.copy(command.path, odd)
    except OSError:
        pytest.skip("this disk takes no such name")
    for _ in range(2):  # it is done again, and has one row all the same
        results = ResultsFile(place, [odd, command.path], "demo", overwrite=False)
        assert odd in results.todo
        for row in transcribe_many(engines, "demo", results.todo, PLAIN):
            results.add(row)
        results.save()
        rows = json.loads(place.read_text(encoding="utf-8"))
        assert [row["text"] for row in rows] == ["", command.text] and rows == results.rows
        assert rows[0]["error"].endswith(
            "caf\\udce9.flac cannot be read: its name or that of its folder is not UTF-8. Rename it."
        )


def test_a_stop_gives_the_rows_so_far(engines: ModelCache, command: Sample) -> None:
    paths = [command.path] * 3
    done: list[Any] = []
    rows = transcribe_many(
        engines, "demo", paths, PLAIN, lambda row, _: done.append(row), lambda: len(done) == 1
    )
    assert len(rows) == 1


def test_a_language_the_model_lacks_is_refused_at_once(engines: ModelCache, command: Sample) -> None:
    with pytest.raises(ConfigError, match="does not know the language"):
        transcribe_many(engines, "demo", [command.path], TranscribeOptions(language="Cantonese"))


def test_a_recording_that_is_cut_off_is_heard_alone_and_among_others_and_has_a_note(
    engines: ModelCache, command: Sample, samples: dict[str, Sample], tmp_path: Path
) -> None:
    short, long = tmp_path / "short.wav", tmp_path / "long.flac"
    sf.write(short, command.sound, 16_000)
    short.write_bytes(short.read_bytes()[: -16_000 * 2])
    sf.write(long, samples["long"].sound, 16_000)
    long.write_bytes(long.read_bytes()[: long.stat().st_size // 2])
    told: list[Transcript | DataError] = []
    paths = [short, command.path, long]
    rows = transcribe_many(engines, "demo", paths, PLAIN, lambda _row, found: told.append(found))
    assert [row["error"] for row in rows] == [None] * 3 and rows[0]["text"] and rows[2]["text"]
    assert rows[0]["notes"] == ["The file says 4.5 s, and holds 3.5 s: it is cut off or damaged."]
    assert "notes" not in rows[1]
    pattern = r"The file says 1 min \d\d s, and holds [\w ]+ s: it is cut off or damaged\."
    [note] = rows[2]["notes"]
    assert re.fullmatch(pattern, note)
    for row, found in zip(rows, told, strict=True):
        assert isinstance(found, Transcript) and [str(each) for each in found.notes] == row.get("notes", [])
        assert Transcript.from_json(json.loads(json.dumps(row))).to_json() == row
    kept = ResultsFile(tmp_path / "kept.json", paths, "demo", overwrite=False)
    for row in rows:
        kept.add(row)
    kept.save()
    again = ResultsFile(tmp_path / "kept.json", paths, "demo", overwrite=False)
    assert not again.todo and again.rows[2]["notes"] == [note]


def test_a_recording_that_goes_on_behind_the_end_in_its_header_is_heard_among_others_as_alone(
    engines: ModelCache, command: Sample, samples: dict[str, Sample], tmp_path: Path
) -> None:
    lying = tmp_path / "lying.flac"
    sf.write(lying, samples["long"].sound[: 40 * 16_000], 16_000)
    content = bytearray(lying.read_bytes())
    place = content.index(b"fLaC") + 8 + 13  # the last 36 bits of these five bytes are the number of samples
    content[place : place + 5] = bytes([content[place] & 0xF0, *(16_000).to_bytes(4, "big")])
    lying.write_bytes(content)
    together = transcribe_many(engines, "demo", [command.path, lying, command.path], PLAIN)
    (alone,) = transcribe_many(engines, "demo", [lying], PLAIN)
    assert [row["error"] for row in together] == [None] * 3
    assert together[1]["text"] == alone["text"] and len(alone["text"]) > 3 * len(together[0]["text"])
    assert together[0]["text"] == together[2]["text"] != ""
