"""Captions beside a recording become clips with times, of what somebody says."""

from pathlib import Path

import pytest

from studio.dataset.example import Example
from studio.errors import ManifestError
from studio.transcription.captions import render
from studio.transcription.engine import Segment, Transcript
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

SRT = """\
1
00:00:00,500 --> 00:00:02,000
<i>Good morning.</i>

2
00:00:02,000 --> 00:00:04,250
- How are you,
Tom &amp; Ann?

3
00:00:04,400 --> 00:00:05,000
[applause]

4
00:00:05,000 --> 00:00:06,000
{\\an8}>> [laughs] Fine.

5
00:00:09,000 --> 00:00:10,000
♪ la la ♪

6
00:00:10,500 --> 00:00:12,000
Bye (for now).
"""
ROLLING = """\
WEBVTT
Kind: captions
Language: en

00:00:00.000 --> 00:00:02.350 align:start position:0%
~
hello<00:00:00.480><c> everyone</c>

00:00:02.350 --> 00:00:02.360 align:start position:0%
hello everyone
~

00:00:02.360 --> 00:00:05.000 align:start position:0%
hello everyone
today<00:00:03.000><c> we</c><00:00:03.500><c> sing</c>

00:00:05.000 --> 00:00:05.010 align:start position:0%
today we sing
~

01:00:05.010 --> 01:00:07.000 align:start position:0%
today we sing
at<00:00:06.000><c> last</c>
""".replace("~", " ")
"""A line of one space is none of those that end a caption."""


def clips(path: Path) -> list[tuple[float | None, float | None, str]]:
    return [(one.start_seconds, one.end_seconds, one.text) for one in read_manifest(path).examples]


def sentences(example: Example) -> list[tuple[float, float, str]]:
    return [(one.start_seconds, one.end_seconds, one.text) for one in example.segments]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_captions_that_follow_one_another_are_a_clip_of_what_is_said(
    sound: Sound, tmp_path: Path, end: str
) -> None:
    sound("talk.wav", 12.0).with_suffix(".srt").write_text(SRT, "utf-8-sig", newline=end)
    assert clips(tmp_path) == [
        (0.5, 4.25, "Good morning. How are you, Tom & Ann?"),
        (5.0, 6.0, "Fine."),
        (10.5, 12.0, "Bye (for now)."),
    ]
    first, *_ = read_manifest(tmp_path).examples
    assert sentences(first) == [(0.0, 1.5, "Good morning."), (1.5, 3.75, "How are you, Tom & Ann?")]
    assert first.language is None


def test_captions_that_roll_up_are_read_once(sound: Sound, tmp_path: Path) -> None:
    sound("talk.wav", 8.0)
    (tmp_path / "talk.en.vtt").write_text(ROLLING.replace("01:00:0", "00:0"), "utf-8")
    manifest = read_manifest(tmp_path)
    assert said(manifest) == [("talk.wav", "hello everyone today we sing at last")]
    (only,) = manifest.examples
    assert only.language == "en" and sentences(only)[1] == (2.36, 5.0, "today we sing")


def test_what_somebody_says_twice_is_read_twice(sound: Sound, tmp_path: Path) -> None:
    captions = "00:01.0 --> 00:02.0\nNo.\n\n00:02.0 --> 00:03.0\nNo.\n\n00:03.5 --> 00:04.0\nNever.\n\n"
    captions += "00:04.0 --> 00:05.0\n不，\n不要。"
    sound("talk.flac", 5.0).with_suffix(".vtt").write_text(f"WEBVTT\n\n{captions}")
    assert [text for *_, text in clips(tmp_path)] == ["No. No. Never. 不，不要。"]


def test_a_clip_fits_into_a_window_and_what_the_studio_writes_comes_back(
    sound: Sound, tmp_path: Path
) -> None:
    segments = tuple(Segment(6.0 * n, 6.0 * n + 5.5, f"Sentence {n}.") for n in range(10))
    heard = Transcript(text="", segments=segments, language="en", duration_seconds=60.0, model="", engine="")
    for ending in ("srt", "vtt", "json", "tsv"):
        folder = tmp_path / ending
        sound(f"{ending}/talk.flac", 60.0).with_suffix(f".{ending}").write_text(
            render(heard, ending), "utf-8"
        )
        manifest = read_manifest(folder)
        assert [len(one.segments) for one in manifest.examples] == [4, 4, 2]
        assert manifest.examples[1].previous_text == manifest.examples[0].text
        assert [one.text for clip in manifest.examples for one in clip.segments] == [
            one.text for one in segments
        ]


def test_a_text_of_its_own_counts_unless_the_recording_is_longer_than_a_window(
    sound: Sound, tmp_path: Path
) -> None:
    for name, seconds in (("long", 31.0), ("short", 3.0)):
        path = sound(f"{name}.wav", seconds)
        path.with_suffix(".txt").write_text("text")
        path.with_suffix(".srt").write_text("00:00:01,0 --> 00:00:02,0\ncaption")
    assert said(read_manifest(tmp_path)) == [("long.wav", "caption"), ("short.wav", "text")]


def test_captions_called_as_the_recording_count_before_those_of_a_language(
    sound: Sound, tmp_path: Path
) -> None:
    sound("talk.wav", 3.0)
    for name in ("talk.srt", "talk.de.srt", "talk.en.vtt"):
        (tmp_path / name).write_text(f"00:00:01,0 --> 00:00:02,0\n{name}")
    (only,) = read_manifest(tmp_path).examples
    assert (only.text, only.language) == ("talk.srt", None)


def test_what_is_wrong_with_captions_is_said_and_the_other_recordings_are_read(
    sound: Sound, tmp_path: Path
) -> None:
    for name in ("a", "b", "c", "d"):
        sound(f"{name}.wav", 3.0)
    good = "00:00:01,000 --> 00:00:02,000\n你好"
    (tmp_path / "a.srt").write_text("WEBVTT\n\n1\n", "utf-8")
    (tmp_path / "b.srt").write_bytes(b"00:00:01,000 --> 00:00:02,000\n\xff\xfe")
    for language in ("en", "zh"):
        (tmp_path / f"c.{language}.srt").write_text(good, "utf-8")
    (tmp_path / "d.zh-Hans.srt").write_text(
        f"{good}\n\n00:00:02,500 --> 00:00:09,000\n再\n见\n\n00:00:12,000 --> 00:00:13,000\n！", "utf-8"
    )
    manifest = read_manifest(tmp_path)
    (only,) = manifest.examples
    assert (only.end_seconds, only.text, only.language) == (3.0, "你好再见", "zh")
    assert reasons(manifest) == [
        (1, "a.srt has no caption with a text."),
        (2, f"{tmp_path}/b.srt is not UTF-8 text (line 2): save it again in UTF-8 (in Excel: CSV UTF-8)."),
        (
            3,
            "c.wav has captions in several languages (c.en.srt, c.zh.srt): keep those of what is spoken.",
        ),
        (5, "The clip lies from 12 to 13 s, and the file is 3.00 s long."),
    ]
    with pytest.raises(ManifestError, match=r"d\.zh-Hans\.srt belongs to the recordings beside it: name its"):
        read_manifest(tmp_path / "d.zh-Hans.srt")


@pytest.mark.parametrize(
    ("shown", "spoken"),
    [
        ("- JOHN: hello", "hello"),
        ("DR. O'NEIL: It is 10:30 now", "It is 10:30 now"),
        ("(sighs) I know", "I know"),
        ("[music] >> MAN #1: go", "go"),
        ("[SPEAKER_00]: Go", "Go"),
        ("(Ann): Go", "Go"),
        ("Bye (for now).", "Bye (for now)."),
        ("Note: hello", "Note: hello"),
    ],
)
def test_who_speaks_and_how_is_not_said(sound: Sound, tmp_path: Path, shown: str, spoken: str) -> None:
    lines = f"00:00:00,500 --> 00:00:02,000\n{shown}\n\n00:00:02,000 --> 00:00:03,000\nSubtitles: www.a.org\n"
    sound("talk.wav", 4).with_suffix(".srt").write_text(lines, encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("talk.wav", spoken)]


@pytest.mark.parametrize(
    ("shown", "spoken"),
    [
        ("Ann Lee: Good: yes|Bob: Fine|It is so|Ann Lee: Go|Bob: No", "Good: yes Fine It is so Go No"),
        (
            "Note: hello|It is so|Or not|Note: no|Well|So|Yes",
            "Note: hello It is so Or not Note: no Well So Yes",
        ),
        ("First: hello|Second: no", "First: hello Second: no"),
        ("\u5f20\u4e09\uff1a\u597d|\u674e\u56db\uff1a\u884c|\u5f20\u4e09\uff1a\u662f", "\u597d\u884c\u662f"),
        ("- Bob: Go\n- Ann: No|- Ann: Yes|- Bob: Right", "Go No Yes Right"),
    ],
)
def test_names_of_who_speaks_are_not_said_where_they_come_again(
    sound: Sound, tmp_path: Path, shown: str, spoken: str
) -> None:
    lines = (f"00:0{at}.000 --> 00:0{at}.900\n{line}\n" for at, line in enumerate(shown.split("|")))
    sound("talk.wav", 9).with_suffix(".vtt").write_text("WEBVTT\n\n" + "\n".join(lines), encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("talk.wav", spoken)]


def test_captions_called_as_one_recording_are_not_those_of_another(sound: Sound, tmp_path: Path) -> None:
    for name in ("talk.wav", "talk.de.wav"):
        sound(name, 5)
    (tmp_path / "talk.de.srt").write_text("1\n00:00:01,000 --> 00:00:03,000\nja\n", encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("talk.de.wav", "ja")]


def test_what_yt_dlp_tells_of_a_recording_is_no_list(sound: Sound, tmp_path: Path) -> None:
    sound("talk [1].wav", 40)
    (tmp_path / "talk [1].info.json").write_text('{"id": "1", "title": "talk"}', encoding="utf-8")
    shown = "WEBVTT\n\n00:01.000 --> 00:04.000\ngood morning\n"
    (tmp_path / "talk [1].en.vtt").write_text(shown, encoding="utf-8")
    assert said(read_manifest(tmp_path)) == [("talk [1].wav", "good morning")]
