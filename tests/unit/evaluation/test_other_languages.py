"""Clips in languages that a run does not train."""

import json
from pathlib import Path

import pytest

from studio.errors import ConfigError, ManifestError
from tests.reading import clips_in_other_languages


def manifest(folder: Path, speech: Path, languages: list[str | None]) -> str:
    """One clip of the demo speech, said to be in each of the languages."""
    audio = str(speech / "audio" / "test-000.ogg")
    rows = [{"audio": audio, "sentence": "reboot", "language": language} for language in languages]
    file = folder / "kept.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def test_english_comes_with_the_studio_and_is_something_else_to_who_trains_english_too() -> None:
    clips = clips_in_other_languages("", ("zh",), 8)
    assert 4 <= len(clips) <= 8 and {clip.language for clip in clips} == {"en"}
    assert all(clip.audio_path.is_file() and clip.text for clip in clips)
    assert clips_in_other_languages("", ("en", "zh"), 8) == clips
    assert clips_in_other_languages("", (), 8) == [], "what is trained is not known"


def test_of_a_manifest_the_rows_in_other_languages_are_heard(tmp_path: Path, demo_speech: Path) -> None:
    source = manifest(tmp_path, demo_speech, ["German", "zh-TW", None, "de"])
    assert [clip.line for clip in clips_in_other_languages(source, ("zh",), 8)] == [1, 4]
    assert len(clips_in_other_languages(source, ("zh",), 1)) == 1


def test_where_no_row_is_in_another_language_all_are_heard_as_another_style(
    tmp_path: Path, demo_speech: Path
) -> None:
    only_own = manifest(tmp_path, demo_speech, ["zh", None])
    assert [clip.line for clip in clips_in_other_languages(only_own, ("zh",), 8)] == [1, 2]


def test_clips_are_taken_evenly_from_the_whole_list(tmp_path: Path, demo_speech: Path) -> None:
    source = manifest(tmp_path, demo_speech, ["German"] * 11)
    for most, lines in ((1, [1]), (4, [1, 3, 6, 9]), (8, [1, 2, 3, 5, 6, 7, 9, 10]), (11, [*range(1, 12)])):
        assert [clip.line for clip in clips_in_other_languages(source, ("zh",), most)] == lines


def test_a_manifest_that_is_of_no_use_says_why(tmp_path: Path, demo_speech: Path) -> None:
    with pytest.raises(ConfigError, match=r"Line 1 of other_languages_data: .*Klingon"):
        clips_in_other_languages(manifest(tmp_path, demo_speech, ["Klingon"]), (), 8)
    with pytest.raises(ManifestError, match=r"missing\.jsonl"):
        clips_in_other_languages(str(tmp_path / "missing.jsonl"), (), 8)
