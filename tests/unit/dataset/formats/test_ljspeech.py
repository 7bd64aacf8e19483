from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

LINES = 'LJ-1|In 1455 he "began|fourteen\nLJ-2||twelve\nLJ-3|Two columns\nLJ-4|a|b|c\nLJ-5|gone|gone\n'


@pytest.fixture
def corpus(tmp_path: Path, sound: Sound) -> Path:
    for number in (1, 2, 3):
        sound(f"wavs/LJ-{number}.wav")
    (tmp_path / "metadata.csv").write_text(LINES, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["", "metadata.csv"])
def test_the_folder_and_its_list_are_read(corpus: Path, name: str) -> None:
    manifest = read_manifest(corpus / name)
    wanted = [("LJ-1.wav", 'In 1455 he "began'), ("LJ-2.wav", "twelve"), ("LJ-3.wav", "Two columns")]
    assert said(manifest) == wanted and manifest.format == "ljspeech"
    (fields, gone) = reasons(manifest)
    assert fields == (
        4,
        "The line has 4 fields between |, where ID|text or ID|text|normalized text is needed.",
    )
    assert gone[0] == 5 and "There is no audio file LJ-5.wav" in gone[1]


@pytest.mark.parametrize(
    "content",
    [
        'file_name|text\nwavs/LJ-1.wav|"a | b"\n',
        'text|Audio_Path\n"a | b"|wavs/LJ-1.wav\n',
        "audio_path,text,a|b\nwavs/LJ-1.wav,a | b,c\n",
        "a|b\taudio_path\ttext\nc\twavs/LJ-1.wav\ta | b\n",
        '{"audio_path": "wavs/LJ-1.wav", "text": "a | b"}\n',
        '[{"audio_path": "wavs/LJ-1.wav", "text": "a | b"}]\n',
    ],
)
def test_a_header_or_json_makes_it_an_ordinary_list(corpus: Path, content: str) -> None:
    (corpus / "list").write_text(content)
    assert said(read_manifest(corpus / "list")) == [("LJ-1.wav", "a | b")]


@pytest.mark.parametrize("named", ["LJ-1", "LJ-1.wav", "/home/ann/wavs/LJ-1.wav", r"D:\set\LJ-1.wav"])
def test_without_the_folder_wavs_it_is_such_a_list_if_its_first_sound_is_beside_it(
    tmp_path: Path, sound: Sound, named: str
) -> None:
    (tmp_path / "metadata.csv").write_text(f"{named}|one|eins\nLJ-2|two|zwei\n", encoding="utf-8")
    sound("LJ-2.wav")
    with pytest.raises(ManifestError, match=r"no column for the audio|begins with a clip"):
        read_manifest(tmp_path)
    sound("LJ-1.wav")
    manifest = read_manifest(tmp_path)
    assert manifest.format == "ljspeech" and ("LJ-2.wav", "two") in said(manifest)


def test_what_lies_outside_of_its_folder_makes_no_such_list(tmp_path: Path, sound: Sound) -> None:
    sound("LJ-1.wav")
    (tmp_path / "list").mkdir()
    for name in ("../LJ-1", "", "..", "a" * 5000):
        (tmp_path / "list/metadata.csv").write_text(f"{name}|one\n")
        with pytest.raises(ManifestError, match="no column for the audio"):
            read_manifest(tmp_path / "list")


@pytest.mark.parametrize("speaker", ["0", "ann"])
def test_what_few_say_many_texts_of_is_who_speaks(corpus: Path, speaker: str) -> None:
    lines = [f"wavs/LJ-{number}.wav|{speaker}|text {number}\n" for number in (1, 2, 3)]
    (corpus / "metadata.csv").write_text("".join(lines), encoding="utf-8")
    manifest = read_manifest(corpus)
    assert said(manifest) == [(f"LJ-{number}.wav", f"text {number}") for number in (1, 2, 3)]
    assert {example.speaker for example in manifest.examples} == {speaker}
    (corpus / "metadata.csv").write_text("LJ-1|4|one\nLJ-2|5|two\n", encoding="utf-8")
    assert said(read_manifest(corpus)) == [("LJ-1.wav", "one"), ("LJ-2.wav", "two")]
    (corpus / "metadata.csv").write_text("LJ-1||one\nLJ-2||two\nLJ-3||two\n", encoding="utf-8")
    manifest = read_manifest(corpus)
    assert [(example.text, example.speaker) for example in manifest.examples] == [
        (text, None) for text in ("one", "two", "two")
    ]


def test_a_line_may_tell_who_speaks_and_in_which_language(corpus: Path) -> None:
    lines = "wavs/LJ-1.wav|ann|JP|one\nwavs/LJ-2.wav|ann|zh|two\n"
    (corpus / "train.list").write_text(lines, encoding="utf-8")
    examples = read_manifest(corpus / "train.list").examples
    assert [(one.text, one.language, one.speaker) for one in examples] == [
        ("one", "ja", "ann"),
        ("two", "zh", "ann"),
    ]
