"""`evaluate --result`: an evaluation that was saved is sorted, filtered and searched as on the page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from studio.cli import evaluate
from studio.dataset.example import RowProblem
from studio.errors import ConfigError, DataError
from studio.evaluation.explorer import Explorer
from studio.evaluation.result import ComparisonRow, Evaluation, NonSpeech, NormalizerRow
from studio.files import read_json, write_json
from studio.messages import Message
from studio.settings import Settings
from tests.unit.evaluation.test_explorer import SAID, A, B, evaluation

FOUND = evaluation(SAID, A, B)
WHOLE = replace(
    FOUND,
    models=tuple(replace(row, non_speech=NonSpeech(1.0, 0.0, 60.0)) for row in FOUND.models),
    comparisons=(ComparisonRow("wer", 0.1, -0.1, 0.2, False, 1, 2, "a", "b"),),
    problems=(RowProblem(6, Message("{name}", name="broken"), "6.wav"),),
    normalizers=tuple(NormalizerRow("none", name, 0.1, 0.1, 0, 0) for name in "ab"),
)
"""With something in every table."""


@pytest.fixture
def saved(tmp_path: Path) -> str:
    write_json(tmp_path / "evaluation.json", FOUND.to_json())
    return str(tmp_path / "evaluation.json")


def test_a_saved_evaluation_is_the_one_that_was_made(saved: str) -> None:
    assert Evaluation.from_json(read_json(Path(saved))) == FOUND
    assert Evaluation.from_json(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ("--sort list", [1, 2, 3, 4, 5]),
        ("--sort longest --rows 2", [5, 4]),
        ("--show lost --sort shortest", [1, 2, 4, 5]),
        ("--show gained", [3]),
        ("--show lost --errors_of a --compared_with b", [3]),
        ("--show corrected", []),
        ("--search KITCHEN", [2]),
        ("--group speaker=Q --sort list", [2, 4]),
        ("--group duration=2_to_5_s --sort list", [2, 3, 4]),
        ("--said light --written night", [1]),
        ("--said light", [1]),
        ("--said= --sort list", [4, 5]),
        ("--written=", [1]),
        ("--errors_at 0,50 --sort list", [1, 2]),
        ("--errors_at 3.4,300", [5, 4]),
        ("--errors_at 50,0 --errors_of a --compared_with b", [1, 2]),
    ],
)
def test_clips_are_those_that_the_page_shows_for_the_same_question(
    saved: str, settings: Settings, capsys: pytest.CaptureFixture[str], asked: str, lines: list[int]
) -> None:
    words = [word.replace("_to_5_s", " to 5 s") for word in asked.split()]
    assert evaluate.run(["--result", saved, *words, "--json"], settings) == 0
    told = json.loads(capsys.readouterr().out)
    rows = told["utterances"]
    assert [row["line"] for row in rows[::2]] == [row["line"] for row in rows[1::2]] == lines
    assert [row["model"] for row in rows] == ["a", "b"] * len(lines)
    assert told["clips"]["of"] == 5 and told["clips"]["found"] == (5 if "--rows" in asked else len(lines))


def test_a_clip_is_printed_with_its_sound_and_the_marked_texts_of_all_models(
    saved: str, settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    more = ["--errors", "--output_file", str(tmp_path / "all.json")]
    evaluate.run(["--result", saved, "--sort", "unsure", "--rows", "2", *more], settings)
    printed = capsys.readouterr().out
    assert printed.startswith("MODEL") and "# b\nwords right: " in printed
    assert "\ndeleted: on ×1\ninserted: and ×30, off ×29, " in printed
    assert re.search(r"\nSPEAKER +CLIPS +MER\n", printed)
    assert "\n5 of 5 clips, 2 are listed\n" in printed
    first, second = printed.split("\n\n")[-2:]
    assert first.startswith("# 4.wav · line 5 · 5.0 s · P\n  turn off\n  a (0.0 %, 44.9 % sure): turn off\n")
    assert second.splitlines() == [
        "# 2.wav · line 3 · 3.0 s · P",
        "  the light",
        "  a (50.0 %, 67.0 % sure): the [-light-] {+night+}",
        "  b (0.0 %, 54.9 % sure): the light",
    ]
    kept = json.loads((tmp_path / "all.json").read_text("utf-8"))
    whole = {**FOUND.to_json(), "errors": [Explorer(FOUND).summary(n) for n in (0, 1)]}
    assert kept == json.loads(json.dumps(whole)), "the file has all clips, not only those that are listed"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--group mood=good", "by 'mood': choose one of duration, speaker, loudness, speed"),
        ("--group speaker=R", "'R' by speaker: choose one of P, Q"),
        ("--errors_of c", "no model c in this evaluation: name one of a, b"),
        ("--errors_at 50", "errors_at takes two shares in percent, such as 20,45; got '50'"),
        ("--rows 0", "rows must be at least 1"),
        ("--sort size", "--sort"),
        ("--sort list --data demo", "leave out --data"),
        ("--save_corrected new.jsonl", "--save_corrected needs --corrections"),
    ],
)
def test_what_an_evaluation_does_not_have_is_refused_with_what_it_has(
    saved: str, settings: Settings, words: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        evaluate.run(["--result", saved, *words.split()], settings)


@pytest.mark.parametrize(
    "words",
    [
        *("--forms all --data demo --corrections a.csv", "--forms all --data demo --non_speech"),
        *("--audio_path a.wav --normalizer chinese", "--audio_path a.wav --remove_pun"),
    ],
)
def test_an_option_that_an_evaluation_would_not_follow_is_refused(settings: Settings, words: str) -> None:
    with pytest.raises(ConfigError, match=r"--(corrections|non_speech|normalizer|remove_pun)"):
        evaluate.run(["--models", "demo", *words.split()], settings)


def test_a_file_that_is_no_whole_evaluation_is_refused(tmp_path: Path, settings: Settings) -> None:
    whole = WHOLE.to_json()
    file = tmp_path / "a.json"
    others = (
        {**whole, table: [{**whole[table][0], name: other}, *whole[table][1:]]}
        for table in ("models", "comparisons", "normalizers", "utterances", "problems")
        for name, value in whole[table][0].items()
        for other in (["x"], "x" if isinstance(value, int | float | dict) else {})
        # Of a reason that cannot be read in other languages the text is taken.
        if name not in ("reason", "template", "values") and (name, other) != ("non_speech", {})
    )
    for found in (
        *others,
        {**whole, "models": [{**row, "scripts": {"simplified": "x"}} for row in whole["models"]]},
        {**whole, "models": [{**row, "scripts": {"simplified": 10**400}} for row in whole["models"]]},
        {**whole, "models": [{**row, "non_speech": {"seconds": 1.0}} for row in whole["models"]]},
        {**whole, "models": [{**row, "wer": 10**400} for row in whole["models"]]},
        {**whole, "reference_scripts": {"simplified": None}},
        {**whole, "problems": [{"line": 1}]},
        [],
        {"models": []},
        {**whole, "utterances": whole["utterances"][1:]},
        {**whole, "utterances": [{**row, "hypothesis": None} for row in whole["utterances"]]},
        {**whole, "utterances": [{**row, "more": 1} for row in whole["utterances"]]},
    ):
        file.write_text(json.dumps(found), encoding="utf-8")
        with pytest.raises(DataError, match=r"a\.json is no evaluation"):
            evaluate.run(["--result", str(file), "--sort", "list"], settings)
    file.write_text(json.dumps(whole)[:-40], encoding="utf-8")
    with pytest.raises(DataError, match="is no evaluation"):
        evaluate.run(["--result", str(file)], settings)


def test_of_chinese_the_printed_tables_and_comparisons_begin_with_the_errors_of_characters(
    settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    row = ComparisonRow("wer", 0.1, -0.1, 0.2, False, 1, 2, "a", "b")
    found = replace(
        evaluation(["打开灯", "开"], ["打开灯", "关"], ["打开", "开"]),
        comparisons=(row, replace(row, metric="cer")),
        normalizers=(NormalizerRow("none", "a", 1.0, 0.1, 0, 0), NormalizerRow("none", "b", 1.0, 0.1, 0, 0)),
    )
    path = tmp_path / "chinese.json"
    write_json(path, found.to_json())
    evaluate.run(["--result", str(path)], settings)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["MODEL", "CER", "WER", "MER", "CLIPS", "RTF"]
    assert [line.split()[3] for line in lines if " against " in line] == ["CER", "WER"]
    assert sum("(too few clips to tell)" in line for line in lines) == 2
    header = next(number for number, line in enumerate(lines) if line.startswith("NORMALIZER"))
    assert lines[header].split()[2:4] == ["CER", "WER"] and "10.0 %  100.0 %" in lines[header + 1]
    evaluate.run(["--result", str(path), "--json"], settings)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.to_json())), (
        "for programs as ever"
    )


def test_a_saved_evaluation_is_compared_by_another_normalizer(
    settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "evaluation.json"
    write_json(path, evaluation(["Open the light!"], ["open the light"]).to_json())
    for words, wer in (("--normalizer none", 2 / 3), ("--normalizer basic", 0.0), ("--remove_pun", 1 / 3)):
        evaluate.run(["--result", str(path), *words.split(), "--json"], settings)
        told = json.loads(capsys.readouterr().out)
        assert told["models"][0]["wer"] == told["utterances"][0]["wer"] == pytest.approx(wer)
        assert told["models"][0]["normalizer"] == {2 / 3: "none", 0.0: "basic"}.get(wer, "no_punctuation")
