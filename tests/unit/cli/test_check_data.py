"""`check-data`: what it prints, writes and answers."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from studio.cli import evaluate
from studio.cli.check_data import run
from studio.dataset import sequences
from studio.errors import ConfigError
from studio.evaluation.result import read_evaluation
from studio.settings import DEMO_SPEECH, Settings
from tests.micro import make_tones


def test_a_report_is_printed_and_written(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make_tones(tmp_path, count=6)
    with manifest.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"audio": "gone.wav", "text": "x"}) + "\n")
    page = tmp_path / "out" / "report.html"
    asked = [str(manifest), "--html", str(page), "--normalizer", "basic", "--base_model", "demo"]
    assert run([*asked, "--transcribe", "2"], settings) == 1
    printed = capsys.readouterr()
    assert "6 of 7 rows can be used" in printed.out and "line 7: There is no audio file" in printed.out
    assert "of 'low' differs" in printed.out or "differs from" in printed.out
    assert "<svg" in page.read_text(encoding="utf-8")
    (quarantine,) = settings.quarantine.iterdir()
    assert str(quarantine) in printed.err
    assert [json.loads(line)["line"] for line in quarantine.read_text(encoding="utf-8").splitlines()] == [7]


def test_clips_that_are_in_both_lists_are_counted(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make_tones(tmp_path, count=6)
    said = "6 of 6 evaluation clips are also trained on: tone0.wav, tone1.wav, tone2.wav …"
    page = tmp_path / "report.html"
    assert run([str(manifest), "--test_data", str(manifest), "--html", str(page)], settings) == 0
    assert said in capsys.readouterr().out and said in page.read_text(encoding="utf-8")
    run([str(manifest), "--test_data", str(manifest), "--json"], settings)
    names = [f"tone{number}.wav" for number in range(3)]
    wanted = {"count": 6, "total": 6, "names": names}
    assert json.loads(capsys.readouterr().out)["shared"] == wanted
    run([str(manifest)], settings)
    assert "also trained on" not in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are Unicode")
@pytest.mark.parametrize("many", [False, True], ids=["in memory", "in a file"])
def test_a_folder_whose_name_is_no_unicode_is_checked_and_evaluated(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    if many:
        monkeypatch.setattr(sequences, "IN_MEMORY", 1)
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.copytree(DEMO_SPEECH / "samples", folder)
    source, report = folder / "list.csv", tmp_path / "report.json"
    row = "kitchen-light.flac,hello,2.0\n"
    source.write_text(f"file_name,text,duration\n{row}{row}", encoding="utf-8")
    bad = folder / "bad.jsonl"
    assert run([str(source), "--quarantine", str(bad), "--html", str(folder / "report.html")], settings) == 1
    assert run([str(source)], settings) == 1
    rows = [json.loads(line) for line in bad.read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["audio_path"]) for row in rows] == [
        (line, str(folder / "kitchen-light.flac")) for line in (2, 3)
    ]
    assert "not UTF-8. Rename it." in rows[0]["reason"]
    asked = ["--data", f"{source},demo:test", "--max_samples", "2", "--output_file", str(report)]
    assert evaluate.run(asked, settings) == 0
    assert [row.line for row in read_evaluation(report).problems] == [2, 3]


def test_of_several_lists_each_line_says_which_it_is_of(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = DEMO_SPEECH / "samples" / "kitchen-light.flac"
    for name in "ba":
        rows = f"audio,text\n{sound},what is said\n{tmp_path}/gone.wav,x\n"
        (tmp_path / f"{name}.csv").write_text(rows, encoding="utf-8")
    b, a = (str(tmp_path / f"{name}.csv") for name in "ba")
    monkeypatch.setattr(sequences, "IN_MEMORY", 1)
    assert run([f"{b},{a}"], settings) == 1
    printed = capsys.readouterr().out
    first, second = (f"{tmp_path.name}/{name}.csv" for name in "ba")
    assert f"line 2 of {second}: The clip and its text are the same as in line 2 of {first}." in printed
    assert f"line 3 of {second}: There is no" in printed and f"line 3 of {first}: There is no" in printed
    run([f"{b},{a}", "--min_audio_len", "20", "--json"], settings)
    told = [
        (row["source"], row["line"], row["kind"]) for row in json.loads(capsys.readouterr().out)["problems"]
    ]
    assert told == [
        (name, line, kind) for name in (a, b) for line, kind in ((2, "too_short"), (3, "unusable"))
    ]
    written = tmp_path / "result.json"
    evaluate.run(["--data", f"{b},{a}", "--output_file", str(written)], settings)
    assert f"Left out: line 3 of {second}: There is no" in capsys.readouterr().err
    assert [row.source for row in read_evaluation(written).problems] == [a, b]
    run([b], settings)
    assert "line 3: There is no" in capsys.readouterr().out


@pytest.mark.parametrize("length", ["nan", "-1"])
def test_a_length_that_is_none_is_refused(settings: Settings, length: str) -> None:
    with pytest.raises(ConfigError, match=f"a number of seconds from 0 on is needed, got '{length}'"):
        run(["demo:test", "--min_audio_len", length], settings)


@pytest.mark.parametrize("words", [["--transcribe", "3"], ["--transcribe", "few", "--base_model", "demo"]])
def test_slips_about_the_listening_model_are_answered(words: list[str], settings: Settings) -> None:
    with pytest.raises(ConfigError, match="--transcribe"):
        run(["demo:test", *words], settings)


def test_labels_that_nobody_counted_are_told(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make_tones(tmp_path, count=6, text="la " * 200)
    assert run([str(manifest)], settings) == 0
    assert "tokens of a model: 6 (--base_model has them counted)" in capsys.readouterr().out
    run([str(manifest), "--base_model", "demo"], settings)
    assert "has them counted" not in capsys.readouterr().out
