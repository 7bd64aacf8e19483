"""Going on from an adapter: what it decides is taken over, and what contradicts it is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from studio.errors import AdapterMismatchError, ConfigError, ModelNotFoundError, StudioError
from studio.files import read_json, write_json
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager
from studio.settings import Settings
from studio.training.warm_start import warm_started
from tests.unit.training.attempts import Runs, weights_of

ONE_STEP = {"max_steps": 1, "eval_strategy": "no"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, micro_model: Path, tones: Path) -> Path:
    """An adapter of rank 4 on two kinds of layers."""
    settings = Settings(home=tmp_path_factory.mktemp("first"))
    settings.prepare()
    made = Runs(settings, micro_model, tones)
    made.finished("first", run_name="first", target_modules=("q_proj", "v_proj"), **ONE_STEP)
    return settings.models / "first"


@pytest.fixture
def registry(runs: Runs, first: Path) -> ModelRegistry:
    """With that adapter, named `first`."""
    shutil.copytree(first, runs.settings.models / "first")
    return runs.registry


def test_an_adapter_is_trained_on_from_where_it_was(
    runs: Runs, micro_model: Path, registry: ModelRegistry
) -> None:
    sizes = {"lora_r": 32, "lora_alpha": 64, "learning_rate": 1e-9}
    runs.finished("second", run_name="second", adapter="first", **sizes, **ONE_STEP)
    first, second = (weights_of(runs.settings.models / name) for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)
    spec = registry.get("second")
    assert spec.problem is None and spec.base_model == str(micro_model)
    made = spec.card["config"]
    assert (made["lora_r"], made["lora_alpha"], made["target_modules"]) == (4, 8, ["q_proj", "v_proj"])


def test_without_an_adapter_nothing_changes(registry: ModelRegistry) -> None:
    config = TrainingConfig()
    assert warm_started(config, registry) is config


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"lora_r": 16}, AdapterMismatchError, "lora_r is 16, and the adapter first has 4: leave lora_r out"),
        ({"target_modules": ("fc1",)}, AdapterMismatchError, "has q_proj, v_proj: leave target_modules out"),
        ({"method": "dora"}, AdapterMismatchError, "method is dora, and the adapter first has lora"),
        ({"adapter": "nobody"}, ModelNotFoundError, "nobody"),
        ({"adapter": "BASE"}, AdapterMismatchError, "is no adapter: give it as base_model"),
        ({"base_model": "demo"}, AdapterMismatchError, "first belongs to .*, and base_model is demo"),
    ],
)
def test_what_contradicts_the_adapter_is_refused(
    changes: dict[str, Any],
    error: type[StudioError],
    sentence: str,
    runs: Runs,
    registry: ModelRegistry,
    micro_model: Path,
    demo_model: Path,
) -> None:
    with_demo = ModelRegistry(runs.settings.models, demo=demo_model, hf_cache=None)
    values = {"base_model": str(micro_model), "adapter": "first", **changes}
    if values["adapter"] == "BASE":
        values["adapter"] = str(micro_model)
    with pytest.raises(error, match=sentence):
        warm_started(TrainingConfig(**values), with_demo)


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: {**saved, "peft_type": "ADALORA"},
        lambda saved: {**saved, "target_modules": ["conv1"]},
        lambda saved: {**saved, "rank_pattern": {"q_proj": 2}},
    ],
    ids=["AdaLoRA", "other layers", "ranks"],
)
def test_an_adapter_of_another_kind_is_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], runs: Runs, registry: ModelRegistry, micro_model: Path
) -> None:
    file = runs.settings.models / "first" / "adapter_config.json"
    write_json(file, change(read_json(file)))
    with pytest.raises(ConfigError, match="cannot be trained on: choose a LoRA or DoRA adapter"):
        warm_started(TrainingConfig(base_model=str(micro_model), adapter="first"), runs.registry)


def test_a_stopped_run_goes_on_though_its_base_and_its_adapter_were_renamed(runs: Runs) -> None:
    runs.finished("mine", run_name="mine", method="full", **ONE_STEP)
    runs.finished("first", run_name="first", base_model="mine", **ONE_STEP)
    run = runs.new("second", base_model="mine", adapter="first")
    assert runs.carry_out(run, stop_at=3).state == "stopped"
    registry = runs.registry
    registry.rename("first", "first-of-all")
    registry.rename("mine", "ground")
    run.queue_entry.touch()
    in_use = JobManager(runs.settings, registry).models_in_use()
    assert {"first-of-all", "ground"} <= in_use.keys()
    run.queue_entry.unlink()
    outcome = runs.carry_out(run)
    assert outcome.state == "finished"
    made = registry.get(str(outcome.model_id))
    assert (made.base_model, made.card["config"]["adapter"]) == ("ground", "first-of-all")
