"""What a person corrects keeps the times of what the model heard."""

from dataclasses import replace

import pytest

from studio.errors import ConfigError
from studio.transcription.captions import render
from studio.transcription.corrections import corrected, split_words
from studio.transcription.engine import Segment, Transcript, Word

WORDS = tuple(
    Word(float(at), at + 0.8, text, 0.9) for at, text in enumerate(["turn", "on", "the", "chicken", "light"])
)
HEARD = Transcript(
    "turn on the chicken light",
    (Segment(0.0, 5.0, "turn on the chicken light", WORDS), Segment(6.0, 8.0, "goodbye")),
    "en",
    9.0,
    "demo",
    "transformers",
)


def test_words_that_stayed_keep_their_times_and_a_new_one_takes_the_gap() -> None:
    segment = corrected(HEARD, ["turn on the kitchen light", "goodbye"]).segments[0]
    assert [word.text for word in segment.words] == ["turn", "on", "the", "kitchen", "light"]
    assert segment.words[2] == WORDS[2] and segment.words[4] == WORDS[4]
    new = segment.words[3]
    assert (new.start_seconds, new.end_seconds, new.probability) == (2.8, 4.0, None)
    assert (segment.start_seconds, segment.end_seconds) == (0.0, 5.0)


def test_the_corrected_text_is_in_every_file() -> None:
    after = corrected(HEARD, ["turn on the kitchen light", "good night"])
    assert after.text == "turn on the kitchen light good night"
    for ending in ("txt", "srt", "vtt", "tsv", "json"):
        content = render(after, ending)
        assert "kitchen" in content and "good night" in content and "chicken" not in content


def test_what_was_not_touched_is_the_same() -> None:
    assert corrected(HEARD, [segment.text for segment in HEARD.segments]).segments == HEARD.segments


def test_an_emptied_segment_goes() -> None:
    after = corrected(HEARD, ["  ", "goodbye"])
    assert [segment.text for segment in after.segments] == ["goodbye"] and after.text == "goodbye"


def test_words_put_in_at_the_ends_lie_within_the_segment() -> None:
    text = "please turn on the chicken light now then"
    words = corrected(HEARD, [text, "goodbye"]).segments[0].words
    assert " ".join(word.text for word in words) == text
    times = [time for word in words for time in (word.start_seconds, word.end_seconds)]
    assert times == sorted(times) and times[0] >= 0.0 and times[-1] <= 5.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turn on, please", ["turn", "on,", "please"]),
        ("打开灯。ok 好", ["打", "开", "灯。", "ok", "好"]),
        ("他读《红楼梦》了(对)", ["他", "读", "《红", "楼", "梦》", "了", "(对)"]),
        ("𠮷野家 ｶﾅ", ["𠮷", "野", "家", "ｶ", "ﾅ"]),
        ("f(x) “well” ok", ["f(x)", "“well”", "ok"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("👨‍👩‍👧 hi 👍🏽", ["👨‍👩‍👧", "hi", "👍🏽"]),
    ],
)
def test_words_are_split_as_the_script_has_them(text: str, words: list[str]) -> None:
    assert list(split_words(text)) == words


@pytest.mark.parametrize(
    ("language", "before", "after", "new"),
    [
        ("zh", "他|读|《红|楼|梦》|了", "他看《红楼梦》了", ["看"]),
        ("th", "วัน|นี้|เรา|มา|พูด|ถึง|ภาษา", "วันนี้เราจะมาพูดถึง ภาษา", ["จะ"]),
    ],
)
def test_without_spaces_too_words_that_stayed_are_the_same(
    language: str, before: str, after: str, new: list[str]
) -> None:
    words = tuple(Word(float(at), at + 1.0, text, 0.9) for at, text in enumerate(before.split("|")))
    heard = Segment(0.0, 9.0, before.replace("|", ""), words)
    (segment,) = corrected(replace(HEARD, segments=(heard,), language=language), [after]).segments
    assert [word.text for word in segment.words if word not in words] == new
    assert "".join(word.text for word in segment.words) == "".join(after.split())


def test_a_translation_has_the_spaces_of_its_own_language() -> None:
    translated = replace(HEARD, language="ja", written_in="en")
    assert corrected(translated, ["au café", "élan"]).text == "au café élan"


def test_another_number_of_texts_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 corrected text came for 2 segments"):
        corrected(HEARD, ["one"])
