"""Options that the trainer carries out: precision, optimizers, schedulers, smoothing, early stopping."""

from pathlib import Path
from typing import Any

import pytest
import torch

from studio.errors import ConfigError
from studio.options.arguments import config_from_dict
from studio.options.choices import SCHEDULERS
from studio.options.schedulers import scheduler_values
from studio.options.training import TrainingConfig
from studio.training import adapters
from studio.training.plan import base_dtype_of, precision_of
from studio.training.record import evaluations
from studio.training.run_dir import RunDir
from studio.training.trainer import smoothed_loss
from tests.unit.training.attempts import Runs, losses, told


def trained(runs: Runs, **changes: Any) -> RunDir:
    """A finished run of four steps without evaluation, unless told otherwise."""
    return runs.finished(**{"max_steps": 4, "eval_strategy": "no", "lora_dropout": 0.0, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"optim": "adafactor"},
        {"optim": "adamw_bnb_8bit"},
        {"optim": "adamw_torch"},
        {"optim": "sgd", "learning_rate": 0.5},
        {"base_dtype": "bf16"},
        {"precision": "pure_bf16"},
        {"precision": "pure_bf16", "method": "full", "learning_rate": 0.002},
        {"base_dtype": "bf16", "method": "full", "learning_rate": 0.002},
        {"attn_implementation": "eager"},
        {"label_smoothing_factor": 0.1},
        {"gradient_checkpointing": True, "use_reentrant": "true"},
        {"gradient_checkpointing": True, "label_smoothing_factor": 0.1, "precision": "pure_bf16"},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_the_loss_falls_whatever_the_run_is_made_of(changes: dict[str, Any], runs: Runs) -> None:
    points = list(losses(trained(runs, **changes)).values())
    assert points[-1] < points[0] - 0.05


def test_a_smoothed_loss_is_that_of_transformers(micro_model: Path) -> None:
    from transformers.trainer_pt_utils import LabelSmoother

    config = TrainingConfig(base_model=str(micro_model))
    model: Any = adapters.load_training_base(micro_model, config, adapters.Precision("fp32")).decoder.model
    labels = torch.tensor([[5, 6, 7], [8, 9, -100]])
    features = torch.randn(2, 80, 3000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        outputs = model(input_features=features, labels=labels)
        theirs = LabelSmoother(epsilon=0.2)(outputs, labels)
        batch = {"input_features": features, "labels": labels}
        assert smoothed_loss(model, batch, model.config, 0.2) == pytest.approx(float(theirs), rel=1e-5)
        assert smoothed_loss(model, batch, model.config, 0.0) == pytest.approx(float(outputs.loss), rel=1e-5)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_of_transformers_steps_with_the_values_it_is_given(scheduler: str) -> None:
    from transformers import get_scheduler

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    values = scheduler_values(scheduler, "", 1e-3, 100)
    made = get_scheduler(
        scheduler, optimizer, num_warmup_steps=10, num_training_steps=100, scheduler_specific_kwargs=values
    )
    waits = scheduler in ("reduce_lr_on_plateau", "greedy")
    for _ in range(100):
        optimizer.step()
        made.step(0.5) if waits else made.step()
    rate = optimizer.param_groups[0]["lr"]
    assert 0 <= rate <= 1e-3
    if not scheduler.startswith(("constant", "cosine_with_restarts")):
        assert rate < 1e-3


def test_the_smallest_rate_falls_to_its_end() -> None:
    assert scheduler_values("polynomial", "", 1e-8, 100)["lr_end"] < 1e-8


def test_the_list_of_schedulers_is_that_of_transformers() -> None:
    from transformers import SchedulerType

    assert set(SCHEDULERS) == {each.value for each in SchedulerType}


def test_a_scheduler_that_waits_for_the_error_rate_lowers_the_rate(runs: Runs) -> None:
    kwargs = {"patience": 0, "factor": 0.1}
    given = {"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": kwargs}
    given["lr_scheduler_kwargs"] = config_from_dict(given).lr_scheduler_kwargs
    steps = told(trained(runs, eval_strategy="steps", eval_steps=1, learning_rate=1e-6, **given), "step")
    assert steps[-1]["learning_rate"] < steps[0]["learning_rate"]


ADAMW = {
    "usual": {},
    "beta1": {"adam_beta1": 0.1},
    "beta2": {"adam_beta2": 0.5},
    "epsilon": {"adam_epsilon": 0.1},
}


def test_what_adamw_remembers_reaches_the_optimizer(runs: Runs) -> None:
    curves = []
    for name, changes in ADAMW.items():
        run = runs.new(name, max_steps=4, eval_strategy="no", lora_dropout=0.0, **changes)
        assert runs.carry_out(run).state == "finished"
        curves.append(losses(run))
    assert len({curve[1] for curve in curves}) == 1
    assert len({curve[4] for curve in curves}) == len(ADAMW)


@pytest.mark.parametrize(
    ("changes", "evaluated"),
    [
        ({"eval_strategy": "epoch", "eval_delay": 2.0}, [4, 6, 7]),
        ({"eval_strategy": "epoch", "eval_delay": 99.0}, [7]),
        ({"eval_strategy": "steps", "eval_steps": 2, "eval_delay": 4.0}, [4, 6, 7]),
    ],
)
def test_nothing_is_evaluated_before_its_time_but_the_last_step(
    changes: dict[str, Any], evaluated: list[int], runs: Runs
) -> None:
    run = runs.finished(max_steps=7, max_train_samples=4, per_device_train_batch_size=2, **changes)
    assert sorted(evaluations(run)) == evaluated


@pytest.mark.parametrize("is_broken", [False, True], ids=["unbroken", "resumed"])
def test_a_run_ends_early_where_nothing_improves(is_broken: bool, runs: Runs) -> None:
    each_step = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 9, "learning_rate": 1e-9}
    run = runs.new(early_stopping_patience=2, metric_for_best_model="wer", eval_on_start=True, **each_step)
    if is_broken:
        assert runs.carry_out(run, stop_at=2).state == "stopped"
    outcome = runs.carry_out(run)
    best = outcome.metrics["best_step"]
    assert outcome.state == "finished" and outcome.step == best + 2 < 9
    assert max(evaluations(run)) == best + 2
    assert [event["text"].split(":")[0] for event in told(run, "warning")] == [
        f"Ended at step {best + 2}",
        "No better than the base on the evaluation clips",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_flash_attention_that_is_not_here_is_refused_in_a_sentence(runs: Runs) -> None:
    with pytest.raises(ConfigError, match="flash-attn, which is not here: choose sdpa"):
        runs.carry_out(runs.new(attn_implementation="flash_attention_2"))


@pytest.mark.parametrize(
    ("changes", "has_gpu", "precision", "base_dtype"),
    [
        ({}, True, "bf16", "bf16"),
        ({}, False, "fp32", "fp32"),
        ({"precision": "fp16"}, False, "fp32", "fp32"),
        ({"base_dtype": "bf16"}, False, "bf16", "bf16"),
        ({"base_dtype": "fp16"}, False, "fp32", "fp32"),
        ({"base_dtype": "fp16"}, True, "fp16", "fp16"),
        ({"base_dtype": "fp32"}, True, "bf16", "fp32"),
        ({"precision": "pure_bf16"}, False, "pure_bf16", "bf16"),
        ({"method": "full"}, True, "bf16", "fp32"),
        ({"method": "full", "base_dtype": "bf16"}, True, "bf16", "bf16"),
    ],
)
def test_types_follow_the_machine(
    changes: dict[str, Any], has_gpu: bool, precision: str, base_dtype: str
) -> None:
    config = TrainingConfig(**changes)
    assert precision_of(config, has_gpu) == precision
    assert base_dtype_of(config, precision, has_gpu) == base_dtype


def test_a_base_is_loaded_in_the_type_asked_for(micro_model: Path) -> None:
    config = TrainingConfig(base_model=str(micro_model), base_dtype="bf16", attn_implementation="eager")
    precision = adapters.choose_precision(config, has_gpu=False)
    model: Any = adapters.load_training_base(micro_model, config, precision).decoder.model
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert model.config._attn_implementation == "eager"


def test_the_loss_of_an_evaluation_is_not_smoothed_in_chunks_or_as_a_whole(runs: Runs) -> None:
    before = []
    for factor, chunk_size in ((0.0, 256), (0.2, 256), (0.2, 0)):
        options = {"label_smoothing_factor": factor, "loss_chunk_size": chunk_size}
        run = runs.finished(f"{factor}-{chunk_size}", eval_on_start=True, max_steps=1, **options)
        before.append(told(run, "eval")[0]["loss"])
    assert before == pytest.approx([before[0]] * 3, rel=1e-5)
