"""Tokens of a window to segments, and the guard against loops."""

import pytest

from studio.transcription.special_tokens import SpecialTokens
from studio.transcription.windows import TokenSegment, cut_loop, is_loop, split_segments, without_loops

TOKENS = SpecialTokens(
    end=100, start=101, no_timestamps=109, languages={"en": 102}, tasks={"transcribe": 104}, previous=107
)


def at(seconds: float) -> int:
    """The time token."""
    return TOKENS.first_time + round(seconds / 0.02)


def spans(segments: list[TokenSegment]) -> list[tuple[float, float, tuple[int, ...]]]:
    return [(s.start_seconds, s.end_seconds, s.text_tokens) for s in segments]


def test_pairs_of_times_end_segments_and_text_cut_off_is_left_to_the_next_window() -> None:
    tokens = [at(0), 1, 2, at(4), at(5), 3, at(9), at(9.5), 4]
    segments, advance = split_segments(tokens, TOKENS, 30.0)
    assert spans(segments) == [(0.0, 4.0, (1, 2)), (5.0, 9.0, (3,))]
    assert advance == 9.0


def test_a_single_time_at_the_end_means_that_nothing_follows_in_the_window() -> None:
    segments, advance = split_segments([at(0), 1, at(4), at(4), 2, at(8)], TOKENS, 30.0)
    assert spans(segments) == [(0.0, 4.0, (1,)), (4.0, 8.0, (2,))]
    assert advance == 30.0


def test_a_window_without_pairs_is_one_segment() -> None:
    assert spans(split_segments([at(1), 1, 2], TOKENS, 12.0)[0]) == [(1.0, 12.0, (1, 2))]
    assert spans(split_segments([1, 2], TOKENS, 12.0)[0]) == [(0.0, 12.0, (1, 2))]
    assert split_segments([], TOKENS, 12.0) == ([], 12.0)


def test_no_time_lies_behind_the_end_of_the_recording() -> None:
    segments, advance = split_segments([at(0), 1, at(7), at(8), 2, at(29)], TOKENS, 6.5)
    assert [(s.start_seconds, s.end_seconds) for s in segments] == [(0.0, 6.5), (6.5, 6.5)]
    assert advance == 6.5


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.5])
def test_a_window_always_moves_on_by_a_second(seconds: float) -> None:
    tokens = [at(0), 1, at(seconds), at(seconds), 2]
    assert split_segments(tokens, TOKENS, 30.0)[1] == 1.0


def test_a_text_that_goes_round_in_circles_is_a_loop() -> None:
    rounds = [*range(4)] * 12
    assert is_loop("thank you for watching " * 12, rounds, TOKENS, was_cut=False)
    assert is_loop("谢谢大家" * 30, [5] * 30, TOKENS, was_cut=False)
    assert is_loop("and then he said that " * 20, list(range(90)), TOKENS, was_cut=True)


def test_a_loop_is_cut_after_its_first_round() -> None:
    assert cut_loop("就是许许" + "许" * 60, [3, 4, *[7] * 62], TOKENS, was_cut=True) == [3, 4, 7]
    stuck = [3, 4, *[7] * 62, 8, 7]
    assert cut_loop("就是许许" + "许" * 60 + "些许", stuck, TOKENS, was_cut=False) == [3, 4, 7, 8, 7]
    assert cut_loop("seven seven seven seven two", [7, 7, 7, 7, 2], TOKENS, was_cut=False) == [7, 7, 7, 7, 2]


def test_people_who_repeat_themselves_are_no_loop() -> None:
    thrice = "Ask not what your country can do for you, ask what you can do for your country. " * 3
    assert not is_loop(thrice, [*range(20)] * 3, TOKENS, was_cut=False)
    assert not is_loop("seven seven seven seven two", [7, 7, 7, 7, 2], TOKENS, was_cut=False)
    assert not is_loop("Ask what you can do for your country.", list(range(9)), TOKENS, was_cut=True)
    assert not is_loop("", [], TOKENS, was_cut=False)


def test_loops_are_cut_to_one_round() -> None:
    loop = TokenSegment(0.0, 4.0, (9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1))
    same = [TokenSegment(at, at + 1, (5, 6)) for at in (4.0, 5.0, 6.0)]
    assert [s.text_tokens for s in without_loops([loop, *same])] == [(9, 1, 2, 3), (5, 6)]
    plain = TokenSegment(0.0, 1.0, (1, 2, 1, 2))
    assert without_loops([plain]) == [plain]
