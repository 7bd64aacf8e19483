"""Words from tokens and times: alignment, splitting, punctuation, scripts without spaces."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from studio.transcription.engine import Word
from studio.transcription.word_times import (
    _row_starts,
    alignment_heads,
    within_voice,
    without_stretched,
    words_of,
)


@dataclass
class ByteTokenizer:
    """Tokens are bytes of a vocabulary of pieces."""

    pieces: list[bytes]

    def decode(self, tokens: list[int], **_options: Any) -> str:
        return b"".join(self.pieces[token] for token in tokens).decode("utf-8", errors="replace")


def words(pieces: list[str | bytes], language: str = "en") -> list[Word]:
    raw = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    decoder: Any = SimpleNamespace(tokenizer=ByteTokenizer(raw))
    tokens = list(range(len(raw)))
    return words_of(decoder, language, tokens, [float(i) for i in range(len(raw) + 1)], [0.5] * len(raw))


def spans(found: list[Word]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start_seconds, word.end_seconds) for word in found]


def test_the_path_through_the_attention_gives_each_token_its_start() -> None:
    attention = np.zeros((3, 10))
    attention[0, :4] = attention[1, 4:7] = attention[2, 7:] = 1.0
    assert _row_starts(-attention).tolist() == [0, 4, 7]


def test_more_tokens_than_positions_still_get_times() -> None:
    starts = _row_starts(-np.eye(5, 2))
    assert len(starts) == 5
    assert sorted(starts) == starts.tolist()


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


def test_english_among_chinese_stays_a_word() -> None:
    assert [word.text for word in words(["我用", "Wi", "nd", "ows", "吗", "？"], "zh")] == [
        "我", "用", "Windows", "吗？",
    ]  # fmt: skip


def test_a_word_does_not_last_through_a_pause() -> None:
    usual = [Word(float(i), i + 0.4, "x") for i in range(5)]
    found = without_stretched([*usual, Word(5.0, 9.0, "last")])
    assert found[-1].end_seconds <= 6.0
    assert found[:5] == usual
    late = without_stretched([*usual, Word(5.0, 9.0, "late")], [(0.0, 5.1), (8.7, 9.0)])[-1]
    assert (late.start_seconds, late.end_seconds) == (8.7, 9.0), "the pause was before it"


def test_a_model_without_alignment_heads_uses_the_upper_half_of_its_decoder() -> None:
    assert alignment_heads({}, 4, 2) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert alignment_heads({"alignment_heads": [[1, 0], [9, 9]]}, 4, 2) == [(1, 0)]


def test_the_first_word_begins_and_the_last_ends_with_the_voice() -> None:
    heard = [Word(0.0, 1.5, "turn", None), Word(1.5, 2.0, "it", None), Word(2.0, 5.0, "on", None)]
    trimmed = within_voice(heard, [(1.0, 1.6), (1.9, 2.6)])
    assert spans(trimmed) == [("turn", 1.0, 1.5), ("it", 1.5, 2.0), ("on", 2.0, 2.6)]
    assert within_voice(heard, []) == heard
    assert within_voice(heard, [(6.0, 7.0)]) == heard
    assert within_voice([], [(1.0, 2.0)]) == []
