"""What is measured after a run never fails it, and what it needs is asked for before it."""

from pathlib import Path
from typing import NoReturn

import pytest

from studio.cli.follow import short_audio_lines
from studio.errors import ManifestError
from studio.evaluation import capabilities
from studio.evaluation.capabilities import CHECKS
from studio.files import read_json
from studio.options.training import TrainingConfig
from studio.settings import Settings
from studio.training import after_check
from studio.training.after_check import MadeModel, measure_after
from studio.training.attempt import Attempt
from studio.training.data.sources import other_clips
from studio.training.events import RunPhase, read_events
from studio.training.outcome import Outcome
from studio.training.stop import StopSignal
from studio.ui.shared.short_audio_views import short_audio_table
from tests.micro import make_tones
from tests.unit.training.attempts import Runs


@pytest.fixture
def runs(settings: Settings, mute_model: Path, tones: Path) -> Runs:
    """Of a model that has nothing to say: what it can still do is measured in a moment."""
    return Runs(settings, mute_model, tones)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the time for the measures is enough; long recordings are short ones."""
    monkeypatch.setattr(after_check, "_LEAST_SECONDS", 3600.0)
    monkeypatch.setattr(capabilities, "_LONG_SECONDS", 9.0)


def attempt_with(runs: Runs, other: str) -> Attempt:
    run = runs.new(max_steps=1, capability_check=True, other_languages_data=other)
    return Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())


def made_by(work: Attempt) -> MadeModel:
    """What a run has made that is carried out here."""
    work.carry_out()
    asked = (work.registry, work.config, work.eval_examples, work.outcome, work.events, work.stop)
    return MadeModel(*asked, settings=work.settings, learned=work.learned)


def test_no_measure_begins_after_a_tenth_of_the_run_or_the_minute(
    runs: Runs, tones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(after_check, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(after_check, "_SHARE_OF_RUN", 0.0)
    work = attempt_with(runs, str(tones))
    measure_after(made_by(work), threads=1)
    found = work.outcome.capabilities
    assert found is not None
    assert found["unchecked"] == list(CHECKS) and set(found["why_unchecked"].values()) == {"time"}
    assert work.outcome.short_audio is None


def test_a_model_whose_check_has_failed_is_called_unchecked(runs: Runs, tones: Path) -> None:
    work = attempt_with(runs, str(tones))
    made = made_by(work)

    def refuse(*_place: object) -> NoReturn:
        raise RuntimeError("no memory for another model")

    measure_after(made, threads=1, load=refuse)
    found = made.spec.card["capabilities"]
    assert found == work.outcome.capabilities and (found["checks"], found["unchecked"]) == ([], list(CHECKS))
    assert "no memory for another model" in str(read_events(work.run.events)[0])


def test_english_that_comes_along_is_heard_of_every_run_but_of_the_demo_speech(settings: Settings) -> None:
    heard = other_clips(TrainingConfig(train_data="a.jsonl"), settings, ["en"])
    assert {clip.language for clip in heard} == {"en"}
    assert other_clips(TrainingConfig(train_data="demo:train"), settings, ["en"]) == []


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("is_shared", [True, False])
def test_clips_that_were_trained_on_are_told_before_the_training_and_not_called_others_and_a_copy_tells_it(
    runs: Runs, tones: Path, tmp_path: Path, is_shared: bool
) -> None:
    """What is measured is also what is left of other speech in the language of the run."""
    other = make_tones(tmp_path, count=3, seconds=1.5)
    heard = {"test_data": str(tones if is_shared else other), "other_languages_data": str(other)}
    copy = tmp_path / "copy"
    run = runs.new(max_steps=1, capability_check=True, output_dir=str(copy), **heard)
    work = Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())
    measure_after(made_by(work), threads=1)
    found, report = work.outcome.capabilities, work.outcome.short_audio
    assert found and {row["check"] for row in found["checks"]} == set(CHECKS) and not found["is_synthetic"]
    cards = [read_json(path / "model.json") for path in (copy, work.registry.models / "run")]
    assert cards[0] == cards[1]
    assert (cards[0]["capabilities"], cards[0]["short_audio"]) == (found, report)
    events = read_events(run.events)[0]
    kinds = [event["kind"] for event in events]
    told = [event["text"] for event in events[: kinds.index("plan")] if event["kind"] == "warning"]
    assert any("12 of 12 evaluation clips are also trained on" in text for text in told) is is_shared
    assert report and report["learned"] == (report["clips"] if is_shared else 0)
    (said, *_), table = short_audio_lines(report), str(short_audio_table(report, "en"))
    assert ("not learned from" in said) is ("not learned from" in table) is not is_shared
    assert (f"{report['clips']} of them trained on" in said) is is_shared
    assert (f"{report['clips']} of them were trained on" in table) is is_shared


def test_the_check_is_told_in_what_language_and_with_what_task_the_run_has_taught_its_clips(
    runs: Runs, tmp_path: Path
) -> None:
    clips = str(make_tones(tmp_path, count=4, language=None))
    run = runs.new(max_steps=1, language="zh", task="translate", train_data=clips, test_data=clips)
    work = Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())
    work.carry_out()
    assert {(clip.language, clip.task) for clip in work.eval_examples} == {("zh", "translate")}
    assert work.learned == set(work.eval_examples) and len(work.learned) == 4


@pytest.mark.usefixtures("unhurried")
def test_one_reading_is_compared_with_nothing_and_not_kept(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(make_tones(tmp_path, count=3))
    run = runs.new(max_steps=1, capability_check=True, test_data=other, other_languages_data=other)
    work = Attempt(run, runs.settings, StopSignal(run.stop_request), Outcome())
    made = made_by(work)

    def stop_when_timed(made: MadeModel, done: int, total: int) -> None:
        """Somebody stops the run while the first way is measured."""
        phases = [event["phase"] for event in read_events(run.events)[0] if event["kind"] == "phase"]
        if phases[-1] == RunPhase.TIMING:
            run.stop_request.touch()

    monkeypatch.setattr(MadeModel, "note_progress", stop_when_timed)
    measure_after(made, threads=1)
    assert run.stop_request.exists() and work.outcome.short_audio is None


def test_clips_that_cannot_be_read_are_told_before_anything_is_trained(runs: Runs) -> None:
    work = attempt_with(runs, "nowhere.jsonl")
    with pytest.raises(ManifestError, match=r"nowhere\.jsonl"):
        work.carry_out()
    assert not any(event["kind"] == "plan" for event in read_events(work.run.events)[0])
