"""Text that repeats itself without end."""

from collections.abc import Sequence

from studio.transcription.loops import cut_loop, is_loop, once
from tests.unit.transcription.scripted_model import TOKENS

GOES_ON = "You can do it, you can do it. You can do it, you can do it, you can do it. You can do it! "
WORDS = ("就", "是", "\ufffd", "\ufffd", "许", "些", " we", " can", ",", ".", " so", " it")


def said(tokens: Sequence[int]) -> str:
    return "".join(WORDS[token] for token in tokens)


def test_a_text_that_goes_round_in_circles_is_a_loop() -> None:
    assert is_loop("thank you for watching " * 12, was_cut=False)
    assert is_loop("谢谢大家" * 30, was_cut=False)
    assert is_loop("and then he said that " * 20, was_cut=True)


def test_a_loop_stays_one_whatever_signs_stand_between_its_rounds() -> None:
    assert is_loop(GOES_ON * 2, was_cut=False)
    assert is_loop("谢谢大家。谢谢大家,谢谢大家 " * 8, was_cut=False)


def test_a_loop_is_cut_after_its_first_round() -> None:
    assert cut_loop([0, 1, *[4] * 62], said, was_cut=True) == [0, 1, 4]
    assert cut_loop([0, 1, *[4] * 62, 5, 4], said, was_cut=False) == [0, 1, 4, 5, 4]
    assert cut_loop([4, 4, 4, 4, 5], said, was_cut=False) == [4, 4, 4, 4, 5]
    signs = [10, *[6, 7, 11, 8, 6, 7, 11, 9] * 8, 10]
    assert cut_loop(signs, said, was_cut=False) == [10, 6, 7, 11, 8, 10], "So we can it, so"
    parts = [*[2, 3] * 20, *[3, 2] * 20]
    assert cut_loop(parts, said, was_cut=True) == [2, 3, 3, 2], "characters of two tokens each"


def test_people_who_repeat_themselves_are_no_loop() -> None:
    thrice = "Ask not what your country can do for you, ask what you can do for your country. " * 3
    assert not is_loop(thrice, was_cut=False)
    assert not is_loop("seven seven seven seven two", was_cut=False)
    assert not is_loop("Ask what you can do for your country.", was_cut=True)
    assert not is_loop("", was_cut=False)


def test_what_is_said_without_end_in_a_text_that_is_taken_stands_there_once() -> None:
    begins, ends = TOKENS.first_time, TOKENS.first_time + 90
    poor = [begins, 1, 2, *[3, 4] * 9, 3, 5, ends, ends, 6]
    assert once(poor) == [begins, 1, 2, 3, 4, 3, 5, ends, ends, 6], '"He is no poor, poor. …"'
    assert once([begins, *[7] * 7, ends]) == [begins, *[7] * 7, ends], "somebody laughs"
    assert once([]) == []
