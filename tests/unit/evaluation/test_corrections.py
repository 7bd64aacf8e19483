"""Corrected references: from a file, into a new list, and kept until they are in one."""

import csv
import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.dataset.example import Example, Manifest, TextSegment
from studio.dataset.marks import NO_SPEECH
from studio.errors import ConfigError, DataError, StudioError
from studio.evaluation.compare import with_references
from studio.evaluation.corrections import (
    KeptCorrections,
    checked_reference,
    clip_of,
    evaluated_clips,
    free_place,
    list_lines,
    read_corrections,
    save_list,
)
from studio.evaluation.result import Evaluation
from tests.reading import read_manifest
from tests.unit.evaluation.test_explorer import SAID, A, B, evaluation


@pytest.fixture
def manifest(demo_speech: Path, tmp_path: Path) -> Manifest:
    """Three clips: two of one file, the second of which goes on with the first, and one without speech."""
    sound = str(demo_speech / "audio" / "test-000.ogg")
    rows = [
        {"audio": {"path": sound, "start_time": 0.0, "end_time": 0.5}, "sentence": "turn on"},
        {"audio": {"path": sound, "start_time": 0.6, "end_time": 1.2}, "sentence": "the light"},
        {"audio": {"path": str(demo_speech / "audio" / "test-001.ogg")}, "sentence": NO_SPEECH},
    ]
    path = tmp_path / "lists" / "test.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_manifest(path)


def corrections_of(manifest: Manifest, tmp_path: Path, text: str) -> dict[int, str]:
    """Line of the clip → what a file with that text has for it."""
    path = tmp_path / "corrections"
    path.write_text(text, encoding="utf-8")
    return {clip[1]: said for clip, said in read_corrections(path, manifest).items()}


def test_a_file_names_its_clips_by_line_or_by_file(manifest: Manifest, tmp_path: Path) -> None:
    for text, found in (
        ("line,reference\n2,the lights\n", {2: "the lights"}),
        ('{"line": 3, "text": "good  night"}\n', {3: "good night"}),
        ("audio_path\tsentence\naudio/test-001.ogg\tשלום עולם\n", {3: "שלום עולם"}),
        (f"audio,line,text\ntest-000.ogg,1,{NO_SPEECH}\n", {1: ""}),
        ('[{"line": "1", "text": 7}]', {1: "7"}),
        ("line,text\n1,turn on\n2,the  light\n", {}),
    ):
        assert corrections_of(manifest, tmp_path, text) == found, text


def test_the_csv_of_an_evaluation_corrected_is_such_a_file(tmp_path: Path) -> None:
    """Of two models a clip has two rows, of which it is enough to correct one."""
    found = evaluation(SAID, A, B)
    rows = list(csv.DictReader(found.to_csv().splitlines()))
    rows[3]["reference"] = "打开 chicken 灯"
    path = tmp_path / "clips.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    corrections = read_corrections(path, evaluated_clips(found))
    assert corrections == {clip_of(found.utterances[2]): "打开 chicken 灯"}


def test_no_text_of_a_data_set_is_a_formula_in_a_spreadsheet_and_each_comes_back_as_it_was(
    tmp_path: Path,
) -> None:
    texts = ["=HYPERLINK(1)", "-2 degrees", "@all", "+1", "'tis so"]
    found = evaluation(texts, texts)
    rows = list(csv.DictReader(found.to_csv().splitlines()))
    assert [row["hypothesis"] for row in rows] == ["'=HYPERLINK(1)", "'-2 degrees", "'@all", "'+1", "'tis so"]
    path = tmp_path / "clips.csv"
    path.write_text(found.to_csv().replace("'+1,", "'+12,"), encoding="utf-8")
    corrections = read_corrections(path, evaluated_clips(found))
    assert corrections == {clip_of(found.utterances[3]): "+12"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("line,text\n9,hello\n", "corrections, line 2: there is no clip line 9 in"),
        ("audio,text\n../../etc/passwd,hello\n", "there is no clip ../../etc/passwd"),
        ("audio,text\ntest-000.ogg,hello\n", "test-000.ogg are 2 clips of .*: give both line and audio_path"),
        ("line,text\n1,\n", "line 1 is empty: write what is said, or <|nospeech|>"),
        ("line,text\n1\n", "line 1 is empty"),
        ("line,text\nfirst,hello\n", "a number, got 'first'"),
        ('{"text": "hello"}\n{"text": "you"}\n', "names no clip"),
        ('{"line": 1, "text": "a\\u0000b"}\n', "line 1 has signs that are no text"),
        ('{"line": 1, "text": "a\\ud800"}\n', "line 1 has signs that are no text"),
        ("line,text\n1,one\n1,two\n", "line 3: clip 1 is corrected a second time"),
        ("line,text\n1,a\0b\n", "is not UTF-8 text"),
        ("text\nhello\n", "no column|names no audio|audio"),
        ("", "is empty"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_a_sentence(
    manifest: Manifest, tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(StudioError, match=sentence.replace("|>", r"\|>").replace("<|", r"<\|")) as refused:
        corrections_of(manifest, tmp_path, text)
    assert "\n" not in str(refused.value)
    with pytest.raises(DataError, match="There is no file"):
        read_corrections(tmp_path / "nowhere.csv", manifest)


def test_the_new_list_is_read_as_the_old_one_but_for_what_was_corrected(
    manifest: Manifest, tmp_path: Path
) -> None:
    """What followed a corrected clip follows the corrected text; where nobody speaks, the list says so."""
    first, second, silent = manifest.examples
    old = Path(manifest.source).read_bytes()
    corrections = {clip_of(first): "turn off", clip_of(silent): "good night"}
    path = free_place(manifest.source, tmp_path / "datasets")
    assert path == tmp_path / "lists" / "test-corrected.jsonl"
    save_list(manifest, corrections, path)
    assert Path(manifest.source).read_bytes() == old
    assert read_manifest(path).examples == (
        replace(first, text="turn off"),
        replace(second, previous_text="turn off"),
        replace(silent, text="good night"),
    )
    nobody = free_place(str(path), tmp_path)
    assert nobody.name == "test-corrected-2.jsonl"
    save_list(manifest, {clip_of(second): ""}, nobody)
    assert [example.text for example in read_manifest(nobody).examples] == ["turn on", "", ""]


def test_times_of_sentences_stay_only_where_the_text_does(manifest: Manifest) -> None:
    parts = (TextSegment(0.0, 0.2, "turn"), TextSegment(0.2, 0.5, "on"))
    clips = [replace(example, segments=parts, task="translate") for example in manifest.examples[:2]]
    lines = list_lines(clips, {clip_of(clips[0]): "turn off"}, None)
    first, second = (json.loads(line) for line in lines)
    assert "sentences" not in first and len(second["sentences"]) == 2
    assert first["audio"]["path"] == "test-000.ogg", "a name, and not where it lies"
    assert first["task"] == "translate"


def test_files_beside_the_new_list_are_named_from_there(tmp_path: Path, demo_speech: Path) -> None:
    sound = tmp_path / "clips" / "a.ogg"
    sound.parent.mkdir()
    sound.write_bytes((demo_speech / "audio" / "test-000.ogg").read_bytes())
    (tmp_path / "list.csv").write_text("path,text\nclips/a.ogg,hello\n", encoding="utf-8")
    manifest = read_manifest(tmp_path / "list.csv")
    (line,) = list_lines(manifest.examples, {}, tmp_path)
    assert json.loads(line)["audio"] == {"path": "clips/a.ogg"}


def saved_rows(listed: Path, place: Path, corrected: dict[int, str]) -> list[dict[str, Any]]:
    """The rows of the new list of `listed`, in which the clips of these lines say something else."""
    manifest = read_manifest(listed)
    corrections = {
        clip_of(clip): corrected[clip.line] for clip in manifest.examples if clip.line in corrected
    }
    save_list(manifest, corrections, place)
    return [json.loads(line) for line in place.read_text("utf-8").splitlines()]


@pytest.fixture
def sound(tmp_path: Path, demo_speech: Path) -> str:
    """A sound beside the lists in `tmp_path`, as they name it."""
    (tmp_path / "clips").mkdir()
    shutil.copy(demo_speech / "audio" / "test-000.ogg", tmp_path / "clips" / "a.ogg")
    return "clips/a.ogg"


def test_a_list_of_json_keeps_its_columns_and_values_but_the_text_that_was_corrected(
    tmp_path: Path, sound: str
) -> None:
    rows = [
        {"id": 1, "audio": sound, "text": " turn on ", "lang": "en", "Accent": ["Scots"], "votes": None},
        {
            "id": 2,
            "audio_filepath": f"./{sound}",
            "Transcription": "good night",
            "offset": 0.1,
            "duration": 0.5,
        },
        {
            "audio": {"path": sound, "start_time": 0, "rate": 8000},
            "raw_text": "on",
            "text": "",
            "note": "\ud800",
        },
        {"audio": sound, "sentence": NO_SPEECH, "speaker_id": 7},
    ]
    whole = "".join(json.dumps(row) + "\n" for row in rows)
    lists = {"list.jsonl": whole, "list.json": json.dumps(rows), "metadata.jsonl": whole}
    for name, text in lists.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        place = free_place(str(tmp_path / name), tmp_path)
        assert saved_rows(tmp_path / name, place, {2: "good light", 3: "off", 4: "hello"}) == [
            rows[0],
            {**rows[1], "Transcription": "good light"},
            {**rows[2], "raw_text": "off"},
            {**rows[3], "sentence": "hello"},
        ]
        texts = [example.text for example in read_manifest(place).examples]
        assert texts == ["turn on", "good light", "off", "hello"]
        place.unlink()
    first = saved_rows(tmp_path / "list.jsonl", tmp_path / "nobody.jsonl", {1: ""})[0]
    assert first == {**rows[0], "text": NO_SPEECH}


def test_what_another_folder_names_from_itself_is_named_so_that_it_is_found_from_the_new_one(
    tmp_path: Path, sound: str
) -> None:
    rows = [
        {"audio": sound, "text": "turn on"},
        {"audio_path": str(tmp_path / sound), "text": "a"},
        {"audio": {"path": sound, "end_time": 0.4}, "text": "b"},
    ]
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    whole = str(tmp_path / sound)
    there = saved_rows(listed, tmp_path / "elsewhere" / "new.jsonl", {1: "turn off"})
    assert there == [
        {"audio": whole, "text": "turn off"},
        rows[1],
        {"audio": {"path": whole, "end_time": 0.4}, "text": "b"},
    ]
    within = saved_rows(listed, tmp_path / "clips" / "new.jsonl", {1: "turn off"})
    assert [within[0]["audio"], within[2]["audio"]["path"]] == ["a.ogg"] * 2


def test_a_table_keeps_its_columns_in_lines_of_json(tmp_path: Path, sound: str) -> None:
    tables = {
        "list.csv": f"id,path,sentence,Accent,up_votes\nc1,{sound},turn on,Scots,\nc2,gone.ogg,x,,\n"
        f"c3,{sound},good night,,2\n",
        "list.tsv": f"id\tpath\tsentence\tAccent\tup_votes\nc1\t{sound}\tturn on\tScots\t\n\n"
        f"c3\t{sound}\tgood night\t\t2\n",
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert saved_rows(tmp_path / name, tmp_path / f"new-{name}.jsonl", {2: "turn off"}) == [
            {"id": "c1", "path": sound, "sentence": "turn off", "Accent": "Scots", "up_votes": ""},
            {"id": "c3", "path": sound, "sentence": "good night", "Accent": "", "up_votes": "2"},
        ]


def test_tables_of_corpora_keep_their_columns_and_name_the_sounds_that_they_mean(
    tmp_path: Path, sound: str
) -> None:
    common_voice, voxpopuli = tmp_path / "test.tsv", tmp_path / "clips" / "asr_test.tsv"
    common_voice.write_text("client_id\tpath\tsentence\tlocale\nada\ta.ogg\tturn on\ten\n", "utf-8")
    voxpopuli.write_text("id\traw_text\tnormalized_text\na\tTurn on.\tturn on\n", "utf-8")
    assert saved_rows(common_voice, tmp_path / "new.jsonl", {2: "turn off"}) == [
        {"client_id": "ada", "path": sound, "sentence": "turn off", "locale": "en"}
    ]
    assert saved_rows(voxpopuli, tmp_path / "clips" / "new.jsonl", {2: "Turn off."}) == [
        {"id": "a", "raw_text": "Turn off.", "normalized_text": "turn on", "audio": "a.ogg"}
    ]


def test_where_a_list_has_no_columns_of_its_own_the_new_one_has_those_of_the_studio(
    tmp_path: Path, sound: str
) -> None:
    (tmp_path / "wav.scp").write_text(f"a {tmp_path / sound}\n", encoding="utf-8")
    (tmp_path / "text").write_text("a turn on\n", encoding="utf-8")
    (row,) = saved_rows(tmp_path, tmp_path / "new.jsonl", {1: "turn off"})
    assert (row["audio"], row["sentence"]) == ({"path": sound}, "turn off")


def test_times_and_texts_before_follow_the_corrected_text_in_their_own_columns(
    tmp_path: Path, sound: str
) -> None:
    """The times of sentences that nobody has said are emptied: they would be learned from."""
    parts = [{"start": 0.0, "end": 0.2, "text": "turn"}, {"start": 0.2, "end": 0.5, "text": "on"}]
    rows = [
        {"audio": sound, "text": "turn on", "segments": parts},
        {"audio": sound, "text": "the light", "prompt": "turn on", "segments": parts},
        {"audio": sound, "text": "now", "prompt": "something else"},
        {"audio": sound, "sentences": parts},
    ]
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert saved_rows(listed, tmp_path / "new.jsonl", {1: "turn off", 4: "good night"}) == [
        {"audio": sound, "text": "turn off", "segments": None},
        {**rows[1], "prompt": "turn off"},
        rows[2],
        {"audio": sound, "sentences": None, "sentence": "good night"},
    ]
    new = read_manifest(tmp_path / "new.jsonl").examples
    assert [(clip.text, len(clip.segments)) for clip in new] == [
        *(("turn off", 0), ("the light", 2), ("now", 0), ("good night", 0))
    ]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_list_is_not_there_before_it_is_whole_and_replaces_none_that_came_meanwhile(
    manifest: Manifest, tmp_path: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "new" / "list.jsonl"
    put, seen = Path.hardlink_to, list[str]()

    def at_the_end(path: Path, aside: Path) -> None:
        seen.append(aside.read_text(encoding="utf-8"))
        if not has_links:
            raise OSError(errno.EPERM, "no links here")
        assert not new.exists()
        new.write_text("another's", encoding="utf-8")
        put(path, aside)

    monkeypatch.setattr(Path, "hardlink_to", at_the_end)
    if has_links:
        with pytest.raises(ConfigError, match="is there already"):
            save_list(manifest, {}, new)
    else:
        save_list(manifest, {}, new)
    assert new.read_text(encoding="utf-8") == ("another's" if has_links else seen[0])
    assert seen[0].count("\n") == len(manifest.examples) and [new] == list(new.parent.iterdir())


def test_nothing_is_written_over_and_nothing_into_another_list(manifest: Manifest, tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("mine", encoding="utf-8")
    correction = {clip_of(manifest.examples[0]): "turn off"}
    with pytest.raises(ConfigError, match=r"there\.jsonl is there already: name a new file"):
        save_list(manifest, correction, there)
    assert there.read_text(encoding="utf-8") == "mine"
    other = {("elsewhere.wav", 1, None, "turn on"): "turn off"}
    with pytest.raises(DataError, match=r"Line 1 of .* is another clip by now"):
        save_list(manifest, other, tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()


def test_a_list_that_has_no_place_of_its_own_gets_one_among_the_data_sets(tmp_path: Path) -> None:
    datasets = tmp_path / "datasets"
    assert free_place("demo:test", datasets) == datasets / "demo-test-corrected" / "metadata.jsonl"
    (datasets / "demo-test-corrected").mkdir(parents=True)
    (datasets / "demo-test-corrected" / "metadata.jsonl").touch()
    assert free_place("demo:test", datasets).parent.name == "demo-test-corrected-2"
    assert free_place("../../up:x", datasets).is_relative_to(datasets)
    assert ".." not in free_place("../../up:x", datasets).parts
    folder = tmp_path / "clips"
    folder.mkdir()
    assert free_place(f"{folder}::test", datasets) == tmp_path / "clips-test-corrected.jsonl"


def test_what_is_corrected_and_not_saved_outlives_the_studio(manifest: Manifest, tmp_path: Path) -> None:
    first, second, _ = map(clip_of, manifest.examples)
    kept = KeptCorrections(tmp_path / "kept", manifest.source)
    assert kept.read() == {}
    kept.put(first, "turn of")
    kept.put(second, "the lights")
    kept.put(first, "turn off")
    kept.put(second, None)
    (file,) = (tmp_path / "kept").iterdir()
    file.write_text(
        file.read_text("utf-8") + '{"clip": [1]}\n{"clip": 7, "text": 1}\n{"clip": ["torn', "utf-8"
    )
    again = KeptCorrections(tmp_path / "kept", manifest.source)
    assert again.read() == {first: "turn off"}
    assert KeptCorrections(tmp_path / "kept", "demo:test").read() == {}
    again.forget()
    assert again.read() == {}


def test_the_same_texts_are_compared_with_corrected_references() -> None:
    found = evaluation(SAID, A, B)
    corrections = {clip_of(found.utterances[0]): "turn the night", clip_of(found.utterances[6]): "thank you"}
    lines = {clip_of(row): row.line + 10 for row in found.utterances}
    after = with_references(found, corrections, "new", lines)
    assert [row.reference for row in after.utterances[::2]] == [
        "turn the night",
        *SAID[1:3],
        "thank you",
        SAID[4],
    ]
    assert [row.hypothesis for row in after.utterances] == [row.hypothesis for row in found.utterances]
    assert after.source == "new" and after.utterances[0].line == 11
    fresh = with_references(evaluation([row.reference for row in after.utterances[::2]], A, B), {}, "new")
    assert after.models == fresh.models and after.normalizers == fresh.normalizers
    assert after.utterances[1].wer == 0.0 < after.utterances[0].wer
    assert isinstance(after, Evaluation) and {row.b for row in after.comparisons} == {"b"}


def test_a_reference_is_a_line_of_text_in_any_script() -> None:
    assert checked_reference(" שלום\n עולם ", 1) == "שלום עולם"
    assert checked_reference("می‌خواهم", 1) == "می‌خواهم"
    assert checked_reference(NO_SPEECH, 1) == ""
    for wrong in ("", " \n", "a\x00b", "a\x1bb", "a\ud800", "x" * 10_001):
        with pytest.raises(DataError, match="line 7"):
            checked_reference(wrong, 7)


def test_an_example_of_an_evaluation_is_the_clip_that_was_heard() -> None:
    found = evaluation(SAID, A, B)
    clips: tuple[Example, ...] = tuple(evaluated_clips(found).examples)
    assert [clip_of(clip) for clip in clips] == [clip_of(row) for row in found.utterances[::2]]
    assert clips[1].speaker == "Q" and clips[1].duration_seconds == 2.0
