"""Transcripts as files, as players read them."""

import csv
import html
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from studio.errors import ConfigError
from studio.transcription.captions import FORMATS, CaptionLayout, clusters, render, safe_stem, wrap, write
from studio.transcription.engine import Segment, Transcript, Word
from studio.transcription.lasting import lasting
from studio.units import format_clock

LONG = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen"
)


def transcript(*segments: Segment, language: str = "en") -> Transcript:
    text = " ".join(segment.text for segment in segments)
    return Transcript(text, segments, language, 20.0, "demo", "transformers", audio_path="a.wav")


TWO = transcript(Segment(0.5, 2.25, "Hello & <b>welcome</b>."), Segment(3661.0, 3662.5, "Bye --> now"))


def test_srt_numbers_its_captions_and_has_commas_in_its_times() -> None:
    assert render(TWO, "srt") == (
        "1\n00:00:00,500 --> 00:00:02,250\nHello & ＜b>welcome＜/b>.\n"
        "\n2\n01:01:01,000 --> 01:01:02,500\nBye → now\n"
    )


def test_vtt_escapes_what_would_be_markup() -> None:
    text = render(TWO, "vtt")
    assert text.startswith("WEBVTT\n\n00:00:00.500 --> 00:00:02.250\n")
    assert "Hello &amp; &lt;b&gt;welcome&lt;/b&gt;." in text
    assert "Bye --&gt; now" in text
    assert html.unescape(text).count("-->") == 3


def test_tsv_has_milliseconds_and_a_row_a_segment() -> None:
    text = render(transcript(Segment(0.5, 2.25, "a\tb\nc"), Segment(3.0, 4.0, 'say "x"')), "tsv")
    rows = list(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows == [["start", "end", "text"], ["500", "2250", "a b c"], ["3000", "4000", 'say "x"']]


def test_plain_text_has_a_line_a_segment_and_json_everything() -> None:
    assert render(TWO, "txt") == "Hello & <b>welcome</b>.\nBye --> now\n"
    assert json.loads(render(TWO, "json")) == TWO.to_json()


@pytest.mark.parametrize("format", FORMATS)
def test_a_transcript_of_silence_is_a_valid_file(format: str) -> None:
    text = render(transcript(), format)
    assert text == {"txt": "", "srt": "", "vtt": "WEBVTT\n", "tsv": "start\tend\ttext\n"}.get(format, text)


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="txt, srt, vtt, tsv, json, got 'ass'"):
        render(TWO, "ass")


SHORT = [
    Segment(1.0, 20.38, "one two", (Word(1.0, 19.0, "one"), Word(20.1, 20.38, "two"))),
    Segment(20.38, 20.38, "For?", (Word(20.38, 20.38, "For?"),)),
    Segment(20.38, 24.0, "three", (Word(20.38, 24.0, "three"),)),
    Segment(25.0, 25.04, "Yes.", (Word(25.0, 25.04, "Yes."),)),
    Segment(29.98, 30.0, "so it is", tuple(Word(30.0, 30.0, word) for word in ("so", "it", "is"))),
]
"""Sentences without length: between two others, before a pause, and at the end of a recording of 30 s."""


def test_a_caption_of_no_length_gets_as_much_time_as_can_be_seen() -> None:
    for segments in (SHORT, [replace(segment, words=()) for segment in SHORT], SHORT[-1:]):
        said = replace(transcript(*lasting(segments, 30.0, "en")), duration_seconds=30.0)
        rows = [row.split("\t") for row in render(said, "tsv").splitlines()[1:]]
        edges = [int(edge) for start, end, _ in rows for edge in (start, end)]
        assert edges == sorted(edges) and edges[-1] == 30_000
        assert all(int(end) - int(start) >= 300 for start, end, _ in rows)
        assert [(start, end) for start, end, _ in cues(render(said, "srt"))] == [
            tuple(format_clock(int(edge) / 1000, separator=",") for edge in row[:2]) for row in rows
        ]


def test_words_and_segments_of_no_length_get_some_and_stay_in_order() -> None:
    found = lasting(SHORT, 30.0, "en")
    edges = [0.0]
    for segment in found:
        edges.append(segment.start_seconds)
        edges += [edge for word in segment.words for edge in (word.start_seconds, word.end_seconds)]
        edges.append(segment.end_seconds)
    assert edges == sorted(edges) and edges[-1] == 30.0
    assert all(segment.end_seconds - segment.start_seconds > 0.299 for segment in found)
    words = [word for segment in found for word in segment.words]
    assert all(word.end_seconds - word.start_seconds > 0.0199 for word in words)
    assert [segment.text for segment in found] == ["one two For?", "three", "Yes.", "so it is"]
    assert found[1].end_seconds == 24.0 and found[0].start_seconds == 1.0, "what is long enough stays"
    assert lasting(found, 30.0, "en") == found


def cues(text: str) -> list[tuple[str, str, list[str]]]:
    found = []
    for block in text.strip().split("\n\n"):
        _, times, *lines = block.split("\n")
        start, end = times.split(" --> ")
        found.append((start, end, lines))
    return found


def test_long_segments_become_captions_of_two_lines_timed_by_their_words() -> None:
    texts = LONG.split()
    words = tuple(Word(float(i), i + 0.9, word) for i, word in enumerate(texts))
    found = cues(render(transcript(Segment(0.0, 17.0, LONG, words)), "srt"))
    assert len(found) > 1
    assert all(len(lines) <= 2 and max(map(len, lines)) <= 42 for _, _, lines in found)
    assert " ".join(" ".join(lines) for _, _, lines in found) == LONG
    for start, _, lines in found:
        second = texts.index(lines[0].split()[0])
        assert start == f"00:00:{second:02d},000"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("zh", "I went to a café on the corner… and said “hello” to the old man who was sitting there"),
        ("zh", "今天天气很好 我们去公园吧 你想不想一起来 我在门口等你 记得带伞 外面要下雨了"),
        ("th", "สวัสดีครับ ทุกคน วันนี้ เราจะมา พูดถึงเรื่อง การเรียนภาษา และการเดินทาง ไปต่างประเทศ"),
    ],
)
def test_captions_of_words_have_the_spaces_of_their_text(language: str, text: str) -> None:
    texts = list("".join(text.split())) if "今" in text else text.split()
    words = tuple(Word(float(i), i + 0.9, word) for i, word in enumerate(texts))
    said = transcript(Segment(0.0, 99.0, text, words), language=language)
    found = cues(render(said, "srt", CaptionLayout(30, 2)))
    lines = [line for _, _, lines in found for line in lines]
    assert len(found) > 1 and all(line in text for line in lines)
    assert "".join("".join(lines).split()) == "".join(texts)


def test_long_segments_without_words_share_their_time() -> None:
    found = cues(render(transcript(Segment(2.0, 12.0, LONG)), "srt"))
    assert found[0][0] == "00:00:02,000"
    assert found[-1][1] == "00:00:12,000"
    assert all(one[1] == two[0] for one, two in itertools.pairwise(found))


def test_chinese_breaks_between_characters_and_never_before_punctuation() -> None:
    text = "今天北京的天气怎么样我想知道明天会不会下雨，如果下雨的话我就不去公园了。"
    lines = wrap(text)
    assert "".join(lines) == text
    assert len(lines) > 1
    assert all(line[0] not in "，。" for line in lines)
    assert all(len(line) <= 22 for line in lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Buenos días. ¿Internacional?", ["Buenos días.", "¿Internacional?"]),
        ('"yes" "no" "maybe" "or not"', ['"yes" "no"', '"maybe" "or', 'not"']),
        ("Tu as dit « comment » ?", ["Tu as dit", "« comment » ?"]),
        ("他说他读的是「红楼梦」了", ["他说他读的是", "「红楼梦」了"]),
        ("他说他读的书是“红楼梦”了", ["他说他读的书是", "“红楼梦”了"]),
    ],
)
def test_a_mark_stays_with_what_it_belongs_to(text: str, lines: list[str]) -> None:
    assert wrap(text, 15) == lines


def test_korean_breaks_at_its_spaces_and_japanese_never_before_what_belongs_to_the_character_before() -> None:
    assert wrap("저는 오늘 학교에서 친구들과 함께 한국어를 공부했습니다", 20) == [
        "저는 오늘 학교에서",
        "친구들과 함께",
        "한국어를",
        "공부했습니다",
    ]
    assert wrap("인공지능음성인식", 8) == ["인공지능", "음성인식"], "a word that is wider than a line"
    assert wrap("コーヒーとビールをテーブルに", 10) == ["コーヒーと", "ビールを", "テーブルに"]
    assert wrap("きょうちょっとまって", 10) == ["きょう", "ちょっと", "まって"]


def test_a_word_that_is_taller_than_a_caption_has_several() -> None:
    long = Segment(0.0, 4.0, "internationalization", (Word(0.0, 4.0, "internationalization", 0.9),))
    assert render(transcript(long), "srt", CaptionLayout(8, 1)).split("\n\n") == [
        "1\n00:00:00,000 --> 00:00:01,600\ninternat",
        "2\n00:00:01,600 --> 00:00:03,200\nionaliza",
        "3\n00:00:03,200 --> 00:00:04,000\ntion\n",
    ]


def test_what_people_see_as_one_character_is_never_split() -> None:
    family, flag, thumb, accent = "👨‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301"
    assert list(clusters(family + flag + thumb + accent)) == [family, flag, thumb, accent]
    lines = wrap(family * 40)
    assert len(lines) > 1
    assert all(line.replace(family, "") == "" for line in lines)


def test_right_to_left_text_stays_in_its_logical_order() -> None:
    text = "השמש זורחת היום על העיר הגדולה והאנשים הולכים לאורך הרחוב הארוך אל הים הכחול"
    lines = wrap(text)
    assert len(lines) > 1
    assert " ".join(lines) == text


def test_a_file_is_written_under_a_name_every_system_takes(tmp_path: Path) -> None:
    path = write(TWO, "srt", tmp_path / "out", "../../etc/pass:wd\n.mp3")
    assert path.parent == tmp_path / "out"
    assert path.read_text(encoding="utf-8") == render(TWO, "srt")
    assert re.fullmatch(r"[^/\\:\n]+\.srt", path.name)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("打开 灯", "打开 灯"),
        ("con", "_con"),
        ("...", "_"),
        ("", "_"),
        ("a/b\\c", "a_b_c"),
        ("NUL.txt", "_NUL.txt"),
    ],
)
def test_names_of_files_keep_what_is_harmless(given: str, safe: str) -> None:
    assert safe_stem(given) == safe


def test_a_very_long_name_is_cut_without_splitting_a_character() -> None:
    assert safe_stem("灯" * 300) == "灯" * 40


@pytest.mark.parametrize(("columns", "count"), [(20, 1), (20, 3), (12, 2)])
def test_lines_are_as_wide_and_captions_as_tall_as_asked(columns: int, count: int) -> None:
    layout = CaptionLayout(max_line_width=columns, max_line_count=count)
    found = cues(render(transcript(Segment(0.0, 17.0, LONG)), "srt", layout))
    assert all(len(lines) <= count and max(map(len, lines)) <= columns for _, _, lines in found)
    assert max(len(lines) for _, _, lines in found) == count
    assert " ".join(" ".join(lines) for _, _, lines in found) == LONG


def test_right_to_left_text_and_emoji_survive_narrow_captions_whole() -> None:
    text = "השמש זורחת 👨‍👩‍👧 היום על העיר הגדולה 🇩🇪 והאנשים הולכים"
    found = cues(render(transcript(Segment(0.0, 4.0, text)), "srt", CaptionLayout(14, 1)))
    assert " ".join(" ".join(lines) for _, _, lines in found) == text


@pytest.mark.parametrize(("name", "value"), [("max_line_width", 3), ("max_line_count", 0)])
def test_a_layout_that_holds_no_text_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be between"):
        CaptionLayout(**{name: value})


def test_right_to_left_words_and_emoji_keep_their_own_times() -> None:
    texts = ["שלום", "👨‍👩‍👧", "مرحبا", "🇩🇪", "עולם", "👍🏽"]
    words = tuple(Word(float(i), i + 0.5, text) for i, text in enumerate(texts))
    segment = Segment(0.0, 5.5, " ".join(texts), words)
    found = cues(render(transcript(segment, language="he"), "srt", CaptionLayout(8, 1)))
    assert len(found) > 1
    assert " ".join(line for _, _, lines in found for line in lines) == segment.text
    for start, end, lines in found:
        said = lines[0].split()
        first, last = texts.index(said[0]), texts.index(said[-1])
        assert (start, end) == (f"00:00:{first:02d},000", f"00:00:{last:02d},500")


@pytest.mark.parametrize("format", ["srt", "vtt"])
def test_words_with_equal_times_make_captions_in_their_order_that_do_not_go_back(format: str) -> None:
    times = [(0.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 2.0)]
    texts = ["turn", "on", "the", "light"]
    words = tuple(Word(start, end, text) for (start, end), text in zip(times, texts, strict=True))
    text = render(transcript(Segment(0.0, 2.0, "turn on the light", words)), format, CaptionLayout(6, 1))
    lines = [line for line in text.splitlines() if line]
    clocks = [line.split(" --> ") for line in lines if "-->" in line]
    assert [line for line in lines if line in texts or line == "on the"] == ["turn", "on the", "light"]
    assert all(start <= end for start, end in clocks)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(clocks))
