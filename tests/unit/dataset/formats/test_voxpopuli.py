import json
from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

COLUMNS = (
    "id",
    "raw_text",
    "normalized_text",
    "speaker_id",
    "split",
    "gender",
    "is_gold_transcript",
    "accent",
)
ROWS = (
    ("20180702-0900-PLENARY-1-en", "Twelve: 12.", "twelve", "1", "train", "male", "True", "None"),
    ("20090112-2000-PLENARY-2-en", "", "only this", "None", "train", "", "False", "None"),
    ("20090112-2000-PLENARY-3-en", "lost", "lost", "2", "train", "", "False", "None"),
)
READ = [("20180702-0900-PLENARY-1-en.ogg", "Twelve: 12."), ("20090112-2000-PLENARY-2-en.wav", "only this")]


@pytest.fixture
def corpus(tmp_path: Path, sound: Sound) -> Path:
    """A folder of one language: tables a part, sounds beside them and in a folder of their year."""
    sound("20180702-0900-PLENARY-1-en.ogg")
    sound("2009/20090112-2000-PLENARY-2-en.wav")
    for part in ("train", "dev", "test"):
        lines = ["\t".join(fields) for fields in (COLUMNS, *ROWS)]
        (tmp_path / f"asr_{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["asr_train.tsv", ""])
def test_a_sound_is_found_by_its_id(corpus: Path, name: str) -> None:
    manifest = read_manifest(corpus / name)
    assert said(manifest) == READ
    assert [example.speaker for example in manifest.examples] == ["1", None]
    (missing,) = reasons(manifest)
    assert missing[0] == 4 and missing[1].startswith("There is no audio file 20090112-2000-PLENARY-3-en.ogg")


def test_an_id_that_no_file_can_have_is_one_bad_row(corpus: Path) -> None:
    with (corpus / "asr_train.tsv").open("a") as table:
        table.write("\t".join(("a" * 300, *ROWS[0][1:])))
    manifest = read_manifest(corpus / "asr_train.tsv")
    assert said(manifest) == READ and [line for line, _ in reasons(manifest)] == [4, 5]


def test_each_split_has_its_table(corpus: Path) -> None:
    for split in ("test", "validation"):
        assert said(read_manifest(f"{corpus}::{split}")) == READ


@pytest.mark.parametrize("language", [0, "0", -1])
def test_rows_of_the_hub_as_json_lines_have_a_number_for_their_language(
    corpus: Path, language: str | int
) -> None:
    rows = [
        {"audio_id": row[0], "language": language, **dict(zip(COLUMNS[1:], row[1:], strict=True))}
        for row in ROWS
    ]
    (corpus / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    manifest = read_manifest(corpus / "rows.jsonl")
    assert said(manifest) == READ
    assert [example.language for example in manifest.examples] == [None, None]


def test_a_name_leads_nowhere_else(corpus: Path, sound: Sound) -> None:
    sound("elsewhere/x.wav")
    (corpus / "inner").mkdir()
    (corpus / "inner/list.tsv").write_text(
        "id\traw_text\n../elsewhere/x\tno\n20180702-0900-PLENARY-1-en\tno\n"
    )
    with pytest.raises(Exception, match=r"There is no audio file \.\./elsewhere/x\.ogg"):
        read_manifest(corpus / "inner/list.tsv")


def test_a_list_that_names_its_files_is_read_as_it_says(tmp_path: Path, sound: Sound) -> None:
    for name in ("a.wav", "b.wav"):
        sound(name)
    table = "audio,raw_text,normalized_text,speaker_id\na.wav,Twelve: 12.,twelve,1\nb.wav,,only this,2\n"
    (tmp_path / "list.csv").write_text(table)
    assert said(read_manifest(tmp_path / "list.csv")) == [("a.wav", "Twelve: 12."), ("b.wav", "only this")]


@pytest.mark.parametrize("first", ["NaN", "-1", "true", "null", '"text"'])
def test_a_list_that_begins_with_a_value_alone_is_refused_in_a_sentence(tmp_path: Path, first: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(first + "\n", encoding="utf-8")
    with pytest.raises(ManifestError):
        read_manifest(path)


def test_the_sounds_of_the_hub_lie_in_folders_of_their_archives(tmp_path: Path, sound: Sound) -> None:
    for number in (0, 1):
        sound(f"train/train_part_{number}/{number}-en.wav")
    (tmp_path / "asr_train.tsv").write_text("id\traw_text\n0-en\tone\n1-en\ttwo\n", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("0-en.wav", "one"), ("1-en.wav", "two")]
