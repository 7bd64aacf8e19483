"""A plan says what the run then does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studio.actions.estimate import Question, answer
from studio.actions.plan_run import RunForecast, plan_run
from studio.files import read_json, write_json, write_text
from studio.memory.gpus import find_gpu
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.runs.status import iso
from studio.services import Services
from studio.settings import Settings
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule
from studio.units import GIB, format_bytes
from tests.reading import read_source
from tests.unit.registry.conftest import make_adapter


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


def test_clips_without_a_label_once_it_is_normalised_are_not_counted(services: Services, tones: Path) -> None:
    listed = tones.with_name("marks.jsonl")
    rows = [json.loads(line) for line in tones.read_text("utf-8").splitlines()[:4]]
    rows[0]["text"] = "♪ ..."
    write_text(listed, "\n".join(map(json.dumps, rows)))
    config = TrainingConfig(train_data=str(listed), test_data="demo:test", normalizer="no_punctuation")
    assert plan_run(config, services).clips == 3


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


def test_a_run_that_goes_on_from_an_adapter_is_sized_by_its_rank_and_layers(services: Services) -> None:
    base = services.registry.get("base").dimensions
    assert base is not None
    folder = make_adapter(services.settings.models / "first", "openai/whisper-base", base)
    told = {**read_json(folder / "adapter_config.json"), "lora_alpha": 4, "target_modules": ["q_proj", "fc2"]}
    write_json(folder / "adapter_config.json", told)
    config = TrainingConfig(base_model="openai/whisper-base", max_steps=1)
    same = replace(config, lora_r=2, lora_alpha=4, target_modules=("q_proj", "fc2"))
    assert plan_run(replace(config, adapter="first"), services).estimate == plan_run(same, services).estimate


@pytest.mark.parametrize("gpu", ["T4", "A30", "H100"])
def test_the_memory_before_the_start_is_that_of_the_calculator(
    gpu: str, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studio.actions.plan_run.card", lambda _text: find_gpu(gpu))
    told = plan_run(TrainingConfig(base_model="base", max_steps=1), services).estimate
    assert told == answer(Question("base", gpu=gpu), services.registry).estimate


def test_what_is_not_known_before_the_start_is_left_out(services: Services) -> None:
    plan = plan_run(TrainingConfig(train_data="nobody/nothing", base_model="large-v3"), services)
    assert plan.clips is None and plan.steps is None and plan.seconds is None
    told = {str(name): str(value) for name, value in plan.facts()}
    assert set(told) == {"Trained parameters", "Memory needed"}
    assert plan_run(TrainingConfig(train_data="nobody/nothing", max_steps=9), services).steps == 9


def test_without_a_gpu_what_the_whole_process_may_take_is_told(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors alone would be a third of it: a run of whisper-tiny that was told as 1.65 GiB took 4.6."""
    monkeypatch.setattr("studio.actions.plan_run.card", lambda _text: None)
    plan = plan_run(TrainingConfig(base_model="tiny", max_steps=1), services)
    assert plan.estimate is not None and plan.memory_bytes is not None
    assert plan.memory_bytes > 1.2 * GIB + 2 * max(plan.estimate.phases.values())
    told = {str(name): str(value) for name, value in plan.facts()}
    assert told["Memory needed"].startswith(f"up to about {format_bytes(plan.memory_bytes)}; ")
    monkeypatch.setattr(RunForecast, "usable_bytes", plan.memory_bytes - 1)
    assert plan.verdict == "does_not_fit"


def finished(services: Services, name: str, config: TrainingConfig, events: list[dict[str, object]]) -> None:
    """A run as it is found after its end, ten seconds after what it told last."""
    run = RunDir(services.settings.runs / name)
    run.path.mkdir(parents=True)
    write_json(run.config, config_to_dict(config))
    write_json(run.process, {"pid": 1, "started": 1.0})
    write_text(run.events, "".join(f"{json.dumps(event)}\n" for event in events))
    last = events[-1]
    result = {"state": "finished", "max_steps": last["step"], "ended": iso(float(str(last["time"])) + 10)}
    write_json(run.result, result)


def told(start: float, steps: range) -> list[dict[str, object]]:
    """What a process tells that needs 60 s to start, 2 s for a step, 30 s for an evaluation, and 20 s
    to choose the strength.
    """
    trained = start + 90 + 2 * len(steps)
    events: list[dict[str, object]] = [
        {"time": start, "kind": "phase", "phase": "starting"},
        {"time": start + 50, "kind": "phase", "phase": "loading_model"},
        {"time": start + 60, "kind": "phase", "phase": "evaluating"},
        {"time": start + 90, "kind": "eval", "step": 0},
        {"time": start + 90, "kind": "phase", "phase": "training"},
        {"time": trained, "kind": "step", "step": steps[-1]},
        {"time": trained, "kind": "phase", "phase": "evaluating"},
        {"time": trained + 20, "kind": "phase", "phase": "saving", "step": steps[-1]},
    ]
    if steps[0] > 1:
        events.insert(1, {"time": start + 1, "kind": "resumed", "step": steps[0] - 1})
    return events


def test_the_time_has_a_part_of_the_start_and_one_of_the_steps_of_a_run_like_it(services: Services) -> None:
    config = TrainingConfig(max_steps=1000)
    finished(services, "b-20260102-030405", replace(config, max_steps=2), told(1000, range(1, 3)))
    expected = (
        90 + 1000 * 2 + 30 * Schedule.of(config, plan_run(config, services).clips or 0).evaluations(config)
    )
    assert plan_run(config, services).seconds == pytest.approx(expected)
    assert plan_run(replace(config, base_model="tiny"), services).seconds is None
    assert plan_run(replace(config, gradient_accumulation_steps=2), services).seconds is None
    slow = [{**event, "time": 2 * float(str(event["time"]))} for event in told(500, range(1, 101))]
    resumed = [*slow[:-1], *told(10_000, range(101, 201))]
    finished(services, "a-20260101-030405", config, resumed)
    assert plan_run(config, services).seconds == pytest.approx(expected), (
        "what was before the break is not counted"
    )
    finished(services, "a-20260101-020405", config, slow)
    assert plan_run(config, services).seconds == pytest.approx(expected), "the last one of enough steps"
    finished(services, "c-20260103-030405", config, [{"kind": "phase", "time": 1, "phase": [], "step": 300}])
    assert plan_run(config, services).seconds is None, "what was edited tells nothing, and breaks nothing"
