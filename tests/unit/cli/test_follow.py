"""What the terminal says of a run's memory and of its end."""

from dataclasses import replace
from pathlib import Path

import pytest

from studio.cli.follow import Notes, memory_lines, tell
from studio.cli.runs import how_far
from studio.messages import Message
from studio.options.training import TrainingConfig
from studio.runs.status import JobState, RunStatus
from studio.ui.train.run_views import run_findings, run_status
from studio.units import GIB

PREDICTED = {"tensor_bytes": 3 * GIB, "allocated_bytes": 3 * GIB, "device_bytes": 4 * GIB}


def test_on_a_card_prediction_and_measurement_stand_side_by_side() -> None:
    measured = {"device": "T4", "allocated_bytes": 2 * GIB, "reserved_bytes": GIB, "device_bytes": None}
    (line,) = memory_lines({"predicted": PREDICTED, "measured": measured})
    assert line.startswith("Memory on T4") and "tensors 3.00 GiB → 2.00 GiB, allocator ? → 1.00 GiB" in line
    assert "card" not in line.partition(":")[2]


def test_without_a_gpu_the_process_is_not_called_tensors() -> None:
    (line,) = memory_lines({"predicted": PREDICTED, "measured": {"device": "cpu", "process_bytes": 5 * GIB}})
    assert "3.00 GiB of tensors predicted" in line and "the whole process grew by 5.00 GiB" in line


def test_a_run_that_measured_nothing_says_nothing() -> None:
    assert memory_lines(None) == memory_lines({"predicted": PREDICTED, "measured": None}) == []


def test_a_stopped_run_has_left_what_page_and_terminal_say(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = RunStatus("mine", JobState.STOPPED, TrainingConfig())
    begun = replace(stopped, started="2026-01-02")
    kept = replace(begun, has_checkpoint=True)
    for said, status in (("was trained", stopped), ("nothing is kept", begun), ("checkpoint is kept", kept)):
        tell(status)
        assert said in capsys.readouterr().err and said in run_status(status, "en")


LOST = {
    "checks": [
        {"check": "long_form", "base": 0.6, "tuned": 0.2, "verdict": "worse"},
        {"check": "silence", "base": 1.0, "tuned": 0.7, "verdict": "unclear"},
    ],
    "lost": ["long_form"],
    "unchecked": ["other_languages"],
}


def test_what_a_model_has_lost_stands_first_with_the_command_of_a_gentler_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = TrainingConfig(train_data="mine.jsonl", replay_share=0.0)
    status = RunStatus(
        "mine", JobState.FINISHED, config, model_id="mine", capabilities=LOST, learning_rate=0.001
    )
    tell(status)
    told = capsys.readouterr()
    first, *others = told.out.splitlines()
    assert first == "The base is better at: Long recordings. A gentler run forgets less."
    assert "Long recordings: 60.0 % → 20.0 % right (worse than the base)" in others
    assert "No text on silence: 100.0 % → 70.0 % right (too few clips to tell)" in others
    assert "Not checked: Other languages or styles." in others
    assert "--train_data mine.jsonl --learning_rate 0.0003" in told.err and "replay" not in told.err
    page = run_status(status, "zh-TW")
    assert page.index("長錄音") < page.index("已建立") and "未檢查" in run_findings(status, "zh-TW")


def test_a_model_that_has_lost_nothing_is_not_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    kept = {**LOST, "lost": []}
    tell(RunStatus("mine", JobState.FINISHED, TrainingConfig(), model_id="mine", capabilities=kept))
    told = capsys.readouterr()
    assert "gentler" not in told.out + told.err


def test_rows_that_are_not_used_are_told_once_and_so_is_what_was_noted_before(tmp_path: Path) -> None:
    data = {"skipped": [{"line": 6, "reason": "The clip is silent."}], "skipped_count": 2}
    warnings = (Message("{count} clips are shared.", count="8"), Message("No rehearsal."))
    status = RunStatus("mine", JobState.RUNNING, TrainingConfig(), data=data, warnings=warnings)
    notes = Notes(tmp_path / "mine.jsonl", {"8 clips are shared."})
    rows = "2 of the lists' rows are not used. Line 6: The clip is silent. All of them: "
    assert notes.of(status) == ["No rehearsal.", f"{rows}{tmp_path / 'mine.jsonl'}"]
    named = replace(status, data={"skipped": [{**data["skipped"][0], "source": "b.jsonl"}]}, warnings=())
    assert "Line 6 of b.jsonl: The clip is silent." in Notes(None, set()).of(named)[0]
    assert notes.of(status) == [] == Notes(None, set()).of(replace(status, data={}, warnings=()))


def test_a_list_of_runs_says_a_state_once() -> None:
    stopped = RunStatus("mine", JobState.STOPPED, TrainingConfig(), samples_per_second=4.25)
    assert how_far(stopped) == "4.2 clips/s"
    assert how_far(replace(stopped, samples_per_second=None)) == ""


def test_a_list_of_runs_says_how_the_errors_of_a_finished_one_changed() -> None:
    rates = {"base": {"wer": 1.0, "cer": 0.5}, "final": {"wer": 0.9, "cer": 0.125}}
    ended = RunStatus("mine", JobState.FINISHED, TrainingConfig(), metrics=rates, samples_per_second=4.25)
    assert how_far(ended) == "100.0 % → 90.0 % WER"
    assert how_far(replace(ended, metric="cer")) == "50.0 % → 12.5 % CER"
    assert how_far(replace(ended, metrics={})) == ""
