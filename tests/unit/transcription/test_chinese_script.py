"""Chinese in one script."""

from studio.transcription.chinese_script import OneScript
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
    assert texts(OneScript("auto").of(mixed)) == ["国家发展得很好", "这个问题", "我们说话"]
    assert texts(OneScript("traditional").of(mixed)) == ["國家發展得很好", "這個問題", "我們說話"]
    assert texts(OneScript("as_heard").of(mixed)) == ["国家发展得很好", "這個問題", "我们说话"]
    assert texts(OneScript("auto").of([segment("裡面的軟體"), segment("我说")])) == ["裡面的軟體", "我說"]


def test_what_a_phrase_decides_is_converted_as_a_whole() -> None:
    assert texts(OneScript("traditional").of([segment("头发"), segment("皇后和后面")])) == [
        "頭髮",
        "皇后和後面",
    ]
    assert texts(OneScript("taiwan").of([segment("软件")])) == ["軟體"]


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


def test_what_is_in_the_script_already_is_left_alone() -> None:
    for right in ("這個國家的公路有五公里，他喜歡游泳", "鄰里之間", "姓范的先生說"):
        assert texts(OneScript("auto").of([segment(right), segment("這個說法"), segment("国")]))[0] == right


def test_a_word_that_another_script_writes_shorter_keeps_its_time() -> None:
    (found,) = OneScript("taiwan").of([segment("在厄瓜多尔说")])
    assert found.text == "在厄瓜多說" == "".join(word.text for word in found.words)
    assert [word.text for word in found.words] == ["在", "厄", "瓜", "多", "說"]
    assert found.words[3].end_seconds == 0.5 and found.words[4].start_seconds == 0.5
