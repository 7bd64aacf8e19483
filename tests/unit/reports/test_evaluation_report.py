"""An evaluation in one file: whole, escaped, and without anything that it would have to fetch."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

from studio.dataset.example import RowProblem
from studio.evaluation.compare import every_normalizer
from studio.evaluation.explorer import Explorer
from studio.evaluation.result import ComparisonRow, Evaluation
from studio.messages import Message
from studio.reports.evaluation_report import evaluation_report
from tests.unit.evaluation.test_explorer import evaluation

EVIL = "<img src=x onerror=alert(1)> \x00 😀 שלום"


def found(demo_speech: Path) -> Evaluation:
    """Two clips that can be heard, and one whose file is gone."""
    texts = [EVIL, "turn on", "हिन्दी में"]
    made = evaluation(texts, texts, ["turn", EVIL, "हिन्दी"])
    sound = str(demo_speech / "samples" / "kitchen-light.flac")
    rows = [
        replace(row, audio_path=sound if row.line < 3 else "gone.wav", speaker="<b>")
        for row in made.utterances
    ]
    table = every_normalizer(["a", "b"], texts, [texts, ["turn", EVIL, "हिन्दी"]])
    return replace(made, utterances=tuple(rows), normalizers=tuple(table))


def test_the_file_holds_all_and_runs_and_fetches_nothing(demo_speech: Path) -> None:
    made = found(demo_speech)
    shown = evaluation_report(made, Explorer(made), "zh-CN", has_sound=True)
    assert (
        "<img" not in shown
        and "<script" not in shown
        and "\0" not in shown
        and "<b>" not in shown.split("b>")[0]
    )
    assert shown.count("data:audio/flac;base64,") == 2, "the third clip stands there without its sound"
    assert {found[:5] for found in re.findall(r'(?:src|href)="([^"]*)', shown)} == {"data:"}
    for text in ("各种文本规范化对照", "错误（MER）", "हिन्दी", "&lt;img"):
        assert text in shown
    assert "data:audio" not in evaluation_report(made, Explorer(made), "en", has_sound=False)
    assert "第 1 行</span>" in shown and "1.0\u00a0秒" in shown, "a figure and its unit stay on one line"
    of_two = replace(made, utterances=tuple(replace(row, source="/a/b.csv") for row in made.utterances))
    assert "第 1 行（a/b.csv）" in evaluation_report(of_two, Explorer(of_two), "zh-CN", has_sound=False)
    assert evaluation_report(Evaluation("list", (), (), ()), None, "en", has_sound=True).endswith("</html>\n")


def test_rows_that_were_left_out_are_named_with_their_reason(demo_speech: Path) -> None:
    made = found(demo_speech)
    assert "<summary>" in (whole := evaluation_report(made, Explorer(made), "en", has_sound=False))
    assert "left out" not in whole
    gone = RowProblem(4, Message("There is no sound file {path}.", path="<b>.wav"), "/a/<b>.wav")
    shown = evaluation_report(replace(made, problems=(gone,)), Explorer(made), "zh-CN", has_sound=False)
    assert "略过" in shown and "/a/&lt;b&gt;.wav" in shown and "<b>.wav" not in shown


def test_words_that_are_seldom_wrong_are_folded_away_and_none_is_left_out() -> None:
    said = [f"word{n:02}" for n in range(30)]
    made = evaluation(said, [f"other{n}" for n in range(30)])
    shown = evaluation_report(made, Explorer(made), "en", has_sound=False)
    words, folded = shown.partition("18 more")[::2]
    assert all(f"<bdi>{word}</bdi>" in shown for word in said)
    assert "word11" in words and "word12" not in words.partition("Said")[0] and "word29" in folded


def test_words_that_are_always_right_are_listed_those_first_that_are_said_most() -> None:
    made = evaluation(["turn on the light", "turn it off"], ["turn on the night", "turn it off"])
    shown = evaluation_report(made, Explorer(made), "en", has_sound=False)
    listed = re.findall("<bdi>(.*?)</bdi>", shown.partition("Words always right")[2].partition("</table>")[0])
    assert listed == ["turn", "it", "off", "on", "the"]


def test_a_table_of_the_clips_is_read_back_as_it_was(demo_speech: Path) -> None:
    made = found(demo_speech)
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert [(row["model"], row["reference"]) for row in rows] == [
        (row.model, row.reference.replace("\0", "")) for row in made.utterances
    ]


def test_normalisations_beside_each_other_show_which_one_makes_a_difference() -> None:
    said = ["हिन्दी में।", "Hello, you"]
    rows = list(every_normalizer(["a", "b"], said, [said, ["हिन्दी में", "hello you"]]))
    by_name = {(row.normalizer, row.model): row for row in rows}
    assert by_name["basic", "b"].cer == by_name["basic", "b"].wer == 0.0
    none = by_name["none", "b"]
    assert (none.better, none.worse, none.wer) == (0, 2, 0.5)
    assert by_name["no_punctuation", "b"].wer == 0.25


def test_of_chinese_the_errors_of_characters_come_first() -> None:
    made = evaluation(["打开灯", "开"], ["打开灯", "关"], ["打开", "开"])
    row = ComparisonRow("wer", 0.1, -0.1, 0.2, False, 1, 2, "a", "b")
    made = replace(made, comparisons=(row, replace(row, metric="cer")))
    shown = evaluation_report(made, Explorer(made), "en", has_sound=False)
    assert shown.index("CER (characters)") < shown.index("WER (words)") and shown.index(
        "CER: "
    ) < shown.index("WER: ")
    listed = replace(made, utterances=tuple(replace(row, language="en") for row in made.utterances))
    shown = evaluation_report(listed, Explorer(listed), "en", has_sound=False)
    assert shown.index("WER (words)") < shown.index("CER (characters)"), "what the list says is not doubted"
