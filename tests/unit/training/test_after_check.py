"""What is measured after a run never fails it, and what it needs is asked for before it."""

from pathlib import Path

import pytest

from studio.cli.follow import short_audio_lines
from studio.errors import ManifestError
from studio.training.after_check import MadeModel, measure_after
from studio.training.attempt import Attempt
from studio.training.events import read_events
from studio.training.outcome import Outcome
from studio.training.stop import StopSignal
from studio.ui.short_audio_views import short_audio_table
from tests.micro import make_tones
from tests.unit.training.attempts import Runs


def attempt_with(runs: Runs, other: str) -> Attempt:
    run = runs.new(max_steps=1, capability_check=True, other_languages_data=other)
    return Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())


def test_clips_that_are_in_no_other_language_are_told_and_everything_else_is_checked(
    runs: Runs, tones: Path
) -> None:
    work = attempt_with(runs, str(tones))
    work.carry_out()
    made = MadeModel(work.registry, work.config, work.eval_examples, work.outcome, work.events, work.stop)
    measure_after(made, threads=1)
    assert work.outcome.capabilities is not None
    checks = {row["check"] for row in work.outcome.capabilities["checks"]}
    assert checks == {"timestamps", "long_form", "silence", "language"}
    told = str(read_events(work.run.events)[0])
    assert "Other languages could not be checked" in told and "is in another language" in told


@pytest.mark.parametrize("is_shared", [True, False])
def test_clips_that_were_trained_on_are_told_before_the_training_and_not_called_others(
    runs: Runs, tones: Path, tmp_path: Path, is_shared: bool
) -> None:
    other = make_tones(tmp_path, count=3, seconds=1.5)
    run = runs.new(max_steps=1, capability_check=True, test_data=str(tones if is_shared else other))
    work = Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())
    work.carry_out()
    made = MadeModel(
        *(work.registry, work.config, work.eval_examples, work.outcome, work.events, work.stop),
        learned=work.learned,
    )
    measure_after(made, threads=1)
    events = read_events(run.events)[0]
    kinds = [event["kind"] for event in events]
    told = [event["text"] for event in events[: kinds.index("plan")] if event["kind"] == "warning"]
    assert any("12 of 12 evaluation clips are also trained on" in text for text in told) is is_shared
    report = work.outcome.short_audio
    assert report and report["learned"] == (report["clips"] if is_shared else 0)
    (said, *_), table = short_audio_lines(report), str(short_audio_table(report, "en"))
    assert ("not learned from" in said) is ("not learned from" in table) is not is_shared
    assert (f"{report['clips']} of them trained on" in said) is is_shared
    assert (f"{report['clips']} of them were trained on" in table) is is_shared


def test_clips_that_cannot_be_read_are_told_before_anything_is_trained(runs: Runs) -> None:
    work = attempt_with(runs, "nowhere.jsonl")
    with pytest.raises(ManifestError, match=r"nowhere\.jsonl"):
        work.carry_out()
    assert not any(event["kind"] == "plan" for event in read_events(work.run.events)[0])
