from dataclasses import replace
from pathlib import Path

import pytest

from studio.dataset import manifest
from studio.errors import ManifestError
from studio.settings import Settings
from tests.reading import read_manifest

from .conftest import Sound, reasons, said


def test_each_sound_has_the_text_beside_it(sound: Sound, tmp_path: Path) -> None:
    for name, text in (("b.wav", "one\n two "), ("sub/a.flac", "三"), ("c.wav", ""), ("d.wav", "")):
        sound(name).with_suffix(".txt").write_text(text, encoding="utf-8")
    (tmp_path / "c.txt").unlink()
    (tmp_path / "c.normalized.txt").write_text("normal", encoding="utf-8")
    (tmp_path / "d.txt").write_bytes(b"\xff\xfe1")
    sound("e.wav")
    (tmp_path / "README.txt").write_text("no text of a sound", encoding="utf-8")
    read = read_manifest(tmp_path)
    assert said(read) == [("b.wav", "one two"), ("c.wav", "normal"), ("a.flac", "三")]
    assert read.format == "text_files"
    assert reasons(read) == [
        (3, "d.txt is not UTF-8 text: save it again in UTF-8."),
        (4, "The row has no text."),
    ]
    assert said(read_manifest(tmp_path, max_rows=1)) == [("b.wav", "one two")]
    for text in ("b.txt", "c.normalized.txt"):
        with pytest.raises(
            ManifestError, match=f"{text} belongs to the recordings beside it: name its folder"
        ):
            read_manifest(tmp_path / text)
    with pytest.raises(ManifestError, match="no column for the audio"):
        read_manifest(tmp_path / "README.txt")


def test_librispeech_is_read_with_its_speakers_and_a_split_from_its_own_folder(
    sound: Sound, tmp_path: Path
) -> None:
    for name in ("train/84/121123/84-121123-0000", "train/84/121123/84-121123-0001", "test/6/7/6-7-0000"):
        chapter = sound(f"{name}.flac").name.rpartition("-")[0]
        with (tmp_path / name).with_name(f"{chapter}.trans.txt").open("a", encoding="utf-8") as file:
            file.write(f"{Path(name).name} GO {name[-1]}\n\n")
    train = read_manifest(tmp_path, split="train")
    assert said(train) == [("84-121123-0000.flac", "GO 0"), ("84-121123-0001.flac", "GO 1")]
    assert {example.speaker for example in train.examples} == {"84"}
    for test in (read_manifest(tmp_path, split="test"), read_manifest(f"{tmp_path}::test")):
        assert said(test) == [("6-7-0000.flac", "GO 0")]
    with pytest.raises(
        ManifestError, match=r"84-121123\.trans\.txt belongs to the recordings beside it: name its"
    ):
        read_manifest(tmp_path / "train/84/121123/84-121123.trans.txt")


@pytest.mark.parametrize("ending", [".txt", ".lab", ".normalized.txt", ".trn", ".wav.trn"])
def test_each_ending_of_a_text_is_enough_alone(sound: Sound, tmp_path: Path, ending: str) -> None:
    sound("a.wav").with_name(f"a{ending}").write_text("one\n", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("a.wav", "one")]


def test_a_text_may_be_called_as_its_sound_with_the_ending(sound: Sound, tmp_path: Path) -> None:
    for name in ("a.wav", "b.flac"):
        sound(name).with_name(f"{name}.txt").write_text(f"text of {name}", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("a.wav", "text of a.wav"), ("b.flac", "text of b.flac")]
    with pytest.raises(ManifestError, match=r"a\.wav\.txt belongs to the recordings beside it"):
        read_manifest(tmp_path / "a.wav.txt")


def test_thchs_is_read_from_all_of_it_from_a_part_and_loose(
    sound: Sound, tmp_path: Path, settings: Settings
) -> None:
    corpus = tmp_path / "data_thchs30"
    for name, text in (("A11_0", "绿 是 阳春\nlv4 shi4 yang2 chun1\n"), ("my clip", "good  morning\n")):
        for folder in ("data", "train"):
            sound(f"data_thchs30/{folder}/{name}.wav")
        (corpus / f"data/{name}.wav.trn").write_text(text, encoding="utf-8")
        (corpus / f"train/{name}.wav.trn").write_text(f"../data/{name}.wav.trn\n", encoding="utf-8")
    wanted = [("A11_0.wav", "绿是阳春"), ("my clip.wav", "good morning")]
    for source in (corpus, corpus / "train", corpus / "data"):
        read = read_manifest(source)
        assert said(read) == wanted
        assert [(each.speaker, each.language) for each in read.examples] == [("A11", "zh"), (None, None)]
    with pytest.raises(ManifestError, match=r"A11_0\.wav\.trn names \.\./data/A11_0\.wav\.trn, which is not"):
        manifest.read_manifest(corpus / "train", replace(settings, on_spaces=True))
    (corpus / "data/my clip.wav.trn").unlink()
    assert reasons(read_manifest(corpus / "train")) == [
        (2, "my clip.wav.trn names ../data/my clip.wav.trn, which is not there.")
    ]
    with pytest.raises(ManifestError, match=r"A11_0\.wav\.trn belongs to the recordings beside it"):
        read_manifest(corpus / "data/A11_0.wav.trn")


def test_aishell_is_read_as_it_lies_from_the_folder_of_a_part(
    sound: Sound, tmp_path: Path, settings: Settings
) -> None:
    for part, speaker, number in (("train", "S0002", 122), ("train", "S0003", 1), ("test", "S0764", 121)):
        sound(f"wav/{part}/{speaker}/BAC009{speaker}W{number:04d}.wav")
    transcript = tmp_path / "transcript" / "aishell_transcript_v0.8.txt"
    transcript.parent.mkdir()
    lines = ("BAC009S0002W0122 而 对 楼市", "BAC009S0764W0121 甚至 出现", "BAC009S0916W0495 不 在 这里")
    transcript.write_text("\n".join(lines), encoding="utf-8")
    train = read_manifest(tmp_path / "wav" / "train")
    assert said(train) == [("BAC009S0002W0122.wav", "而对楼市")]
    assert (train.examples[0].speaker, train.examples[0].language) == ("S0002", "zh")
    assert reasons(train) == [(2, "The row has no text.")]
    assert said(read_manifest(tmp_path / "wav", split="test")) == [("BAC009S0764W0121.wav", "甚至出现")]
    assert len(said(read_manifest(tmp_path))) == 2
    with pytest.raises(ManifestError, match="texts of AISHELL-1: name the folder of the recordings"):
        read_manifest(transcript)
    space = replace(settings, on_spaces=True)
    assert len(said(manifest.read_manifest(tmp_path, space))) == 2
    with pytest.raises(ManifestError, match="or a text file beside each"):
        manifest.read_manifest(tmp_path / "wav" / "train", space)


def test_sounds_without_a_text_are_no_data_to_train_with(sound: Sound, tmp_path: Path) -> None:
    sound("a.wav")
    with pytest.raises(ManifestError, match="or a text file beside each"):
        read_manifest(tmp_path)
    assert said(read_manifest(tmp_path, needs_text=False)) == [("a.wav", "")]


def test_on_a_space_no_link_leads_to_a_text_elsewhere(
    sound: Sound, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (sound("in/a.wav").with_suffix(".txt")).symlink_to(tmp_path / "secret.txt")
    (sound("in/b.wav").with_suffix(".txt")).write_text("said", encoding="utf-8")
    assert said(read_manifest(tmp_path / "in")) == [("a.wav", "secret"), ("b.wav", "said")]
    space = manifest.read_manifest(tmp_path / "in", replace(settings, on_spaces=True))
    assert said(space) == [("b.wav", "said")]
