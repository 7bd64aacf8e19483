"""What is to be known of a transcript stands beside it, in the visitor's language."""

from pathlib import Path

import soundfile

from studio.messages import Message
from studio.transcription.batch import Asked, Batch
from studio.transcription.captions import CaptionLayout
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.ui.transcribe.many import batch_table
from studio.ui.transcribe.results import ShownTranscript, shown

CUT_OFF = Message(
    "The file says {declared}, and holds {heard}: it is cut off or damaged.",
    declared=Message("{seconds} s", seconds=20),
    heard=Message("{seconds} s", seconds=10),
)
IN_TAIWAN = "檔案標示 20 秒，實際只有 10 秒：檔案不完整或已損壞。"


def test_a_recording_that_is_cut_off_says_so_whether_or_not_somebody_speaks_in_it(demo_speech: Path) -> None:
    path = demo_speech / "samples" / "silence.flac"
    for text in ("one two", ""):
        heard = ShownTranscript(Transcript(text, (), "en", 10.0, "mine", "", notes=(CUT_OFF,)), path)
        status = str(shown(heard, CaptionLayout(), "zh-TW")[0])
        assert IN_TAIWAN in status and "note-warning" in status
        assert ("這段錄音裡沒有偵測到語音。" in status) == (not text)


def test_in_a_list_it_stands_beside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, [0.1] * 16_000, 16_000)
    asked = Asked("mine", TranscribeOptions(), EngineChoice())
    batch = Batch([path], asked, tmp_path / "kept")
    heard = Transcript("one two", (), "en", 10.0, "mine", "", audio_path=str(path), notes=(CUT_OFF,))
    batch.add(heard.to_json(), heard)
    table = str(batch_table(batch, (), "zh-TW"))
    assert "one two" in table and IN_TAIWAN in table
    batch._results.save()
    again = Batch([path], asked, tmp_path / "kept")
    assert again.todo == [] and str(CUT_OFF) in str(batch_table(again, (), "zh-TW"))
