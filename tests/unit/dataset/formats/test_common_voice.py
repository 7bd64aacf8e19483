from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, said

COLUMNS = "client_id path sentence up_votes down_votes age gender accents variant locale segment"
HEADER = COLUMNS.replace(" ", "\t") + "\n"


@pytest.fixture
def release(tmp_path: Path, sound: Sound) -> Path:
    """A folder of one language, as it is downloaded: lists a part, and the clips beside them."""
    parts = {"train": "train.mp3", "dev": "dev", "test": "test.mp3", "validated": "train.mp3"}
    for part, path in parts.items():
        sound(f"clips/{part}.mp3")
        row = f'abc\t{path}\tIs "{part}" said?\t2\t0\t\t\t\t\tzh-TW\t\n'
        (tmp_path / f"{part}.tsv").write_text(HEADER + row, encoding="utf-8")
    return tmp_path


def test_a_part_is_read_with_the_clips_beside_it(release: Path) -> None:
    manifest = read_manifest(release / "train.tsv")
    assert manifest.problems == () and manifest.format == "common_voice"
    assert said(manifest) == [("train.mp3", 'Is "train" said?')]
    (example,) = manifest.examples
    assert (example.language, example.speaker) == ("zh-TW", "abc")
    assert example.audio_path == release / "clips" / "train.mp3"


def test_a_path_without_its_ending_is_an_mp3(release: Path) -> None:
    assert said(read_manifest(release / "dev.tsv")) == [("dev.mp3", 'Is "dev" said?')]


def test_a_folder_gives_the_part_of_the_split(release: Path) -> None:
    for split, part in (("train", "train"), ("test", "test"), ("validation", "dev"), ("dev", "dev")):
        assert said(read_manifest(release, split=split)) == [(f"{part}.mp3", f'Is "{part}" said?')]


def test_a_folder_that_was_not_divided_gives_what_was_validated(release: Path) -> None:
    (release / "train.tsv").unlink()
    assert said(read_manifest(release)) == [("train.mp3", 'Is "validated" said?')]


def test_a_sentence_in_quotation_marks_keeps_them_unless_they_are_those_of_a_table(release: Path) -> None:
    told = ('"Yes."', '"""Yes,"" he said."')
    rows = "".join(f"abc\ttrain.mp3\t{text}\t2\t0\t\t\t\t\ten\t\n" for text in told)
    (release / "train.tsv").write_text(HEADER + rows, encoding="utf-8")
    texts = [text for _, text in said(read_manifest(release / "train.tsv"))]
    assert texts == ['"Yes."', '"Yes," he said.']


def test_the_column_segment_is_no_slip_of_the_pen_but_another_one_is(release: Path) -> None:
    text = (release / "train.tsv").read_text("utf-8")
    (release / "train.tsv").write_text(text.replace("\tsegment\n", "\tsegmenst\n"), encoding="utf-8")
    with pytest.raises(ManifestError, match="'segmenst' looks like a misspelt 'segments'"):
        read_manifest(release / "train.tsv")
