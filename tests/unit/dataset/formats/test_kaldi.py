from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

COMMAND = "The sound is a command and no file, and nothing is run or fetched"


@pytest.fixture
def data(tmp_path: Path, sound: Sound) -> Path:
    """A folder whose recordings are cut by `segments`."""
    sound("sounds/long one.wav", 3.0)
    files = {
        "wav.scp": f"rec1 {tmp_path}/sounds/long one.wav\nrec2 touch {tmp_path}/ran; cat x.wav |\n",
        "segments": "u1 rec1 0.5 1.5\nu2 rec1 1.5 -1\nu3 rec2 0 1\nu4 gone 0 1\nu5 rec1 0\n",
        "text": "u1 good  morning\nu2\t早安\nu3 x\nu4 x\nu5 x\nu6 nobody\n",
        "utt2spk": "u1 ann\nu2 u2\n",
        "utt2lang": "u1 en\nu2 zh\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["", "wav.scp"])
def test_utterances_are_cut_from_their_recordings(data: Path, name: str) -> None:
    manifest = read_manifest(data / name)
    assert manifest.format == "kaldi"
    rows = [
        (e.text, e.start_seconds, e.end_seconds, e.duration_seconds, e.language, e.speaker)
        for e in manifest.examples
    ]
    assert rows == [("good  morning", 0.5, 1.5, 1.0, "en", "ann"), ("早安", 1.5, None, 1.5, "zh", None)]


@pytest.mark.parametrize("name", ["text", "segments", "utt2lang"])
def test_another_of_its_files_is_answered_with_the_folder(data: Path, name: str) -> None:
    with pytest.raises(ManifestError, match=f"{name} belongs to the recordings beside it: name its folder"):
        read_manifest(data / name)


def test_an_id_that_stands_twice_is_named_and_its_first_line_counts(data: Path) -> None:
    (data / "segments").unlink()
    (data / "wav.scp").write_text(f"u1 {data}/sounds/long one.wav\nu1 other.wav\nu1 other.wav\n")
    (data / "text").write_text("u1 first\nu1 second\nu1 first\n")
    manifest = read_manifest(data)
    assert said(manifest) == [("long one.wav", "first")]
    told = "The id u1 stands in {} a second time: its first line counts."
    assert reasons(manifest) == [
        (2, told.format("wav.scp")),
        (3, told.format("wav.scp")),
        (2, told.format("text")),
    ]


def test_a_command_is_named_and_never_run(data: Path) -> None:
    pipe, missing, short, text = reasons(read_manifest(data))
    assert pipe[0] == 3 and pipe[1].startswith(COMMAND)
    assert missing == (4, "The recording gone is not in wav.scp.")
    assert short[0] == 5 and "has 2 fields" in short[1]
    assert text == (6, "The text belongs to u6, for which there is no sound.")
    assert not (data / "ran").exists()
    (data / "segments").unlink()
    (data / "text").write_text("rec2 x\n")
    (data / "wav.scp").write_text(f"rec2 touch {data}/ran |\n")
    with pytest.raises(ManifestError, match=COMMAND):
        read_manifest(data)
    assert not (data / "ran").exists()


def test_a_sound_in_an_archive_is_answered_with_how_to_take_it_out(data: Path) -> None:
    (data / "segments").unlink()
    (data / "text").write_text("u1 x\nu2 x\n")
    (data / "wav.scp").write_text("u1 raw/wav.1.ark:1234\nu2 wav.2.ark:5[0:99]\n")
    with pytest.raises(
        ManifestError, match=r"raw/wav\.1\.ark:1234 is in an archive of Kaldi.*wav-copy scp:wav\.scp"
    ):
        read_manifest(data)


def test_without_segments_a_recording_is_an_utterance(data: Path) -> None:
    (data / "segments").unlink()
    (data / "text").write_text("rec1 all of it\n")
    assert said(read_manifest(data)) == [("long one.wav", "all of it")]


def test_a_folder_without_texts_is_refused_unless_none_are_needed(data: Path) -> None:
    (data / "text").unlink()
    with pytest.raises(ManifestError, match="has no file named text"):
        read_manifest(data)
    assert [example.text for example in read_manifest(data, needs_text=False).examples] == ["", ""]


@pytest.mark.parametrize("name", ["text.txt", "trans.txt"])
def test_the_texts_may_be_called_as_those_of_funasr_and_aishell_2(data: Path, name: str) -> None:
    before = said(read_manifest(data))
    (data / "text").rename(data / name)
    assert said(read_manifest(data)) == before
    with pytest.raises(ManifestError, match=f"{name} belongs to the recordings beside it: name its folder"):
        read_manifest(data / name)


def test_the_sounds_may_lie_beside_the_folder(tmp_path: Path, sound: Sound) -> None:
    sound("train/a.wav")
    (tmp_path / "train/transcripts").mkdir()
    for name, line in {"wav.scp": "a a.wav\n", "text": "a good morning\n"}.items():
        (tmp_path / "train/transcripts" / name).write_text(line, encoding="utf-8")
    assert said(read_manifest(tmp_path / "train/transcripts")) == [("a.wav", "good morning")]
