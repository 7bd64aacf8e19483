from collections.abc import Callable
from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

SAID = ["hello there", "two", "你好"]
READ = [(f"clip{number}.wav", text) for number, text in enumerate(SAID)]
Write = Callable[..., Path]


@pytest.fixture
def write(sound: Sound, tmp_path: Path) -> Write:
    """Writes a list of three sounds, each line with a name of the sound and behind it a text."""
    for number, _ in enumerate(SAID):
        sound(f"wavs/a/clip{number}.wav")

    def listed(name: str, line: str, texts: list[str] = SAID) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(line.format(*one) for one in enumerate(texts)) + "\n", encoding="utf-8")
        return path

    return listed


@pytest.mark.parametrize(
    "line", ["{}\t{}", "{}|{}", "{},{}", '{},"{}"', "{} {}"], ids=["tab", "bar", "comma", "quotes", "space"]
)
@pytest.mark.parametrize("name", ["clip", "a/clip"])
def test_a_list_names_its_sounds_without_folder_and_ending(write: Write, name: str, line: str) -> None:
    path = write("list.txt", f"{name}{line}")
    assert said(read_manifest(path)) == said(read_manifest(path.parent)) == READ


def test_between_a_file_and_its_text_may_be_a_space(write: Write) -> None:
    assert said(read_manifest(write("list.txt", "wavs/a/clip{}.wav {}"))) == READ


def test_a_split_has_its_own_list_and_the_folder_no_other(write: Write) -> None:
    test, train = write("test.txt", "clip{}\t{}", SAID[:1]), write("train.txt", "clip{}\t{}", SAID[:2])
    folder = train.parent
    assert said(read_manifest(folder)) == READ[:2]
    assert said(read_manifest(folder, split="test")) == said(read_manifest(f"{folder}::test")) == READ[:1]
    train.rename(folder / "other.txt")
    with pytest.raises(ManifestError, match="or a text file beside each"):
        read_manifest(folder)
    test.unlink()
    assert said(read_manifest(folder)) == READ[:2]
    with pytest.raises(ManifestError, match="has no split 'test'"):
        read_manifest(f"{folder}::test")


@pytest.mark.parametrize("texts", [["ann", "ann", "bob"], ["1.0", "2.5", "3.1"]])
def test_speakers_and_lengths_that_nobody_named_are_no_texts(write: Write, texts: list[str]) -> None:
    with pytest.raises(ManifestError, match="or a text file beside each"):
        read_manifest(write("list.txt", "clip{} {}", texts).parent)


def test_a_line_of_a_sound_that_is_missing_or_there_twice_is_named(write: Write, sound: Sound) -> None:
    sound("wavs/b/clip1.wav")
    read = read_manifest(write("list.tsv", "clip{}\t{}", [*SAID, "nobody"]))
    assert said(read) == [READ[0], READ[2]]
    assert [(line, reason.partition(" (")[0]) for line, reason in reasons(read)] == [
        (2, "There is no audio file clip1"),
        (4, "There is no audio file clip3"),
    ]


def test_a_line_with_more_than_a_text_is_named_and_a_table_of_three_columns_needs_its_header(
    write: Write,
) -> None:
    read = read_manifest(write("list.csv", "clip{},{}", ["hello there", "you, too"]))
    assert said(read) == READ[:1]
    assert reasons(read)[0][1].startswith("The line has 3 fields")
    with pytest.raises(ManifestError, match="There is no column for the audio"):
        read_manifest(write("list.csv", "clip{},ann,{}"))


def test_a_list_of_the_split_that_cannot_be_read_is_named_and_what_is_none_passed_over(write: Write) -> None:
    path = write("train.txt", "clip{}\t{}")
    path.write_bytes("clip2 你好\n".encode("gb18030"))
    with pytest.raises(ManifestError, match=r"train\.txt is not UTF-8 text"):
        read_manifest(path.parent)
    path.write_text("")
    with pytest.raises(ManifestError, match=r"train\.txt is empty"):
        read_manifest(path.parent)
    path.write_text("of what the recordings are\n../clip0 hello there\n")
    with pytest.raises(ManifestError, match="or a text file beside each"):
        read_manifest(path.parent)
    write("list.txt", "clip{}\t{}")
    assert said(read_manifest(path.parent)) == READ
