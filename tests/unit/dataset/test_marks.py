"""What corpora write beside what is said is not learned as words."""

import json
from pathlib import Path

import pytest

from studio.dataset.marks import Marked, plain, told_by
from studio.errors import ManifestError
from tests.reading import read_manifest
from tests.unit.dataset.formats.conftest import reasons, write_sound


def two(first: str, last: str) -> list[dict[str, object]]:
    """Two sentences with their times."""
    return [{"start": 0.0, "end": 1.2, "text": first}, {"start": 1.5, "end": 2.0, "text": last}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Good <b>morning</b>.", Marked("Good <b>morning</b>.")),
        ("<eng> hello <cmn> \u4f60\u597d", Marked("<eng> hello <cmn> \u4f60\u597d")),
        ("<|en|><|transcribe|><|notimestamps|> Good morning.<|endoftext|>", Marked("Good morning.", "en")),
        ("<|startoftranscript|><|de|><|translate|> Good day.", Marked("Good day.", "de", "translate")),
        ("<|0.00|> Good.<|1.20|><|1.50|> Day.<|2.00|>", Marked("Good. Day.", sentences=two("Good.", "Day."))),
        (
            "<en><asr><0.00> Good.<1.20><1.50> Day.<2.00>",
            Marked("Good. Day.", "en", None, None, two("Good.", "Day.")),
        ),
        ("<en><asr><0.00> Good.<1.20><1.50> Day.", Marked("Good. Day.", "en")),
        ("<de><st_en><notimestamps> Good day.", Marked("Good day.", "de", None, "en")),
        ("<|zh|><|NEUTRAL|><|Speech|><|withitn|>\u4f60\u597d\u3002", Marked("\u4f60\u597d\u3002", "zh")),
        ("<|nospeech|><|EMO_UNKNOWN|><|BGM|><|woitn|>", Marked("<|nospeech|>")),
    ],
)
def test_tokens_before_a_text_tell_of_it(text: str, told: Marked) -> None:
    assert told_by(text) == told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("HI <COMMA> YOU <period>", "HI, YOU."),
        ("[SPEAKER_00]: Go. [SPEAKER_01]: No. SPEAKER_00: Yes.", "Go. No. Yes."),
        (
            "\u5361\u5c14\u666e#2\u966a\u5916\u5b59#1\u3002 Is it #1?",
            "\u5361\u5c14\u666e\u966a\u5916\u5b59\u3002 Is it #1?",
        ),
        ("\u623f\u95f4#2\u53f7", "\u623f\u95f4#2\u53f7"),
        (
            "\uadf8\ub798\uac00\uc9c0\uace0 (3\uc2dc)/(\uc138 \uc2dc)\uc5d0 \ub9cc\ub098+ \ub9cc\ub098. b/",
            "\uadf8\ub798\uac00\uc9c0\uace0 3\uc2dc\uc5d0 \ub9cc\ub098 \ub9cc\ub098.",
        ),
        ("n/ \uc74c/ \ud655\ub960\uc774\ub77c\ub2c8* o/", "\uc74c \ud655\ub960\uc774\ub77c\ub2c8"),
        ("\ub0a8/\ub140 A+ 3*4", "\ub0a8/\ub140 A+ 3*4"),
        ("(a)/(b) and/or b/ c", "(a)/(b) and/or b/ c"),
    ],
)
def test_a_text_is_written_as_people_write_it(text: str, said: str) -> None:
    assert plain(text) == said


@pytest.mark.parametrize("text", ["<NOISE>", "<MUSIC> <OTHER>", "ignore_time_segment_in_scoring"])
def test_what_says_that_nobody_speaks_is_no_text(text: str) -> None:
    with pytest.raises(ManifestError, match="nobody speaks there"):
        plain(text)


@pytest.mark.parametrize("times", ["00:00:01,000 --> 00:00:02,000\n", "[00:01.00 --> 00:02.000] "])
def test_captions_are_no_text(times: str) -> None:
    assert plain("from here --> there") == "from here --> there"
    with pytest.raises(ManifestError, match="The text has the times of captions in it"):
        plain(f"{times}good morning")


@pytest.mark.parametrize("begin", ["<|", "<", "<comma>", "(", "[[", "\ud55c/"])
@pytest.mark.parametrize("repeated", ["a", " ", "<|en|>", "<en>", "(", "\n", "+"])
def test_marks_without_end_take_no_longer_than_other_text(begin: str, repeated: str) -> None:
    text = begin + repeated * 100_000
    plain(told_by(text).text)


def test_a_list_with_tokens_is_read_by_them(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 3.0)
    texts = [
        "<|de|><|transcribe|><|0.00|> Guten<|1.20|><|1.50|> Tag.<|2.00|>",
        "<de><st_fr> Jour.",
        "<|de|>",
        "<SIL>",
    ]
    rows = [json.dumps({"audio": "a.wav", "text": text}) for text in texts]
    (tmp_path / "list.jsonl").write_text("\n".join(rows), encoding="utf-8")
    manifest = read_manifest(tmp_path / "list.jsonl")
    (clip,) = manifest.examples
    assert (clip.text, clip.language) == ("Guten Tag.", "de")
    assert [(one.start_seconds, one.end_seconds, one.text) for one in clip.segments] == [
        (0.0, 1.2, "Guten"),
        (1.5, 2.0, "Tag."),
    ]
    assert reasons(manifest) == [
        (2, "The speech is in de and the text in fr: Whisper translates into English alone."),
        (3, "The row has no text."),
        (4, "The text is <SIL>: nobody speaks there."),
    ]
