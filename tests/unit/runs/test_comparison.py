"""Runs side by side."""

from pathlib import Path

import pytest

from studio.errors import RunError
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.comparison import best_rates, differing_options, require_several
from studio.runs.manager import JobManager
from studio.runs.status import EvalPoint, JobState, RunStatus
from studio.settings import Settings
from studio.training.run_dir import RunDir


def run(name: str, config: TrainingConfig, **more: object) -> RunStatus:
    return RunStatus(name, JobState.STOPPED, config, **more)  # type: ignore[arg-type]


def test_only_options_that_differ_are_compared() -> None:
    runs = [run("a", TrainingConfig(lora_r=8, run_name="a")), run("b", TrainingConfig(run_name="b"))]
    assert differing_options(runs) == {"lora_r": (8, 32)}
    with pytest.raises(RunError, match="at least two"):
        require_several(runs[:1])


def test_the_best_evaluation_counts_and_never_that_of_the_base() -> None:
    points = (
        EvalPoint(0, 0.0, 0.1, 0.1, 1.0),
        EvalPoint(3, 1.0, 0.5, 0.2, 1.0),
        EvalPoint(6, 2.0, 0.4, 0.3, 1.0),
    )
    assert best_rates(run("a", TrainingConfig(), eval_points=points, metric="wer")) == (0.4, 0.3)
    assert best_rates(run("a", TrainingConfig(), eval_points=points, metric="cer")) == (0.5, 0.2)
    assert best_rates(run("a", TrainingConfig())) == (None, None)


def test_the_log_is_searched_whatever_the_case(settings: Settings, micro_model: Path, tones: Path) -> None:
    jobs = JobManager(settings, ModelRegistry(settings.models, demo=None, hf_cache=None))
    run_id = jobs.submit(TrainingConfig(base_model=str(micro_model), train_data=str(tones)))
    RunDir(settings.runs / run_id).log.write_text("one Step\nother\nstep two\n", encoding="utf-8")
    assert jobs.log_tail(run_id, containing="STEP") == "one Step\nstep two"
