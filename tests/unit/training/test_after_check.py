"""What is measured after a run never fails it, and what it needs is asked for before it."""

from pathlib import Path

import pytest

from studio.errors import ManifestError
from studio.training.after_check import MadeModel, measure_after
from studio.training.attempt import Attempt
from studio.training.events import read_events
from studio.training.outcome import Outcome
from studio.training.stop import StopSignal
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


def test_clips_that_cannot_be_read_are_told_before_anything_is_trained(runs: Runs) -> None:
    work = attempt_with(runs, "nowhere.jsonl")
    with pytest.raises(ManifestError, match=r"nowhere\.jsonl"):
        work.carry_out()
    assert not any(event["kind"] == "plan" for event in read_events(work.run.events)[0])
