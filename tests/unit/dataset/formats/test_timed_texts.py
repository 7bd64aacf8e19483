"""Annotations beside a long recording are clips, whichever program they were made with."""

from pathlib import Path

import pytest

from studio.dataset.formats.timed_texts import captions_in
from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons

LONG_TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 40
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "sentence"
        xmin = 0
        xmax = 40
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 1.5
            text = ""
        intervals [2]:
            xmin = 1.5
            xmax = 3
            text = "the ""first"" 1"
        intervals [3]:
            xmin = 3
            xmax = 4.25
            text = "second"
    item [2]:
        class = "TextTier"
        name = "clicks"
        xmin = 0
        xmax = 40
        points: size = 1
        points [1]:
            number = 2
            mark = "click"
"""
SHORT_TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

0
40
<exists>
1
"IntervalTier"
"sentence"
0
40
2
1.5
3
"the ""first"" 1"
3
4.25
"second"
"""
EAF = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="1500"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="3000"/>
<TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="4250"/><TIME_SLOT TIME_SLOT_ID="ts4"/></TIME_ORDER>
<TIER TIER_ID="Bob" PARTICIPANT="Bob"><ANNOTATION>
<ALIGNABLE_ANNOTATION TIME_SLOT_REF1="ts2" TIME_SLOT_REF2="ts3">
<ANNOTATION_VALUE>second</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="Ann" PARTICIPANT="Ann"><ANNOTATION>
<ALIGNABLE_ANNOTATION TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>the "first" 1</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
<ANNOTATION_VALUE>whose end nobody knows</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER TIER_ID="words" PARENT_REF="Ann"><ANNOTATION>
<ALIGNABLE_ANNOTATION TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>the</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
</ANNOTATION_DOCUMENT>
"""
STM = """;; LABEL "o" "overall" "overall"
talk 1 inter_segment_gap 0 1.5 <o,,> ignore_time_segment_in_scoring
talk 1 ann 1.5 3.0 <o,f0,female> the "first" 1
talk 1 bob 3.0 4.25 second
"""
ASS = """[Script Info]
Title: Dialogue: no event
[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,what nobody sees
Dialogue: 0,0:00:03.00,0:00:04.25,Default,Bob,0,0,0,,{\\i1}sec{\\i0}ond
Dialogue: 0,0:00:01.50,0:00:03.00,Default,Ann,0,0,0,,{\\an8\\pos(1,2)}the\\N{a note}"first"\\h1
Dialogue: 1,0:00:01.50,0:00:03.00,Default,,0,0,0,,{\\bord0\\p1}m 0 0 l 9 0 {\\1c&HFF&}9 9
"""
HEARD = """{"text": " the \\"first\\" 1 second", "segments": [
{"id": 0, "seek": 0, "start": 1.5, "end": 3.0, "text": " the \\"first\\" 1", "temperature": 0.0},
{"id": 1, "seek": 0, "start": 3, "end": 4.25, "text": " second", "words": [{"word": " second", "start": 3}]}
], "language": "en"}"""
OF_CPP = """{"model": {"type": "base"}, "params": {"language": "auto"}, "result": {"language": "en"},
"transcription": [
{"timestamps": {"from": "00:00:01,500"}, "offsets": {"from": 1500, "to": 3000}, "text": " the \\"first\\" 1"},
{"timestamps": {"from": "00:00:03,000"}, "offsets": {"from": 3000, "to": 4250}, "text": " second"}
]}"""
HEARD_TSV = 'start\tend\ttext\n1500\t3000\tthe "first" 1\n3000\t4250\tsecond\n'
SSA = """[Script Info]
[Events]
Format: Marked, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: Marked=0,0:00:01.50,0:00:03.00,Default,,0000,0000,0000,,the "first" 1
Dialogue: Marked=0,0:00:03.00,0:00:04.25,Default,,0000,0000,0000,,second
"""
LABELS = '1.500000\t3.000000\tthe "first" 1\n\\\t100.0\t200.0\n3,000000\t4,250000\tsecond\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("talk.TextGrid", LONG_TEXTGRID.encode("utf-16"), id="TextGrid"),
        pytest.param("talk.TextGrid", SHORT_TEXTGRID.encode(), id="short TextGrid"),
        pytest.param("talk.eaf", EAF.encode(), id="ELAN"),
        pytest.param("talk.ass", ASS.replace("\n", "\r\n").encode("utf-16"), id="ASS"),
        pytest.param("talk.ssa", SSA.encode("utf-8-sig"), id="SSA"),
        pytest.param("talk.json", HEARD.encode(), id="JSON of Whisper"),
        pytest.param("talk.json", OF_CPP.encode(), id="JSON of whisper.cpp"),
        pytest.param("talk.wav.json", OF_CPP.encode(), id="JSON of whisper.cpp by its own name"),
        pytest.param("talk.tsv", HEARD_TSV.encode(), id="TSV of Whisper"),
        pytest.param("talk.stm", STM.encode(), id="STM"),
        pytest.param("talk.txt", LABELS.encode(), id="Audacity"),
    ],
)
def test_annotations_of_a_recording_are_clips_with_times(
    sound: Sound, tmp_path: Path, name: str, content: bytes
) -> None:
    sound("talk.wav", 40)
    (tmp_path / name).write_bytes(content)
    (example,) = read_manifest(tmp_path).examples
    assert (example.text, example.start_seconds, example.end_seconds) == ('the "first" 1 second', 1.5, 4.25)
    assert [(each.start_seconds, each.end_seconds) for each in example.segments] == [(0, 1.5), (1.5, 2.75)]
    with pytest.raises(ManifestError, match="belongs to the recordings beside it: name its folder"):
        read_manifest(tmp_path / name)


def test_what_whisper_leaves_beside_recordings_is_read_once_and_in_its_languages(
    sound: Sound, tmp_path: Path
) -> None:
    sound("talk.WAV", 40)
    sound("train.wav", 40)
    other = '{"start": "5", "end": 6, "text": "\u4f60\u597d", "language": "zh"}'
    other += ', {"start": 7, "end": 8, "text": "bye"}'
    heard = HEARD.replace('"start": 3}]}', f'"start": 3}}]}}, {other}')
    for name in ("talk", "train"):
        (tmp_path / f"{name}.json").write_text(heard, encoding="utf-8")
        (tmp_path / f"{name}.tsv").write_text(HEARD_TSV, encoding="utf-8")
        (tmp_path / f"{name}.txt").write_text('the "first" 1\nsecond\n', encoding="utf-8")
    manifest = read_manifest(tmp_path)
    assert not manifest.problems
    assert [(one.audio_path.name, one.text, one.language) for one in manifest.examples][:3] == [
        ("talk.WAV", 'the "first" 1 second', "en"),
        ("talk.WAV", "\u4f60\u597d", "zh"),
        ("talk.WAV", "bye", "en"),
    ]
    assert len(manifest.examples) == 6


def test_what_whisper_cpp_leaves_beside_a_recording_is_read_once(sound: Sound, tmp_path: Path) -> None:
    sound("talk.mp3.wav", 40)
    shown = "00:00:01.500 --> 00:00:04.250\nthe first\n"
    for ending, content in ((".json", OF_CPP), (".srt", f"1\n{shown}"), (".vtt", f"WEBVTT\n\n{shown}")):
        (tmp_path / f"talk.mp3.wav{ending}").write_text(content, encoding="utf-8")
    (tmp_path / "talk.mp3.wav.txt").write_text('the "first" 1\nsecond\n', encoding="utf-8")
    (example,) = read_manifest(tmp_path).examples
    assert (example.text, example.language) == ('the "first" 1 second', "en")
    (tmp_path / "talk.mp3.en.srt").write_text(f"1\n{shown}".replace("first", "second"), encoding="utf-8")
    (example,) = read_manifest(tmp_path).examples
    assert (example.text, example.language) == ('the "first" 1 second', "en")


@pytest.mark.parametrize(
    "listed",
    [
        '[{"audio": "talk.wav", "text": "hello", "segments": []}]',
        '{"talk.wav": {"text": "hello"}}',
        '{"audio": "talk.wav", "text": "hello", "note": "segments"}',
    ],
)
def test_a_list_that_is_called_as_a_recording_stays_one(sound: Sound, tmp_path: Path, listed: str) -> None:
    sound("talk.wav", 4)
    (tmp_path / "talk.json").write_text(listed, encoding="utf-8")
    assert [read_manifest(source).examples[0].text for source in (tmp_path, tmp_path / "talk.json")] == [
        "hello",
        "hello",
    ]


def test_of_several_tiers_nobody_knows_which_is_spoken(sound: Sound, tmp_path: Path) -> None:
    sound("talk.wav", 40)
    both = LONG_TEXTGRID.replace('"TextTier"', '"IntervalTier"').replace('mark = "click"', '3 text = "klik"')
    (tmp_path / "talk.TextGrid").write_text(both, encoding="utf-8")
    sound("short.wav", 2)
    (tmp_path / "short.txt").write_text("hello", encoding="utf-8")
    assert reasons(read_manifest(tmp_path)) == [
        (
            2,
            "talk.TextGrid has several tiers (sentence, clicks): keep the one with the sentences that are "
            "spoken.",
        )
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("talk.eaf", EAF[:200]),
        ("talk.TextGrid", LONG_TEXTGRID[:-300]),
        ("talk.stm", "talk 1 ann now then <o> hello"),
        ("talk.stm", "talk 1 ann nan 2 <o> hello"),
        ("talk.stm", "talk 1 ann -1 2 <o> hello"),
        ("talk.stm", "talk 1 ann 1 1e999 <o> hello"),
        ("talk.ass", ASS.rpartition(",Default")[0]),
        ("talk.ass", ASS.replace(", Text", ", Txt")),
        ("talk.ssa", SSA.replace("Format:", "Formats:")),
        ("talk.json", HEARD[:-20]),
        ("talk.json", HEARD.replace("1.5", "null")),
        ("talk.json", HEARD.replace("3.0", "NaN")),
        ("talk.json", HEARD.replace('" second"', "5")),
        ("talk.json", '{"segments": [5]}'),
        ("talk.json", OF_CPP.replace("result", "results")),
        ("talk.json", OF_CPP.replace("4250", '"x"')),
        ("talk.json", '{"segments": ' + "[" * 100_000),
        ("talk.json", '{"segments": ["' + "a" * 2**24),
        ("talk.tsv", HEARD_TSV + "5000\t6000"),
        ("talk.eaf", EAF.replace("4250", "9" * 400)),
        ("talk.TextGrid", '"IntervalTier" "' + "a" * 2**24),
        ("talk.srt", "1\n00:00:01,000 --> 00:00:02,000\none\n-0:00:02,000 --> 00:00:03,000\ntwo\n"),
        ("talk.srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "one\n" * 2**22),
    ],
)
def test_a_damaged_file_is_named(sound: Sound, tmp_path: Path, name: str, content: str) -> None:
    sound("talk.wav", 40)
    (tmp_path / name).write_text(content, encoding="utf-8")
    sound("short.wav", 2)
    (tmp_path / "short.txt").write_text("hello", encoding="utf-8")
    (problem,) = reasons(read_manifest(tmp_path))
    assert problem[1] == f"{name} is damaged, or no such file as its name says."


def test_entities_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "talk.eaf"
    grow = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    path.write_text(f'<!DOCTYPE a [<!ENTITY e0 "lol">{grow}]><a>&e11;</a>', encoding="utf-8")
    with pytest.raises(Exception, match="is damaged"):
        captions_in(path)


def test_the_number_of_a_caption_below_a_line_with_a_space_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text(
        "1\n00:00:01,000 --> 00:00:02,000\none\n \n2\n00:00:02,000 --> 00:00:03,000\n2 of 2\n",
        encoding="utf-8",
    )
    assert [one.lines for one in captions_in(path)] == [("one",), ("2 of 2",)]


@pytest.mark.parametrize("who", ["", 'PARTICIPANT="Ann"'])
def test_what_is_done_is_not_taken_for_what_is_said(tmp_path: Path, who: str) -> None:
    path = tmp_path / "talk.eaf"
    path.write_text(
        EAF.replace('PARTICIPANT="Bob"', who).replace('ID="Bob"', 'ID="gestures"'), encoding="utf-8"
    )
    with pytest.raises(
        ManifestError, match=r"several tiers \(gestures, Ann\): keep the one with the sentences"
    ):
        captions_in(path)


def test_of_an_stm_of_several_recordings_each_has_its_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "talk.stm"
    path.write_text("other 1 ann 0 1 no\n;; a remark\ntalk 1 ann 0 1 yes\n", encoding="utf-8")
    assert [one.lines for one in captions_in(path)] == [("yes",)]


def test_who_goes_on_while_another_speaks_is_heard_to_the_end(sound: Sound, tmp_path: Path) -> None:
    sound("talk.wav", 40)
    (tmp_path / "talk.stm").write_text(
        "talk 1 ann 1 5 a long sentence\ntalk 1 bob 2 3 yes\ntalk 1 ann 6 8 so\ntalk 1 bob 6 7 no\n",
        encoding="utf-8",
    )
    (example,) = read_manifest(tmp_path).examples
    assert (example.start_seconds, example.end_seconds) == (1, 8)
    assert example.text == "a long sentence yes no so" and not example.segments
