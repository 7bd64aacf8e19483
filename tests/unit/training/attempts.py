"""Runs in this process: the same code as in the worker, without starting one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, equal

from studio.files import write_json
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.attempt import Attempt
from studio.training.events import read_events
from studio.training.outcome import Outcome
from studio.training.run_dir import RunDir
from studio.training.stop import StopRequested, StopSignal


class StopAtStep(StopSignal):
    """A stop request that comes while a certain step is at work."""

    def __init__(self, run: RunDir, step: int | None, during_evaluation: bool = False) -> None:
        super().__init__(run.stop_request)
        self._run = run
        self._step = step
        self._during_evaluation = during_evaluation

    @property
    def is_set(self) -> bool:
        if self._step is None:
            return False
        events = read_events(self._run.events)[0]
        steps = [event["step"] for event in events if event["kind"] == "step"]
        is_there = bool(steps) and steps[-1] >= self._step
        if self._during_evaluation:
            return is_there and events[-1]["kind"] == "eval_progress"
        return bool(steps) and steps[-1] >= self._step - 1


class StopWhen(StopSignal):
    """A stop request that comes when something holds of the run's events."""

    def __init__(self, run: RunDir, holds: Callable[[list[Mapping[str, Any]]], bool]) -> None:
        super().__init__(run.stop_request)
        self._run = run
        self._holds = holds

    @property
    def is_set(self) -> bool:
        return self._holds(read_events(self._run.events)[0])


def quick(model: Path, manifest: Path, **changes: Any) -> TrainingConfig:
    """Two epochs of three steps, evaluated with few tokens; clips are read as short as they are."""
    values: dict[str, Any] = {
        "base_model": str(model),
        "train_data": str(manifest),
        "lora_r": 4,
        "lora_alpha": 8,
        "per_device_train_batch_size": 4,
        "num_train_epochs": 2.0,
        "learning_rate": 0.01,
        "warmup_steps": 0.0,
        "logging_steps": 1,
        "generation_max_length": 6,
        "eval_on_start": False,
        "capability_check": False,
        "short_audio": "on",
        "padded_share": 0.0,
        "replay_share": 0.0,
    }
    return TrainingConfig(**{**values, **changes})


def new_run(settings: Settings, config: TrainingConfig, name: str = "run") -> RunDir:
    """A run's folder, as the manager makes it."""
    run = RunDir(settings.runs / name)
    run.path.mkdir(parents=True)
    write_json(run.config, config_to_dict(config))
    return run


def attempt(settings: Settings, run: RunDir, stop: StopSignal | None = None) -> Outcome:
    """Carries the run out, to its end or to a stop."""
    outcome = Outcome()
    try:
        Attempt(run, settings, stop or StopAtStep(run, None), outcome).carry_out()
    except StopRequested:
        outcome.state = "stopped"
    return outcome


def kinds(run: RunDir) -> list[str]:
    """Kinds of the run's events, in their order."""
    return [event["kind"] for event in read_events(run.events)[0]]


class Runs:
    """Quick runs of one model on one manifest, in one studio."""

    def __init__(self, settings: Settings, model: Path, manifest: Path) -> None:
        self.settings = settings
        self._model = model
        self._manifest = manifest

    @property
    def registry(self) -> ModelRegistry:
        """What the runs have made."""
        return ModelRegistry(self.settings.models, demo=None, hf_cache=None)

    def new(self, name: str = "run", **changes: Any) -> RunDir:
        """A run that nobody has begun."""
        return new_run(self.settings, quick(self._model, self._manifest, **changes), name)

    def carry_out(self, run: RunDir, stop_at: int | None = None) -> Outcome:
        """To the run's end, or to a stop while step `stop_at` is at work."""
        return attempt(self.settings, run, StopAtStep(run, stop_at))

    def finished(self, name: str = "run", **changes: Any) -> RunDir:
        """A run that went to its end."""
        run = self.new(name, **changes)
        assert self.carry_out(run).state == "finished"
        return run

    def broken(self, *stops: int, **changes: Any) -> RunDir:
        """A run that was stopped at each of these steps and resumed, and went to its end."""
        run = self.new("broken", **changes)
        for step in stops:
            assert self.carry_out(run, step).state == "stopped"
        assert self.carry_out(run).state == "finished"
        return run


def told(run: RunDir, kind: str) -> list[dict[str, Any]]:
    """The run's events of a kind, in their order."""
    return [event for event in read_events(run.events)[0] if event["kind"] == kind]


def losses(run: RunDir) -> dict[int, float]:
    """Step → loss, where one was noted."""
    return {event["step"]: event["loss"] for event in told(run, "step") if event["loss"] is not None}


def weights_of(folder: Path) -> dict[str, Tensor]:
    """Weights of a model or of a checkpoint."""
    return load_file(next(folder.glob("*model.safetensors")))


def assert_same_weights(one: Path, other: Path) -> None:
    """To the last bit."""
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not equal(first[name], second[name])] == []
