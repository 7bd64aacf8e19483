"""Several processes train one run: the curve, the record, a stop, and a process that is killed. Real ones."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from studio.files import read_json
from studio.options.training import TrainingConfig
from studio.runs.manager import JobManager, JobState
from studio.settings import Settings
from studio.training.events import read_events
from studio.training.launch import WORKER
from studio.training.run_dir import RunDir
from tests.faults.test_workers import (
    NewStudio,
    after_step,
    has_ended,
    in_attempt,
    new_studio,
    pid_of,
    until,
    wait_for,
)
from tests.studio_process import processes_that_name, words_of
from tests.unit.training.attempts import quick

__all__ = ["new_studio"]


@pytest.fixture
def pair(micro_model: Path, tones: Path) -> TrainingConfig:
    """Two processes that together take the batches of one with twice the batch size."""
    return quick(
        micro_model,
        tones,
        num_processes=2,
        per_device_train_batch_size=2,
        max_train_samples=8,
        validation_share=0.25,
        lora_dropout=0.0,
        short_audio="off",  # whose batches are made of other clips
        num_train_epochs=3,
        per_device_eval_batch_size=1,
        max_eval_samples=3,
        eval_on_start=True,
    )


def curve(run: RunDir) -> list[tuple[int, float]]:
    return [
        (event["step"], event["loss"])
        for event in read_events(run.events)[0]
        if event["kind"] in ("step", "eval") and event.get("loss") is not None
    ]


def processes_of(run: RunDir) -> list[psutil.Process]:
    """The processes that train, in the order in which they were started, which is that of their ranks."""
    found = [each for each in processes_that_name(str(run.path)) if WORKER in words_of(each)]
    return sorted(found, key=lambda each: (each.create_time(), each.pid))


def kill_second(settings: Settings, run: RunDir) -> None:
    """Kills one of two processes; the other one and the launcher end with it."""
    launcher, (first, second) = pid_of(settings, run.run_id), processes_of(run)
    os.kill(second.pid, signal.SIGKILL)
    assert has_ended(launcher) and has_ended(first.pid)


def finished(jobs: JobManager, run_id: str) -> None:
    assert wait_for(jobs, run_id, until(JobState.FINISHED)).model_id


def test_two_processes_learn_what_one_does_with_the_same_effective_batch(
    settings: Settings, pair: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    alone = TrainingConfig(
        **{
            **vars(pair),
            "num_processes": 1,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 1,
        }
    )
    runs = [RunDir(settings.runs / jobs.submit(config)) for config in (alone, pair)]
    for run in runs:
        finished(jobs, run.run_id)
    one, two = (curve(run) for run in runs)
    assert [step for step, _ in one] == [step for step, _ in two]
    assert [loss for _, loss in two] == pytest.approx([loss for _, loss in one], rel=1e-5)
    events = read_events(runs[1].events)[0]
    kinds = [event["kind"] for event in events]
    assert kinds.count("plan") == kinds.count("data") == 1, "one process keeps the record"
    assert next(event for event in events if event["kind"] == "plan")["num_processes"] == 2
    evaluated = [event for event in events if event["kind"] == "eval_progress" and event["done"]]
    assert {event["total"] for event in evaluated} == {3} and evaluated[-1]["done"] == 3
    texts = [len(event["rows"]) for event in events if event["kind"] == "samples"]
    assert set(texts) == {3}, "each clip is evaluated once, though three are shared by two"
    assert len(list(settings.models.iterdir())) == 2


def test_two_processes_stop_in_the_same_step_and_die_together_and_go_on_with_less(
    settings: Settings, pair: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings, truly=1)
    config = TrainingConfig(**{**vars(pair), "max_steps": 16, "save_steps": 3, "eval_strategy": "no"})
    config = replace(config, per_device_train_batch_size=1)  # of which nothing is left to be halved
    run = RunDir(settings.runs / jobs.submit(config))
    wait_for(jobs, run.run_id, lambda _: run.process.exists() and len(processes_of(run)) == 2)
    kill_second(settings, run)
    assert wait_for(jobs, run.run_id, until(JobState.INTERRUPTED)).can_resume

    jobs.resume(run.run_id)
    wait_for(jobs, run.run_id, after_step(2))
    jobs.stop(run.run_id)
    stopped = wait_for(jobs, run.run_id, until(JobState.STOPPED))
    checkpoint = run.checkpoints / f"checkpoint-{stopped.step}"
    assert 0 < stopped.step < 16 and (checkpoint / "trainer_state.json").is_file()
    assert {path.name for path in checkpoint.glob("rng_state*")} == {"rng_state_0.pth", "rng_state_1.pth"}

    jobs.resume(run.run_id)
    wait_for(jobs, run.run_id, after_step(stopped.step + 2))
    kill_second(settings, run)
    broken = wait_for(jobs, run.run_id, in_attempt(2))
    assert broken.retries[0].changes == {"gradient_checkpointing": True}
    assert "was killed" in str(broken.retries[0].sentences()[0])
    finished(jobs, run.run_id)
    unbroken = RunDir(settings.runs / jobs.submit(config))
    finished(jobs, unbroken.run_id)
    weights = [
        load_file(each.checkpoints / "checkpoint-16" / "adapter_model.safetensors")
        for each in (run, unbroken)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert [step for step, _ in jobs.status(run.run_id).loss_points] == list(range(1, 17))


def test_what_one_process_cannot_read_ends_all_with_its_sentence(
    settings: Settings, pair: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    run_id = jobs.submit(TrainingConfig(**{**vars(pair), "train_data": "nowhere.jsonl"}))
    status = wait_for(jobs, run_id, until(JobState.FAILED))
    assert "nowhere.jsonl" in str(status.error)
    assert read_json(RunDir(settings.runs / run_id).result)["state"] == "failed"
