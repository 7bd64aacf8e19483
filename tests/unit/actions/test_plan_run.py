"""A plan says what the run then does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studio.actions.plan_run import plan_run
from studio.files import write_json, write_text
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.services import Services
from studio.settings import Settings
from studio.training.data.sources import read_source
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return Services.open(Settings(home=tmp_path / "home"))


@pytest.mark.parametrize(
    "options",
    [{}, {"max_train_samples": 7}, {"test_data": "demo:test"}, {"per_device_train_batch_size": 5}],
)
def test_clips_and_steps_are_those_that_the_run_will_have(
    services: Services, tones: Path, options: dict[str, object]
) -> None:
    for source in ("demo", str(tones)):
        config = replace(TrainingConfig(train_data=source), **options)  # type: ignore[arg-type]
        clips = len(read_source(config).train_examples)
        plan = plan_run(config, services)
        assert (plan.clips, plan.steps) == (clips, Schedule.of(config, clips).max_steps)


def test_a_list_that_has_grown_is_counted_anew(services: Services, tones: Path) -> None:
    rows = tones.read_text("utf-8")
    listed = tones.with_name("grown.jsonl")
    config = TrainingConfig(train_data=str(listed), test_data="demo:test")
    write_text(listed, "".join(rows.splitlines(keepends=True)[:3]))
    assert plan_run(config, services).clips == 3
    write_text(listed, "".join(rows.splitlines(keepends=True)[:5]))
    assert plan_run(config, services).clips == 5


def test_clips_in_a_language_that_whisper_has_not_are_not_counted_and_shared_ones_are_named(
    services: Services, tones: Path
) -> None:
    listed = tones.with_name("irish.jsonl")
    rows = [json.loads(line) for line in tones.read_text("utf-8").splitlines()[:4]]
    lines = [json.dumps({**row, "language": "ga-IE" if place else "en"}) for place, row in enumerate(rows)]
    write_text(listed, "\n".join(lines))
    config = TrainingConfig(train_data=str(listed), test_data=str(tones))
    plan = plan_run(config, services)
    assert plan.clips == 1 and plan_run(replace(config, language="en"), services).clips == 4
    assert "4 of 12 evaluation clips are also trained on" in str(plan.to_json()["shared"])
    assert plan_run(replace(config, test_data=""), services).shared is None


def test_what_is_not_known_before_the_start_is_left_out(services: Services) -> None:
    plan = plan_run(TrainingConfig(train_data="nobody/nothing", base_model="large-v3"), services)
    assert plan.clips is None and plan.steps is None and plan.seconds is None
    told = {str(name): str(value) for name, value in plan.facts()}
    assert set(told) == {"Trained parameters", "Memory needed"}
    assert plan_run(TrainingConfig(train_data="nobody/nothing", max_steps=9), services).steps == 9


def test_the_time_is_that_of_the_last_run_like_it(services: Services) -> None:
    config = TrainingConfig()
    steps = plan_run(config, services).steps
    run = RunDir(services.settings.runs / "before-20260102-030405")
    run.path.mkdir(parents=True)
    write_json(run.config, config_to_dict(config))
    write_json(run.process, {"pid": 1, "started": 1000.0})
    result = {"state": "finished", "max_steps": 2 * (steps or 0), "ended": "1970-01-01T00:18:20+00:00"}
    write_json(run.result, result)
    assert plan_run(config, services).seconds == pytest.approx(50.0), "100 s for twice as many"
    assert plan_run(replace(config, base_model="tiny"), services).seconds is None
