"""Checks of the texts against one another and against their language."""

from pathlib import Path

import pytest

from studio.dataset.example import Example
from studio.dataset.text_checks import capitals, mixed_punctuation, odd_rates, other_scripts, tags


def example(line: int, text: str, language: str | None = "en", task: str | None = None) -> Example:
    return Example(Path("a.wav"), text, language, task, None, None, 1.0, (), line)


def test_the_rarer_kind_of_ending_is_named() -> None:
    rows = [example(line, "It is so." if line != 3 else "it is so") for line in range(1, 11)]
    assert [problem.line for problem in mixed_punctuation(rows)] == [3]
    rows = [example(line, "好吗？" if line == 4 else "好") for line in range(1, 11)]
    assert [problem.line for problem in mixed_punctuation(rows)] == [4]


def test_a_mix_in_halves_is_told_once() -> None:
    rows = [example(line, "so." if line % 2 else "so") for line in range(1, 11)]
    assert [problem.line for problem in mixed_punctuation(rows)] == [1]


def test_texts_of_one_kind_are_no_mix() -> None:
    assert list(mixed_punctuation([example(1, "so."), example(2, "Why?")])) == []


def test_texts_in_capitals_are_told_once_where_most_are_and_words_that_are_written_so_are_none() -> None:
    rows = [example(line, "THE USA'S 50 STATES" if line > 2 else "a word") for line in range(1, 7)]
    (told,) = capitals(rows)
    assert (told.line, told.kind) == (3, "capitals") and "as 4 of 6 are" in str(told.reason)
    assert list(capitals(rows[:3])) == []
    assert list(capitals([example(1, "USA"), example(2, "打开 TV"), example(3, "12 34")])) == []
    assert list(capitals([])) == []


def test_tags_that_nobody_says_are_told_once() -> None:
    texts = ("well", "AND SO <COMMA> HE WENT", "<eng><asr><0.00> good<2.00>", "yes [laughter] yes")
    (told,) = tags([example(line, text) for line, text in enumerate(texts, start=1)])
    assert (told.line, told.kind) == (2, "tags")
    assert "<COMMA> in it, and 3 of 4 have" in str(told.reason)
    assert list(tags([example(1, "a < b and c > d [1]")])) == []


@pytest.mark.parametrize(
    ("text", "language", "is_other"),
    [
        ("打开客厅的灯", "en", True),
        ("turn on the light", "Chinese", True),
        ("打开 wifi", "zh", False),
        ("OK", "zh", False),
        ("привет всем", "ru", False),
        ("привет всем", "deu", True),
        ("学校の話です", "ja", False),
        ("whatever it is", None, False),
        ("anything at all", "tlh", False),
    ],
)
def test_letters_of_another_language_are_named(text: str, language: str | None, is_other: bool) -> None:
    assert bool(list(other_scripts([example(1, text, language)]))) is is_other


def test_a_translation_is_to_be_english_whatever_is_spoken() -> None:
    assert list(other_scripts([example(1, "turn on the light", "zh", "translate")])) == []
    (problem,) = other_scripts([example(1, "打开客厅的灯", "zh", "translate")])
    assert str(problem.reason) == "The text is not written in the letters of its language en."


def test_the_speed_of_translations_is_compared_with_that_of_english() -> None:
    rows = [example(line, "", "zh", "translate" if line % 3 else None) for line in range(1, 61)]
    assert list(odd_rates(rows, [16.0 if row.task else 4.0 for row in rows])) == []
