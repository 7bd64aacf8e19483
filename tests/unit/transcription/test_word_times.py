"""Words from tokens and times: alignment, splitting, punctuation, scripts without spaces."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from studio.transcription.engine import Word
from studio.transcription.window_model import TokenTimes
from studio.transcription.word_times import segments_of, within_voices, words_of


def words(pieces: list[str | bytes], language: str = "en") -> list[Word]:
    """Words of tokens that are pieces of bytes, a second each; their texts without spaces around."""
    raw = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    model: Any = SimpleNamespace(
        decoded=lambda tokens: b"".join(raw[token] for token in tokens).decode("utf-8", errors="replace")
    )
    times = TokenTimes(np.arange(len(raw) + 1.0), np.full(len(raw), 0.5))
    found = words_of(model, language, list(range(len(raw))), times)
    return [replace(word, text=word.text.strip()) for word in found]


def spans(found: list[Word]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start_seconds, word.end_seconds) for word in found]


def test_words_are_split_at_spaces_and_keep_their_punctuation() -> None:
    found = words([" Hel", "lo", ",", " world", "!", ' "', "Yes", '"', "."])
    assert [word.text for word in found] == ["Hello,", "world!", '"Yes".']
    assert spans(found)[0] == ("Hello,", 0.0, 2.0)


def test_chinese_is_a_word_a_character_also_where_a_token_holds_two_or_half_of_one() -> None:
    light = "灯".encode()
    found = words(["打开", "厨", "房", light[:1], light[1:], "。"], "zh")
    assert spans(found) == [
        ("打", 0.0, 0.5),
        ("开", 0.5, 1.0),
        ("厨", 1.0, 2.0),
        ("房", 2.0, 3.0),
        ("灯。", 3.0, 5.0),
    ]


def test_bytes_that_are_no_character_take_nothing_else_with_them() -> None:
    light = "灯".encode()
    found = words([" turn", light[:1], light[1:2], " it", " on", light[:1]])
    assert spans(found) == [("turn\ufffd", 0.0, 1.0), ("it", 2.0, 4.0), ("on", 4.0, 5.0)]


def test_english_among_chinese_stays_a_word() -> None:
    assert [word.text for word in words(["我用", "Wi", "nd", "ows", "吗", "？"], "zh")] == [
        "我", "用", "Windows", "吗？",
    ]  # fmt: skip


def voices(*spans: tuple[float, float]) -> list[tuple[float, float]]:
    """As the detector tells them, a little wider than they are."""
    return [(start - 0.08, end + 0.08) for start, end in spans]


def near(found: list[Word]) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start_seconds, 3), round(word.end_seconds, 3)) for word in found]


def test_a_word_lasts_as_long_as_the_longest_voice_in_its_time() -> None:
    usual = [Word(float(i), i + 0.4, "x") for i in range(5)]
    spoken = voices(*[(float(i), i + 0.4) for i in range(5)], (5.0, 5.1), (8.5, 8.9))
    late = near(within_voices([*usual, Word(5.0, 9.0, "late")], spoken))
    assert late[:5] == near(usual)
    assert late[5] == ("late", 8.5, 8.9), "the pause was before it"
    assert near(within_voices([Word(0.0, 1.5, "turn")], voices((1.0, 1.6)))) == [("turn", 1.0, 1.6)]


def test_the_first_word_begins_and_the_last_ends_with_a_voice_that_nobody_else_has() -> None:
    said = [Word(1.3, 1.6, "one"), Word(1.6, 2.0, "two")]
    assert near(within_voices(said, voices((1.0, 2.3)))) == [("one", 1.0, 1.6), ("two", 1.6, 2.3)]
    assert near(within_voices(said, voices((0.2, 3.0)))) == near(said), "more was said there"


def test_a_word_in_a_pause_that_no_voice_shows_is_not_longer_than_others() -> None:
    usual = [Word(float(i), i + 0.4, "x") for i in range(5)]
    found = within_voices([*usual, Word(5.0, 9.0, "last")], [])
    assert found[:5] == usual
    assert found[-1].end_seconds - found[-1].start_seconds < 1.0
    assert within_voices([], [(1.0, 2.0)]) == []


def test_a_segment_ends_with_a_sentence_or_in_a_pause() -> None:
    def said(*rows: tuple[str, float, float]) -> list[tuple[str, float, float]]:
        found = segments_of([Word(start, end, text) for text, start, end in rows])
        return [(one.text, one.start_seconds, one.end_seconds) for one in found]

    assert said((" Mr.", 0, 0.4), (" Bo", 0.4, 1), (" left.", 1, 2), (" So?", 2, 3)) == [
        ("Mr.", 0, 0.4), ("Bo left.", 0.4, 2), ("So?", 2, 3),
    ]  # fmt: skip
    assert said((" 3.", 0, 0.4), ("5", 0.4, 1), (" volts", 1, 2)) == [("3.5 volts", 0, 2)]
    assert said((" turn", 0, 0.5), (" it", 0.5, 1.2), (" now", 1.9, 2.5)) == [
        ("turn it", 0, 1.2),
        ("now", 1.9, 2.5),
    ]
    assert said((" oh", 0, 0.3), (" well", 1.5, 2.0)) == [("oh well", 0, 2.0)], "too short for a segment"
    assert said(("你。", 0, 1), ("好", 1, 2)) == [("你。", 0, 1), ("好", 1, 2)]
    assert segments_of([]) == []
