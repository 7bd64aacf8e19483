"""Sentences read aloud: what is kept is what is trained on, and nothing is lost on the way."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.dataset.recordings import (
    begin_session,
    delete_session,
    keep_clip,
    open_session,
    sessions,
    without_silence,
)
from studio.errors import AudioError, ConfigError
from studio.files import append_json_line
from tests.reading import read_manifest

RATE = 48_000
VOICE = (3000 * np.sin(np.arange(2 * RATE) / 30)).astype(np.int16)
TEXT = "\ufefffirst\n\n second \nthird\n".removeprefix("\ufeff")
SESSION = '{"language": "en", "speaker": "", "sentences": %s}'


def test_a_manifest_grows_with_each_sentence(tmp_path: Path) -> None:
    session = begin_session(tmp_path, "my list", TEXT, "en", "ada")
    assert session.sentences == ("first", "second", "third") and session.next_unread == 0
    session = keep_clip(session, 0, VOICE, RATE)
    session = keep_clip(session, 2, np.stack([VOICE, VOICE], axis=1), RATE)
    assert session.next_unread == 1
    examples = read_manifest(session.manifest).examples
    assert [example.text for example in examples] == ["first", "third"]
    assert examples[0].duration_seconds == 2.0
    assert (examples[0].language, examples[0].speaker) == ("en", "ada")


def test_who_comes_back_goes_on_at_the_next_unread_sentence(tmp_path: Path) -> None:
    keep_clip(begin_session(tmp_path, "list", TEXT), 0, VOICE, RATE)
    assert open_session(tmp_path, "list").next_unread == 1
    assert begin_session(tmp_path, "list", TEXT).next_unread == 1, "the same list goes on"
    with pytest.raises(ConfigError, match="with other sentences"):
        begin_session(tmp_path, "list", "something else")


def test_a_sentence_read_again_replaces_the_first_reading(tmp_path: Path) -> None:
    session = keep_clip(begin_session(tmp_path, "list", TEXT), 0, VOICE, RATE)
    session = keep_clip(session, 0, VOICE[:RATE], RATE)
    assert session.clips == {0: 1.0}
    assert len(read_manifest(session.manifest).examples) == 1


def test_the_silence_around_what_was_read_is_left_out_and_nothing_of_it_is_lost(
    tmp_path: Path, demo_speech: Path
) -> None:
    spoken = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    room = np.random.default_rng(1).normal(0, 1e-4, 3 * 16_000).astype(np.float32)
    alone = without_silence(spoken, 16_000)
    found = without_silence(np.concatenate([room, spoken, room]), 16_000)
    assert abs(len(found) - len(alone)) < 0.1 * 16_000
    assert np.square(found).sum() == pytest.approx(np.square(spoken).sum(), rel=1e-3)
    session = begin_session(tmp_path, "list", TEXT)
    stereo = np.stack([np.concatenate([room, spoken, room])] * 2, axis=1)
    assert keep_clip(session, 0, stereo, 16_000).clips[0] == pytest.approx(len(alone) / 16_000, abs=0.1)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [(0 * VOICE, "is silent"), (VOICE[:4800], "0.1 s long"), (np.tile(VOICE, 16), "32.0 s long")],
)
def test_a_recording_that_is_none_is_refused_and_nothing_is_kept(
    samples: np.ndarray, sentence: str, tmp_path: Path
) -> None:
    session = begin_session(tmp_path, "list", TEXT)
    with pytest.raises(AudioError, match=sentence):
        keep_clip(session, 0, samples, RATE)
    assert open_session(tmp_path, "list").clips == {} and not session.manifest.exists()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 61, "end."])
def test_a_name_that_is_no_folders_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        begin_session(tmp_path, name, TEXT)
    assert list(tmp_path.iterdir()) == []


def test_a_list_without_sentences_or_with_too_long_ones_is_refused(tmp_path: Path) -> None:
    for text, reason in ((" \n\n", "no sentence to read"), ("x" * 501, "at most")):
        with pytest.raises(ConfigError, match=reason):
            begin_session(tmp_path, "list", text)


def test_sessions_are_listed_and_deleted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        begin_session(tmp_path, name, TEXT)
    assert {session.name for session in sessions(tmp_path)} == {"one", "two"}
    delete_session(tmp_path, "one")
    assert [session.name for session in sessions(tmp_path)] == ["two"]
    with pytest.raises(ConfigError, match="no list of sentences 'one'"):
        delete_session(tmp_path, "one")


@pytest.mark.parametrize(
    "row",
    [
        {"duration": 1.0},
        {"number": "one", "duration": 1.0},
        {"number": True, "duration": 1.0},
        {"number": 10**400, "duration": 1.0},
        {"number": -1, "duration": 1.0},
        {"number": 1},
        {"number": 1, "duration": "long"},
        {"number": 1, "duration": float("nan")},
        {"number": 1, "duration": 10**400},
    ],
)
def test_a_row_that_tells_of_no_clip_is_passed_over(row: dict[str, object], tmp_path: Path) -> None:
    session = keep_clip(begin_session(tmp_path, "list", TEXT), 0, VOICE, RATE)
    shutil.copy(session.folder / "00001.flac", session.folder / "00002.flac")
    append_json_line(session.manifest, row)
    assert open_session(tmp_path, "list").clips == {0: 2.0}
    assert keep_clip(open_session(tmp_path, "list"), 1, VOICE, RATE).clips == {0: 2.0, 1: 2.0}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '"list"', "{}", *(SESSION % said for said in ("[]", '"abc"', "null", "{}"))]
)
def test_a_broken_session_hides_no_other(content: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        begin_session(tmp_path, name, TEXT)
    (tmp_path / "two" / "session.json").write_text(content, encoding="utf-8")
    shutil.copytree(tmp_path / "one", tmp_path / ("no name " * 9))
    assert [session.name for session in sessions(tmp_path)] == ["one"]
    with pytest.raises(ConfigError, match="no list of sentences 'two'"):
        open_session(tmp_path, "two")
