from dataclasses import replace
from pathlib import Path

import pytest

from studio.dataset import manifest
from studio.errors import ManifestError
from studio.settings import Settings
from tests.reading import read_manifest

from .conftest import Sound, reasons, said


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


def test_aishell_is_read_as_it_lies_from_the_folder_of_a_part(
    sound: Sound, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.chdir(tmp_path)
    assert said(read_manifest("wav/train")) == said(train)
    with pytest.raises(ManifestError, match="texts of AISHELL-1: name the folder of the recordings"):
        read_manifest(transcript)
    space = replace(settings, on_spaces=True)
    assert len(said(manifest.read_manifest(tmp_path, space))) == 2
    with pytest.raises(ManifestError, match="or a text file beside each"):
        manifest.read_manifest(tmp_path / "wav" / "train", space)


@pytest.mark.parametrize(
    ("listed_in", "lines", "sounds"),
    [
        pytest.param(
            "transcripts.txt", "1_2_000000\tone\n1_2_000001\ttwo", ["audio/1/2/1_2_00000{}.flac"], id="MLS"
        ),
        pytest.param("transcript_utf8.txt", "B_0:one\nB_1:two", ["wav/B_{}.wav"], id="JSUT"),
        pytest.param("etc/PROMPTS", "ann/mfc/a0 one\nann/mfc/a1 two", ["wav/a{}.wav"], id="VoxForge"),
        pytest.param("etc/txt.done.data", '( a_0 "one" )\n( a_1 "two" )', ["wav/a_{}.wav"], id="Festival"),
        pytest.param("line_index.tsv", "jvf_0\tone\njvf_1\ttwo", ["wavs/jvf_{}.wav"], id="OpenSLR"),
        pytest.param(
            "utt_spk_text.tsv", "000\ts0\tone\n001\ts1\ttwo", ["data/00/00{}.flac"], id="OpenSLR, ASR"
        ),
        pytest.param("text", "S1_0 one\nS1_1 two\n\nS1_2", ["S1/S1_{}.wav"], id="Kaldi's texts"),
    ],
)
def test_one_file_has_the_texts_of_many_sounds(
    sound: Sound,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed_in: str,
    lines: str,
    sounds: list[str],
) -> None:
    names = [sound(name.format(number)).name for name in sounds for number in (0, 1)]
    (tmp_path / listed_in).parent.mkdir(exist_ok=True)
    (tmp_path / listed_in).write_text(lines, encoding="utf-8")
    assert said(read_manifest(tmp_path)) == list(zip(names, ("one", "two"), strict=True))
    for place, named in ((tmp_path, "."), (tmp_path.parent, tmp_path.name)):
        monkeypatch.chdir(place)
        assert said(read_manifest(named)) == said(read_manifest(tmp_path))
    with pytest.raises(ManifestError, match="belongs to the recordings beside it: name its folder"):
        read_manifest(tmp_path / listed_in)


@pytest.mark.parametrize(
    ("listed_in", "lines"),
    [
        ("transcript.txt", "b/c_0.wav|one|ONE|5.0\nb/c_1.wav|two|TWO|4.2"),
        ("transcript.v.1.4.txt", "b/c_0.wav|one|ONE|o n|3.5|x\nb/c_1.wav|two|TWO|t w|1.2|y"),
    ],
)
def test_texts_of_css10_and_kss_are_without_what_is_behind_them(
    sound: Sound, tmp_path: Path, listed_in: str, lines: str
) -> None:
    for number in (0, 1):
        sound(f"b/c_{number}.wav")
    (tmp_path / listed_in).write_text(lines, encoding="utf-8")
    for source in (tmp_path, tmp_path / listed_in):
        assert said(read_manifest(source)) == [("c_0.wav", "one"), ("c_1.wav", "two")]


def test_who_speaks_stands_in_the_names_of_mls(sound: Sound, tmp_path: Path) -> None:
    sound("audio/10/20/10_20_000000.flac")
    (tmp_path / "transcripts.txt").write_text("10_20_000000\tone\n", encoding="utf-8")
    assert read_manifest(tmp_path).examples[0].speaker == "10"


def test_who_speaks_stands_between_sound_and_text_in_magicdata(sound: Sound, tmp_path: Path) -> None:
    sound("train/38/38_0.wav")
    (tmp_path / "train/TRANS.txt").write_text(
        "UtteranceID\tSpeakerID\tTranscription\n38_0.wav\t38\t你好\n", encoding="utf-8"
    )
    read = read_manifest(tmp_path)
    assert [(each.text, each.speaker) for each in read.examples] == [("你好", "38")]


def test_the_pinyin_of_aishell_3_is_no_text(sound: Sound, tmp_path: Path) -> None:
    sound("train/wav/SSB0005/SSB00050001.wav")
    content = tmp_path / "train/content.txt"
    content.write_text("SSB00050001.wav\t广 guang3 州 zhou1 的 de5\n", encoding="utf-8")
    read = read_manifest(tmp_path)
    assert said(read) == [("SSB00050001.wav", "广州的")] and read.examples[0].speaker == "SSB0005"
    with pytest.raises(ManifestError, match="belongs to the recordings beside it: name its folder"):
        read_manifest(content)


def test_a_line_means_the_sound_that_it_tells_or_that_lies_nearest(sound: Sound, tmp_path: Path) -> None:
    for name in ("ann/wav/0.wav", "bob/wav/0.wav", "bob/wav/1.wav", "cy/1.wav", "cy/2.wav", "dee/2.wav"):
        sound(name)
    for name, lines in (
        ("ann/text", "0 ann"),
        ("bob/text", "0 bob"),
        ("text", "cy/1 cy\nbob/wav/1 one\n2 two"),
    ):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    read = read_manifest(tmp_path)
    assert [each.text for each in read.examples] == ["ann", "bob", "one", "cy"]
    assert reasons(read) == [(5, "The row has no text."), (6, "The row has no text.")], (
        "whose is 2, nobody knows"
    )


def test_of_two_texts_for_a_sound_nobody_knows_which_is_true(sound: Sound, tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        sound(name)
    (tmp_path / "text").write_text("a one\nb two\na three\n", encoding="utf-8")
    (tmp_path / "transcripts.txt").write_text("b two\na one\n", encoding="utf-8")
    read = read_manifest(tmp_path)
    assert said(read) == [("b.wav", "two")]
    assert reasons(read) == [
        (1, "a.wav has one text in text, and another in a line of it or of another list.")
    ]


def test_the_list_of_all_is_not_the_text_of_a_recording_called_as_it(sound: Sound, tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav", "text.wav"):
        sound(name)
    (tmp_path / "text.txt").write_text("a one\nb two\n", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("a.wav", "one"), ("b.wav", "two")]
    (tmp_path / "a.txt").write_text("own", encoding="utf-8")
    (tmp_path / "b.wav").unlink()
    assert said(read_manifest(tmp_path)) == [("a.wav", "own"), ("text.wav", "a one b two")]
