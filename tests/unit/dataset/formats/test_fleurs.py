import json
from pathlib import Path

import pytest

from tests.reading import read_manifest

from .conftest import Sound, reasons, said

LINES = (
    '7\t1.wav\tHe said: "Go."\the said go\th e |\t16000\tMALE\n'
    "\n7\t2.wav\t\tnobody knows\tn |\t16000\tFEMALE\n"
    "8\t3.wav\tshort\n9\tgone.wav\tA\ta\ta |\t16000\tFEMALE\n"
)


@pytest.mark.parametrize("part", ["train", "dev"])
@pytest.mark.parametrize("place", ["", "{part}/", "audio/{part}/", "audio/"])
def test_the_folder_and_its_list_are_read_wherever_the_sounds_are(
    tmp_path: Path, sound: Sound, place: str, part: str
) -> None:
    for number in (1, 2):
        sound(f"{place.format(part=part)}{number}.wav")
    (tmp_path / f"{part}.tsv").write_text(LINES, encoding="utf-8")
    split = "train" if part == "train" else "validation"
    for manifest in (read_manifest(tmp_path, split=split), read_manifest(tmp_path / f"{part}.tsv")):
        assert said(manifest) == [("1.wav", 'He said: "Go."'), ("2.wav", "nobody knows")]
        (fields, gone) = reasons(manifest)
        assert fields == (
            4,
            "The line has 3 fields between tabs, where the 7 of FLEURS are needed.",
        )
        assert gone[0] == 5 and "There is no audio file gone.wav" in gone[1]


def test_the_plain_text_is_read_if_it_is_asked_for(tmp_path: Path, sound: Sound) -> None:
    sound("1.wav")
    (tmp_path / "test.tsv").write_text(LINES, encoding="utf-8")
    manifest = read_manifest(tmp_path / "test.tsv", text_column="transcription")
    assert manifest.format == "fleurs" and said(manifest) == [("1.wav", "he said go")]


def test_a_header_makes_it_an_ordinary_list(tmp_path: Path, sound: Sound) -> None:
    sound("1.wav")
    header = "id\tpath\ttext\ttranscription\tletters\tsamples\tgender\n"
    (tmp_path / "list.tsv").write_text(header + LINES.splitlines()[0], encoding="utf-8")
    assert said(read_manifest(tmp_path / "list.tsv")) == [("1.wav", 'He said: "Go."')]


def test_the_texts_with_marks_count_in_what_the_hub_has_as_well(tmp_path: Path, sound: Sound) -> None:
    sound("a.wav")
    row = {
        "audio": "a.wav",
        "transcription": "guten tag",
        "raw_transcription": "Guten Tag!",
        "language": "German",
    }
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert read_manifest(tmp_path).examples[0].text == "Guten Tag!"
    assert read_manifest(tmp_path, text_column="transcription").examples[0].text == "guten tag"
