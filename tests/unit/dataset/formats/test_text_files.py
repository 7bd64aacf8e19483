import json
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile

from studio.dataset import manifest
from studio.errors import ManifestError
from studio.settings import Settings
from tests.reading import read_manifest
from tests.unit.dataset.conftest import sweep

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
        (3, f"{tmp_path}/d.txt is not UTF-8 text (line 1): save it again in UTF-8 (in Excel: CSV UTF-8)."),
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


def test_texts_may_lie_in_a_folder_of_their_own(sound: Sound, tmp_path: Path) -> None:
    for name in ("p225/p225_001_mic1", "p225/p225_001_mic2", "p226/p226_001_mic1"):
        sound(f"wav48_silence_trimmed/{name}.flac")
    for name in ("p225/p225_001", "p226/p226_001"):
        (tmp_path / f"txt/{name}.txt").parent.mkdir(parents=True)
        (tmp_path / f"txt/{name}.txt").write_text(f"said by {name[:4]}\n", encoding="utf-8")
    read = read_manifest(tmp_path)
    assert said(read) == [
        ("p225_001_mic1.flac", "said by p225"),
        ("p225_001_mic2.flac", "said by p225"),
        ("p226_001_mic1.flac", "said by p226"),
    ]
    assert [each.speaker for each in read.examples] == ["p225", "p225", "p226"]
    other = tmp_path / "notes/p226/p226_001.txt"
    other.parent.mkdir(parents=True)
    other.write_text("not said", encoding="utf-8")
    assert reasons(read_manifest(tmp_path)) == [(3, "The row has no text.")], (
        "which of two it is, nobody knows"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_texts_may_be_saved_as_notepad_does(sound: Sound, tmp_path: Path, encoding: str) -> None:
    text = "\ufeffgrüß dich\n" if encoding == "utf-16-be" else "grüß dich\n"
    sound("a.wav").with_suffix(".txt").write_text(text, encoding=encoding)
    assert said(read_manifest(tmp_path)) == [("a.wav", "grüß dich")]


def test_a_text_is_never_that_of_a_sound_elsewhere_that_is_called_as_a_lost_one(
    sound: Sound, tmp_path: Path
) -> None:
    for name in ("ann/wav/0.wav", "bob/wav/1.wav", "cy/7.wav", "cy/8.wav", "x/5.wav", "y/5.wav"):
        sound(name)
    for name, text in (
        ("ann/text", "0 ann"),
        ("bob/text", "0 bob\n1 one"),
        ("text", "dee/7 dee"),
        ("cy/8.txt", "eight"),
        ("dee/7.txt", "dee"),
        ("texts/5.txt", "whose?"),
        ("9.txt", "a note"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    read = read_manifest(tmp_path)
    assert said(read) == [("0.wav", "ann"), ("1.wav", "one"), ("8.wav", "eight")]
    assert reasons(read) == [(number, "The row has no text.") for number in (3, 5, 6)]


def test_capitals_and_letters_that_macos_takes_apart_are_no_other_name(sound: Sound, tmp_path: Path) -> None:
    for name in ("A.WAV", "cafe\u0301.wav", "re\u0301.wav"):
        sound(name)
    for name, text in (("A.TXT", "one"), ("caf\u00e9.txt", "two"), ("text", "r\u00e9 three")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [each.text for each in read_manifest(tmp_path).examples] == ["one", "two", "three"]


@pytest.mark.parametrize("ending", [".txt", ".lab", ".TXT"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1.5\t3.0\tone\n\n3.0\t4.0\ttwo\n", id="an empty line"),
        pytest.param("1\t3\tone two\n", id="whole seconds"),
        pytest.param("1\n00:00:01,000 --> 00:00:03,000\none two\n", id="captions"),
        pytest.param("[00:01.000 --> 00:02.000]  one\n[00:02.000 --> 00:03.500]  two\n", id="Whisper's"),
        pytest.param("[ti:x]\n[00:01.00]one\n[00:02.00]two\n[00:03.50]\n", id="LRC"),
        pytest.param("# a.sph\n\n1.00 2.50 A: [noise] ((one))\n\n2.5 3.00 B: {breath} %two\n", id="LDC"),
        pytest.param(
            "[0.0,1.0]\t0\tx\t[SONANT]\n[1.0,2.32]\tG1\tmale,henan\tone\n[2.5,3.0]\tG2\ty\ttwo[*]\n",
            id="MagicHub",
        ),
    ],
)
def test_times_are_no_words(sound: Sound, tmp_path: Path, ending: str, text: str) -> None:
    (sound("a.wav", 5).with_suffix(ending)).write_text(text, encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("a.wav", "one two")]


@pytest.mark.parametrize(
    "text", ["#\n0.14 125 pau\n0.2 125 ao\n", "0 46797 sil\n46797 50000 m\n", "0.0 0.1 a\n0.1 2 b"]
)
def test_the_times_of_single_sounds_are_no_text(sound: Sound, tmp_path: Path, text: str) -> None:
    (sound("wav/a_1.wav", 5).with_suffix(".lab")).write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match=r"a_1\.lab has the times of single sounds or words, and no text"):
        read_manifest(tmp_path)
    (tmp_path / "txt.done.data").write_text('( a_1 "Say \\"hi\\" now." )\n', encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("a_1.wav", 'Say "hi" now.')]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("X01_S0041\t\u4f60 \u597d\u3002\n\t[[0, 120], [130, 240]]\n", "\u4f60\u597d\u3002"),
        ("X01_S0041 good morning\n", "good morning"),
        ("good morning (X01_S0041)\n", "good morning"),
        ("Text:  GOOD MORNING\nConf:  2\n\nWORD START END ASDSCORE\nGOOD 0.0 0.2 3.1\n", "GOOD MORNING"),
        ("X01_S00412 is its name", "X01_S00412 is its name"),
        ("1 2 3\n4 5 6\n", "1 2 3 4 5 6"),
        ("X01_S0041", "X01_S0041"),
    ],
)
def test_the_name_of_a_sound_and_what_is_known_of_its_words_is_no_text(
    sound: Sound, tmp_path: Path, text: str, spoken: str
) -> None:
    for name in ("X01_S0041", "yes"):
        sound(f"wavs/{name}.wav")
        (tmp_path / f"txts/{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"txts/{name}.txt").write_text(text if name != "yes" else "yes it is", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("X01_S0041.wav", spoken), ("yes.wav", "yes it is")]


def test_only_the_three_lines_of_thchs_begin_with_the_text(sound: Sound, tmp_path: Path) -> None:
    text = "<SOF>\n%ID:A01\n0001 00000.000-00003.200 L:\nsore & sore\n"
    sound("A01.wav", 5).with_suffix(".trn").write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match=r"A01\.trn has 4 lines, where the text, its syllables"):
        read_manifest(tmp_path)


def test_json_beside_a_sound_tells_of_it(sound: Sound, tmp_path: Path) -> None:
    told = {
        "a.json": {"text": "one", "speaker": "ann", "lang": "en", "tags": ["x"]},
        "b.wav.json": {"wav": "DE/mp3/b.wav", "Sentence": "two", "dnsmos": 3.3},
        "c.json": {"title": "three"},
        "d.json": {"title": "four"},
        "e.json": {"text": "five"},
    }
    for name, values in told.items():
        sound(f"{name[0]}.wav")
        (tmp_path / name).write_text(json.dumps(values, indent=2), encoding="utf-8")
    (tmp_path / "d.txt").write_text("four", encoding="utf-8")
    (tmp_path / "e.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nfive times\n", encoding="utf-8")
    manifest = read_manifest(tmp_path)
    assert said(manifest) == [("a.wav", "one"), ("b.wav", "two"), ("d.wav", "four"), ("e.wav", "five times")]
    assert (manifest.examples[0].speaker, manifest.examples[0].language) == ("ann", "en")
    ((line, reason),) = reasons(manifest)
    assert line == 3 and reason.startswith("There is no column for the text: found 'audio', 'title'")
    with pytest.raises(ManifestError, match=r"a\.json belongs to the recordings beside it: name its folder"):
        read_manifest(tmp_path / "a.json")


def test_the_samples_before_a_text_of_timit_are_no_words(sound: Sound, tmp_path: Path) -> None:
    text = sound("DR1/FCJF0/SA1.WAV", 46_797 / 16_000).with_suffix(".TXT")
    text.write_text("0 46797 She had your dark suit.\n", encoding="utf-8")
    (example,) = read_manifest(tmp_path).examples
    assert (example.text, example.speaker) == ("She had your dark suit.", "FCJF0")


def test_captions_may_lie_in_a_folder_of_their_own(sound: Sound, tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        soundfile.write(
            sound(f"sph/{name}.wav", 5).with_suffix(".sph"), sweep(16_000, 5), 16_000, format="NIST"
        )
        (tmp_path / f"sph/{name}.wav").unlink()
        (tmp_path / f"stm/{name}.stm").parent.mkdir(exist_ok=True)
        (tmp_path / f"stm/{name}.stm").write_text(
            f"{name} 1 x 1 2 <o,f0,male> i 'm {{SMACK}} {name}(2) <unk>\n", encoding="utf-8"
        )
    manifest = read_manifest(tmp_path)
    assert said(manifest) == [("ann.sph", "i'm ann"), ("bob.sph", "i'm bob")]
    assert manifest.examples[0].start_seconds == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0 1234 good morning\n", id="numbers that are no length of the sound"),
        pytest.param("[00:00.000 --> 00:03.000] one\ntwo\n", id="what Whisper prints, and another line"),
        pytest.param("1.0\t2.0\tone\ntwo\n", id="a line without times"),
        pytest.param("1.0\t1e999\tone\n", id="no number"),
        pytest.param("-1.0\t2.0\tone\n", id="before the beginning"),
    ],
)
def test_times_that_cannot_be_read_are_no_words_either(sound: Sound, tmp_path: Path, text: str) -> None:
    (sound("a.wav", 5).with_suffix(".txt")).write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match=r"a\.txt is damaged, or no such file as its name says"):
        read_manifest(tmp_path)


def test_what_cannot_be_opened_and_what_names_itself_is_said(
    sound: Sound, tmp_path: Path, settings: Settings
) -> None:
    (sound("a.wav").with_suffix(".txt")).symlink_to("a.txt")
    (sound("b.wav").with_suffix(".wav.trn")).write_text("b.wav.trn\n", encoding="utf-8")
    (sound("c.wav").with_suffix(".txt")).write_text("said", encoding="utf-8")
    (sound("d.wav").with_suffix(".txt")).write_text("n\0u\0l\0", encoding="utf-8")
    assert [reason for _line, reason in reasons(read_manifest(tmp_path))] == [
        "a.txt cannot be read: Too many levels of symbolic links.",
        "b.wav.trn names b.wav.trn, which is not there.",
        "The row has a NUL, which is in no text: save it again in UTF-8.",
    ]
    assert said(manifest.read_manifest(tmp_path, replace(settings, on_spaces=True))) == [("c.wav", "said")]


def test_recordings_without_a_header_are_refused_with_what_makes_wav_of_them(tmp_path: Path) -> None:
    for name in ("KsponSpeech_000001.pcm", "KsponSpeech_000001.txt"):
        (tmp_path / name).write_bytes(b"\xec\x95\x84" * 99)
    with pytest.raises(
        ManifestError, match=r"ffmpeg -f s16le .* -i KsponSpeech_000001\.pcm KsponSpeech_000001\.wav"
    ):
        read_manifest(tmp_path)
