"""Which script of Chinese is written, and what is said of it."""

from dataclasses import asdict
from typing import Any

from studio.evaluation.compare import every_normalizer
from studio.evaluation.scripts import (
    errors_in_one_script,
    other_script_sentences,
    script_sentences,
    scripts_of,
)

SIMPLIFIED = ["我们说话", "这是什么", "人口"]
TRADITIONAL = ["我們說話", "這是什麼", "人口"]


def evaluated(normalizer: str, references: list[str], **hypotheses: list[str]) -> dict[str, Any]:
    return {
        "reference_scripts": scripts_of(references),
        "models": [
            {"id": model, "normalizer": normalizer, "scripts": scripts_of(texts)}
            for model, texts in hypotheses.items()
        ],
        "normalizers": list(map(asdict, every_normalizer([*hypotheses], references, [*hypotheses.values()]))),
    }


def test_clips_are_counted_by_the_script_that_most_of_their_characters_are_of() -> None:
    assert scripts_of(SIMPLIFIED) == {"simplified": 2}
    assert scripts_of(TRADITIONAL) == {"traditional": 2}
    assert scripts_of([SIMPLIFIED[0], TRADITIONAL[1], ""]) == {"simplified": 1, "traditional": 1}


def test_in_one_script_only_what_was_misheard_is_wrong() -> None:
    heard = ["我們說話", "那是什麼", "人口"]
    assert errors_in_one_script(SIMPLIFIED, heard) == errors_in_one_script(TRADITIONAL, heard) == 0.1
    assert errors_in_one_script(["it is so"], ["it was so"]) is None


def test_nothing_is_said_of_other_languages() -> None:
    assert scripts_of(["it is so"]) == {}
    assert scripts_of(["これは日本語の図書館です", "国"]) == {}, "kanji are of neither script"
    assert script_sentences(evaluated("none", ["it is so"], a=["it was so"])) == []


def test_whose_errors_are_capitals_is_told_unless_they_are_not_counted() -> None:
    texts = {"a": ["it is so"], "b": ["IT IS NO"], "c": ["It is so"]}
    (told,) = script_sentences(evaluated("none", ["IT IS SO"], **texts))
    assert str(told).startswith("More than a third of the errors of a, c are capitals alone")
    assert script_sentences(evaluated("lowercase", ["IT IS SO"], **texts)) == []


def test_who_is_compared_with_another_script_is_told_what_to_do() -> None:
    told = [
        str(sentence)
        for sentence in script_sentences(evaluated("none", TRADITIONAL, a=SIMPLIFIED, b=TRADITIONAL))
    ]
    assert told[0] == "a writes simplified characters in 2 clips, traditional ones in 0."
    assert told[1] == "b writes simplified characters in 0 clips, traditional ones in 2."
    assert told[2].startswith("What is written in another script than the reference counts as wrong")
    both = script_sentences(evaluated("chinese", TRADITIONAL, a=SIMPLIFIED, b=TRADITIONAL))
    assert len(both) == 2, "both are compared in one script"
    alike = script_sentences(evaluated("none", TRADITIONAL, b=TRADITIONAL, c=["not a word of it", "", ""]))
    assert len(alike) == 1, "who writes no Chinese is not spoken of"


def test_of_one_recording_the_characters_of_another_script_are_told_of_each_model() -> None:
    written = {"a": TRADITIONAL[0], "b": SIMPLIFIED[0], "c": "我們说话"}
    told = [str(sentence) for sentence in other_script_sentences(SIMPLIFIED[0], written)]
    assert (
        told[0]
        == "a writes traditional characters (3) where the reference is simplified: they count as errors."
    )
    assert told[1].startswith("c writes traditional characters (1)")
    assert told[2].startswith("The text normalization chinese") and len(told) == 3
    told = [str(sentence) for sentence in other_script_sentences(TRADITIONAL[0], {"b": SIMPLIFIED[0]})]
    assert told[0].startswith("b writes simplified characters (3) where the reference is traditional")
    for reference in ("it is so", "人口", "これは日本語の図書館です", ""):
        assert other_script_sentences(reference, written) == []
    assert other_script_sentences("国", {"a": "これは図書館と國です"}) == [], "kanji are of neither script"
