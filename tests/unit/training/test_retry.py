"""What is made smaller when memory runs out, in which order, and when a run is given up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from studio.options.training import TrainingConfig
from studio.training.retry import (
    KILLED,
    MOST_RETRIES,
    OUT_OF_MEMORY,
    Retry,
    Shortage,
    nothing_left,
    plan_retry,
    read_retries,
    with_retries,
)
from studio.training.run_dir import RunDir

IN_TRAINING = Shortage(OUT_OF_MEMORY, "training", 7, asked_bytes=2**31, free_bytes=2**30)


def all_retries(run: RunDir, config: TrainingConfig, shortage: Shortage = IN_TRAINING) -> list[Retry]:
    found = []
    while (retry := plan_retry(run, config, shortage)) is not None:
        found.append(retry)
    return found


@pytest.mark.parametrize(
    ("batch", "accumulated"), [(8, 1), (6, 1), (7, 1), (3, 4), (12, 5), (1, 16), (5, 2), (9, 3)]
)
def test_an_optimizer_step_learns_from_as_many_clips_however_often_the_batch_is_halved(
    batch: int, accumulated: int, tmp_path: Path
) -> None:
    config = TrainingConfig(
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulated,
        gradient_checkpointing=True,
    )
    smallest = batch
    for retry in all_retries(RunDir(tmp_path), config):
        config = with_retries(config, (retry,))
        assert config.per_device_train_batch_size * config.gradient_accumulation_steps == batch * accumulated
        assert config.per_device_train_batch_size <= smallest
        smallest = config.per_device_train_batch_size
    assert smallest == 1


def test_first_the_batch_then_checkpointing_then_the_batch_of_evaluation(tmp_path: Path) -> None:
    config = TrainingConfig(per_device_train_batch_size=4, per_device_eval_batch_size=4)
    assert [dict(retry.changes) for retry in all_retries(RunDir(tmp_path), config)] == [
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
        {"gradient_checkpointing": True},
        {"per_device_eval_batch_size": 2},
        {"per_device_eval_batch_size": 1},
    ]


def test_an_evaluation_short_of_memory_gets_smaller_batches_alone(tmp_path: Path) -> None:
    shortage = replace(IN_TRAINING, phase="evaluating")
    config = TrainingConfig(per_device_eval_batch_size=5)
    assert [dict(retry.changes) for retry in all_retries(RunDir(tmp_path), config, shortage)] == [
        {"per_device_eval_batch_size": 2},
        {"per_device_eval_batch_size": 1},
    ]


def test_a_teacher_short_of_memory_listens_in_smaller_batches(tmp_path: Path) -> None:
    shortage = replace(IN_TRAINING, phase="listening")
    config = TrainingConfig(per_device_eval_batch_size=2, distill=True)
    (retry,) = all_retries(RunDir(tmp_path), config, shortage)
    assert retry.changes == {"per_device_eval_batch_size": 1}
    assert plan_retry(RunDir(tmp_path / "other"), replace(config, distill=False), shortage) is None


@pytest.mark.parametrize("phase", ["saving", "checking", "timing"])
def test_a_trained_model_that_is_short_of_memory_only_has_to_be_resumed(phase: str, tmp_path: Path) -> None:
    shortage = replace(IN_TRAINING, phase=phase)
    assert plan_retry(RunDir(tmp_path), TrainingConfig(), shortage) is None
    assert "The model is trained, and its checkpoints are kept" in str(
        nothing_left(TrainingConfig(), shortage)
    )


def test_a_killed_worker_loses_its_readers_first(tmp_path: Path) -> None:
    shortage = Shortage(KILLED, "training", 3)
    retry = plan_retry(RunDir(tmp_path), TrainingConfig(dataloader_num_workers=4), shortage)
    assert retry is not None and retry.changes == {"dataloader_num_workers": 0}
    assert [str(sentence) for sentence in retry.sentences()] == [
        "The worker was killed at step 3, probably for memory.",
        "It goes on with dataloader_num_workers 4 → 0.",
    ]


def test_a_model_that_does_not_even_load_is_not_tried_again(tmp_path: Path) -> None:
    shortage = replace(IN_TRAINING, phase="loading_model", step=0)
    assert plan_retry(RunDir(tmp_path), TrainingConfig(), shortage) is None
    assert "a smaller batch would not help" in str(nothing_left(TrainingConfig(), shortage))


def test_a_run_on_several_machines_is_not_changed_on_one_of_them(tmp_path: Path) -> None:
    config = TrainingConfig(num_processes=2, num_machines=2, main_process_ip="10.0.0.1")
    assert plan_retry(RunDir(tmp_path), config, IN_TRAINING) is None
    assert plan_retry(RunDir(tmp_path), replace(config, num_machines=1), IN_TRAINING) is not None


def test_a_run_is_given_up_after_so_many_attempts_with_a_sentence(tmp_path: Path) -> None:
    run, config = RunDir(tmp_path), TrainingConfig(per_device_train_batch_size=1024)
    retries = all_retries(run, config)
    assert len(retries) == MOST_RETRIES
    assert read_retries(run) == tuple(retries)
    said = str(nothing_left(with_retries(config, tuple(retries)), IN_TRAINING))
    assert said.startswith("Memory ran out at step 7: 2.00 GiB were asked for, 1.00 GiB were free. There")
    assert "python -m studio fit" in said


@pytest.mark.parametrize("content", ["{", "[]", '{"retries": [{}]}', '{"retries": [{"shortage": {"x": 1}}]}'])
def test_retries_that_cannot_be_read_are_none(content: str, tmp_path: Path) -> None:
    run: Any = RunDir(tmp_path)
    run.retries.write_text(content, encoding="utf-8")
    assert read_retries(run) == ()
