"""Text that repeats itself without end."""

from studio.transcription.loops import cut_loop, is_loop, once
from tests.unit.transcription.scripted_model import TOKENS


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


def test_what_is_said_without_end_in_a_text_that_is_taken_stands_there_once() -> None:
    begins, ends = TOKENS.first_time, TOKENS.first_time + 90
    poor = [begins, 1, 2, *[3, 4] * 9, 3, 5, ends, ends, 6]
    assert once(poor) == [begins, 1, 2, 3, 4, 3, 5, ends, ends, 6], '"He is no poor, poor. …"'
    assert once([begins, *[7] * 7, ends]) == [begins, *[7] * 7, ends], "somebody laughs"
    assert once([]) == []
