"""Which script of Chinese is written, and what is said of it."""

from studio.evaluation.scripts import script_sentences, scripts_written

SIMPLIFIED = ["我们说话", "这是什么", "人口"]
TRADITIONAL = ["我們說話", "這是什麼", "人口"]


def test_clips_are_counted_by_the_script_that_most_of_their_characters_are_of() -> None:
    found = scripts_written(SIMPLIFIED, {"a": TRADITIONAL, "b": [SIMPLIFIED[0], TRADITIONAL[1], ""]})
    assert found == {
        "references": {"simplified": 2},
        "a": {"traditional": 2},
        "b": {"simplified": 1, "traditional": 1},
    }


def test_nothing_is_said_of_other_languages() -> None:
    assert scripts_written(["it is so"], {"a": ["it is so"]}) == {}
    japanese = ["これは日本語の図書館です", "国"]
    assert scripts_written(japanese, {"a": ["国"]}) == {}, "kanji are of neither script"
    assert script_sentences({}, "none") == []


def test_who_is_compared_with_another_script_is_told_what_to_do() -> None:
    scripts = scripts_written(TRADITIONAL, {"a": SIMPLIFIED, "b": TRADITIONAL})
    told = [str(sentence) for sentence in script_sentences(scripts, "none")]
    assert told[0] == "a writes simplified characters in 2 clips, traditional ones in 0."
    assert told[1] == "b writes simplified characters in 0 clips, traditional ones in 2."
    assert told[2].startswith("The texts are in traditional characters, and what is written in others counts")
    assert len(script_sentences(scripts, "chinese")) == 2, "both are compared in one script"
    alike = scripts_written(TRADITIONAL, {"b": TRADITIONAL, "c": ["not a word of it", ""]})
    assert len(script_sentences(alike, "none")) == 1, "who writes no Chinese is not spoken of"
