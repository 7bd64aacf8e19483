"""Chinese in one script."""

import pytest

from studio.transcription.chinese_script import OneScript, in_one_script, main_script
from studio.transcription.engine import Segment, Word


def segment(text: str) -> Segment:
    return Segment(0.0, 1.0, text, tuple(Word(n / 10, (n + 1) / 10, char) for n, char in enumerate(text)))


def texts(found: tuple[Segment, ...]) -> list[str]:
    for one in found:
        assert "".join(word.text for word in one.words) == one.text
        assert [word.start_seconds for word in one.words] == [n / 10 for n in range(len(one.words))]
    return [one.text for one in found]


def test_most_characters_decide_unless_a_script_is_asked_for() -> None:
    mixed = [segment("国家发展得很好"), segment("這個問題"), segment("我们说话")]
    assert texts(in_one_script(mixed, "auto")) == ["国家发展得很好", "这个问题", "我们说话"]
    assert texts(in_one_script(mixed, "traditional")) == ["國家發展得很好", "這個問題", "我們說話"]
    assert texts(in_one_script(mixed, "as_heard")) == ["国家发展得很好", "這個問題", "我们说话"]
    assert texts(in_one_script([segment("裡面的軟體"), segment("我说")], "auto")) == ["裡面的軟體", "我說"]


def test_what_a_phrase_decides_is_converted_as_a_whole() -> None:
    assert texts(in_one_script([segment("头发"), segment("皇后和后面")], "traditional")) == [
        "頭髮",
        "皇后和後面",
    ]
    assert texts(in_one_script([segment("软件")], "taiwan")) == ["軟體"]


def test_a_text_that_grows_is_converted_once_unless_the_other_script_comes_to_prevail() -> None:
    script = OneScript("auto")
    first = [segment("這個問題"), segment("国")]
    before = script.of(first)
    assert texts(before) == ["這個問題", "國"]
    more = [segment("说话"), *first]
    after = script.of(more)
    assert texts(after) == ["說話", "這個問題", "國"]
    assert all(one is same for one, same in zip(after[1:], before, strict=True)), "converted only once"
    assert texts(script.of([*more, segment("我们说话")])) == ["说话", "这个问题", "国", "我们说话"]


@pytest.mark.parametrize(
    ("text", "script"), [("头发", "simplified"), ("頭髮", "traditional"), ("人 2", ""), ("", "")]
)
def test_a_text_tells_its_script(text: str, script: str) -> None:
    assert main_script(text) == script
