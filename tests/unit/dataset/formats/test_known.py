import gzip
import json
from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, said


def test_a_nemo_manifest_is_read_as_it_is(tmp_path: Path, sound: Sound) -> None:
    sound("a.wav", 3.0)
    rows = [
        {
            "audio_filepath": "a.wav",
            "duration": 1.0,
            "offset": 0.5,
            "text": "one",
            "lang": "en",
            "pred_text": "on",
        },
        {"audio_filepath": str(tmp_path / "a.wav"), "duration": 3.0, "offset": None, "text": "two"},
    ]
    rows = [{**row, "pred_text": "what NeMo has written of it"} for row in rows]
    (tmp_path / "manifest.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = read_manifest(tmp_path / "manifest.json").examples
    assert (first.text, first.start_seconds, first.end_seconds, first.language) == ("one", 0.5, 1.5, "en")
    assert (second.text, second.start_seconds, second.duration_seconds) == ("two", None, 3.0)


def test_any_list_may_be_packed(tmp_path: Path, sound: Sound) -> None:
    sound("a.wav")
    texts = {"csv": "audio,text\na.wav,one\n", "json": '[{"audio": "a.wav", "text": "one"}]'}
    for kind, text in texts.items():
        path = tmp_path / f"list.{kind}.gz"
        path.write_bytes(gzip.compress(text.encode()))
        manifest = read_manifest(path)
        assert said(manifest) == [("a.wav", "one")] and manifest.format == kind


def test_a_list_of_what_is_in_archives_of_nemo_is_read_when_they_are_unpacked(
    tmp_path: Path, sound: Sound
) -> None:
    row = {"audio_filepath": "a.wav", "duration": 1.0, "text": "one", "shard_id": 0}
    path = tmp_path / "tarred_audio_manifest.json"
    path.write_text(json.dumps(row) + "\n")
    (tmp_path / "audio_0.tar").write_bytes(b"")
    for source in (path, tmp_path):
        with pytest.raises(
            ManifestError, match=r"in archives of NeMo \(audio_0\.tar, …\): unpack them beside it"
        ):
            read_manifest(source)
    sound("audio_0/a.wav")
    assert said(read_manifest(path)) == [("a.wav", "one")]


def test_a_question_that_was_answered_is_no_text_before_the_answer(tmp_path: Path, sound: Sound) -> None:
    sound("audios/a.mp3")
    header = "client_id\taudio_id\taudio_file\tprompt_id\tprompt\ttranscription\n"
    (tmp_path / "ss-corpus-de.tsv").write_text(
        f"{header}x\t1\ta.mp3\t7\tWas isst du?\tBrot.\n", encoding="utf-8"
    )
    (example,) = read_manifest(tmp_path).examples
    assert (example.text, example.previous_text) == ("Brot.", None)
