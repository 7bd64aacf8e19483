"""Results of many recordings: what is done is not done again, and a list is divided without loss."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from studio.errors import ConfigError
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.transcription.ranks import share_of
from studio.transcription.results import ResultsFile, asked_mark
from studio.transcription.transcription_jobs import transcribe_many
from tests.unit.transcription.small_models import Sample


def row(path: str, model: str = "demo", error: str | None = None) -> dict[str, object]:
    whole = Transcript("one", (), "en", 1.0, model, "transformers", audio_path=path).to_json()
    return {**whole, "error": error}


def names_in(place: Path) -> list[str]:
    return [each["audio_path"] for each in json.loads(place.read_text(encoding="utf-8"))]


def test_a_later_run_does_only_what_is_missing_failed_or_of_another_model(tmp_path: Path) -> None:
    place = tmp_path / "results.json"
    rows = [row("a"), row("b", error="broken"), row("c", model="tiny"), row("other"), row("e")]
    del rows[-1]["segments"]  # by hand
    place.write_text(json.dumps(rows), encoding="utf-8")
    paths = [Path(name) for name in "abcde"]
    results = ResultsFile(place, paths, "demo", overwrite=False)
    assert results.todo == [Path("b"), Path("c"), Path("d"), Path("e")]
    for name in "edcb":
        results.add(row(name))
    results.save()
    whole = [*"abcde", "other"]
    assert names_in(place) == whole, "what was not asked for this time stays"
    assert ResultsFile(place, paths, "demo", overwrite=False).todo == []
    pair = [ResultsFile(place, paths[:1], "tiny", overwrite=False, rank=n, world_size=2) for n in (0, 1)]
    pair[0].add(row("a", model="tiny"))
    pair[0].save()
    pair[0].finish([])
    assert names_in(place) == whole and list(tmp_path.iterdir()) == [place]
    assert ResultsFile(place, paths, "demo", overwrite=True).todo == paths


def test_what_was_asked_otherwise_or_has_changed_is_done_again_and_earlier_rows_count(tmp_path: Path) -> None:
    place, paths = tmp_path / "results.json", [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"sound of " + path.name.encode())
    plain = asked_mark(TranscribeOptions(), EngineChoice())
    first = ResultsFile(place, paths, "demo", overwrite=False, asked=plain)
    for path in paths:
        first.add(row(str(path)))
    first.save()

    def again(asked: str) -> ResultsFile:
        return ResultsFile(place, paths, "demo", overwrite=False, asked=asked)

    assert (again(plain).todo, again(plain).differing) == ([], 0)
    for other in ({"language": "de"}, {"task": "translate"}, {"chinese_script": "taiwan"}, {"num_beams": 1}):
        asked = asked_mark(replace(TranscribeOptions(), **other), EngineChoice())
        assert (again(asked).todo, again(asked).differing) == (paths, 3)
    assert again(asked_mark(TranscribeOptions(), EngineChoice("faster-whisper"))).todo == paths
    os.utime(paths[0], (1, 1))
    paths[1].write_bytes(b"other of b")
    assert (again(plain).todo, again(plain).differing) == (paths[1:2], 1), "a time alone is no change"
    rows = [{**each, "made_of": None} for each in json.loads(place.read_text(encoding="utf-8"))]
    place.write_text(json.dumps(rows), encoding="utf-8")
    assert again("anything").todo == []


def test_a_recording_keeps_its_name_and_a_new_one_gets_another(tmp_path: Path) -> None:
    place, paths = tmp_path / "results.json", [Path(f"{folder}/x.wav") for folder in "bca"]

    def stems(paths: list[Path]) -> list[str]:
        results = ResultsFile(place, paths, "demo", overwrite=False)
        for path in results.todo:
            results.add(row(str(path)))
        results.save()
        return [results.stems[path] for path in paths]

    assert stems(paths[:2]) == ["x", "x-2"]
    assert stems(sorted(paths)) == ["x-3", "x", "x-2"]
    assert stems(paths[1:2]) == ["x-2"], "what is not asked for this time keeps its name, too"
    assert stems([Path("d/x.wav")]) == ["x-4"]
    # Of an earlier version, which numbered them by their order; and by somebody who would write elsewhere.
    for stem in (None, "../x"):
        place.write_text(json.dumps([{**row(str(path)), "stem": stem} for path in paths[:2]]))
        assert stems(sorted(paths)) == ["x-3", "x", "x-2"]
        assert [each["stem"] for each in json.loads(place.read_text())] == ["x-3", "x", "x-2"]


@pytest.mark.parametrize("text", ['{"settings": 1}', "[" * 3000])
def test_a_file_that_holds_something_else_is_not_overwritten(tmp_path: Path, text: str) -> None:
    place = tmp_path / "results.json"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no results of transcribe"):
        ResultsFile(place, [Path("a")], "demo", overwrite=False)


def test_processes_share_a_list_without_loss() -> None:
    items = list(range(10))
    shares = [share_of(items, rank, 3) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_rows_of_a_list_carry_the_id_by_which_they_are_found_again(
    engines: ModelCache, command: Sample, tmp_path: Path
) -> None:
    paths = [command.path]
    place = tmp_path / "results.json"
    results = ResultsFile(place, paths, "demo", overwrite=False)
    for found in transcribe_many(engines, "demo", results.todo, TranscribeOptions(timestamps="none")):
        results.add(found)
    results.save()
    assert ResultsFile(place, paths, "demo", overwrite=False).todo == []


def test_a_process_that_is_killed_leaves_what_it_had_and_any_number_of_processes_go_on(
    tmp_path: Path,
) -> None:
    place, paths = tmp_path / "results.json", [Path(name) for name in "abcdef"]
    pair = [ResultsFile(place, paths, "demo", overwrite=False, rank=rank, world_size=2) for rank in (0, 1)]
    assert [results.todo for results in pair] == [paths[::2], paths[1::2]]
    pair[0].add(row("a"))
    pair[1].add(row("d"))
    for results in pair:
        results.save()
    assert not place.exists() and len(list(tmp_path.iterdir())) == 2
    again = [ResultsFile(place, paths, "demo", overwrite=False, rank=rank, world_size=3) for rank in range(3)]
    assert [results.todo for results in again] == [[], [Path("b"), Path("e")], [Path("c"), Path("f")]]
    for results in again:
        for path in results.todo:
            results.add(row(str(path)))
    again[0].finish([each for results in again for each in results.rows])
    assert names_in(place) == list("abcdef")
    assert list(tmp_path.iterdir()) == [place]
    for results in again:
        results.forget_part()
