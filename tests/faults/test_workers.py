"""Workers that are killed, stopped, outlive their studio, or never get far: real processes, real training."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from studio.files import read_json
from studio.jobs.manager import JobManager, JobState, RunStatus
from studio.jobs.status import ACTIVE
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.config import TrainingConfig
from studio.training.run_dir import RunDir

PATIENCE_SECONDS = 550
NewStudio = Callable[[Settings], JobManager]


@pytest.fixture
def new_studio() -> Iterator[NewStudio]:
    """Managers with their threads; closed after the test."""
    made: list[JobManager] = []

    def make(settings: Settings) -> JobManager:
        registry = ModelRegistry(settings.models, demo=None, hf_cache=None)
        manager = JobManager(replace(settings, threads=1), registry)
        manager.start()
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.close()


@pytest.fixture
def long_run(micro_model: Path, tones: Path) -> TrainingConfig:
    """Many small steps, with a checkpoint after every third."""
    return TrainingConfig(
        base_model=str(micro_model),
        train_data=str(tones),
        lora_r=4,
        per_device_train_batch_size=2,
        max_steps=60,
        save_steps=3,
        eval_strategy="no",
        logging_steps=1,
    )


def wait_for(jobs: JobManager, run_id: str, is_there: Callable[[RunStatus], bool]) -> RunStatus:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        status = jobs.status(run_id)
        if is_there(status):
            return status
        if status.state not in ACTIVE:
            break
        time.sleep(0.05)
    pytest.fail(f"{status.state}: {status.error}\n{jobs.log_tail(run_id, 40)}")


def until(state: JobState) -> Callable[[RunStatus], bool]:
    return lambda status: status.state is state


def after_step(step: int) -> Callable[[RunStatus], bool]:
    return lambda status: status.step >= step


def pid_of(settings: Settings, run_id: str) -> int:
    return int(read_json(RunDir(settings.runs / run_id).process)["pid"])


def has_ended(pid: int) -> bool:
    """Whether a process goes away; its result is written a moment before it does."""
    try:
        _, alive = psutil.wait_procs([psutil.Process(pid)], timeout=60)
    except psutil.NoSuchProcess:
        return True
    return not alive


def starts_of(settings: Settings, run_id: str) -> int:
    """How often a worker took up the run."""
    return RunDir(settings.runs / run_id).log.read_text(encoding="utf-8").count(" starting\n")


def test_a_killed_worker_is_interrupted_and_the_queue_goes_on(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    killed = jobs.submit(long_run)
    following = jobs.submit(replace(long_run, max_steps=2))
    wait_for(jobs, killed, after_step(5))
    os.kill(pid_of(settings, killed), signal.SIGKILL)
    status = wait_for(jobs, killed, until(JobState.INTERRUPTED))
    assert status.can_resume
    assert wait_for(jobs, following, until(JobState.FINISHED)).model_id
    assert "probably for memory" in jobs.status(killed).error

    jobs.resume(killed)
    status = wait_for(jobs, killed, until(JobState.FINISHED))
    assert status.model_id and list(dict(status.loss_points)) == list(range(1, 61))

    unbroken = jobs.submit(long_run)
    wait_for(jobs, unbroken, until(JobState.FINISHED))
    weights = [
        load_file(settings.runs / run_id / "checkpoints" / "checkpoint-60" / "adapter_model.safetensors")
        for run_id in (killed, unbroken)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_run_outlives_its_studio_and_is_stopped_and_resumed_by_the_next(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    first = new_studio(settings)
    run_id = first.submit(long_run)
    wait_for(first, run_id, after_step(1))
    first.close()

    second = new_studio(settings)
    assert second.status(run_id).state is JobState.RUNNING
    seen = second.status(run_id).step
    wait_for(second, run_id, after_step(seen + 2))
    second.stop(run_id)
    stopped = wait_for(second, run_id, until(JobState.STOPPED))
    assert stopped.can_resume and 0 < stopped.step < 60
    assert (settings.runs / run_id / "checkpoints" / f"checkpoint-{stopped.step}").is_dir()
    assert not list(settings.models.iterdir()), "a stopped run makes no model"

    second.resume(run_id)
    assert wait_for(second, run_id, until(JobState.FINISHED)).model_id
    assert starts_of(settings, run_id) == 2


def test_two_studios_on_one_home_start_each_run_once(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    studios = [new_studio(settings) for _ in range(2)]
    ids = [studio.submit(replace(long_run, max_steps=2)) for studio in studios]
    for run_id in ids:
        for studio in studios:
            wait_for(studio, run_id, until(JobState.FINISHED))
        assert starts_of(settings, run_id) == 1


def test_a_worker_that_does_not_stop_is_ended_after_the_grace_time(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(replace(settings, stop_grace_seconds=0.1))
    run_id = jobs.submit(long_run)
    wait_for(jobs, run_id, lambda status: status.state is not JobState.QUEUED)
    pid = pid_of(settings, run_id)
    jobs.stop(run_id)
    assert wait_for(jobs, run_id, until(JobState.STOPPED)).can_resume
    assert has_ended(pid)


def test_a_terminated_worker_saves_a_checkpoint_first(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    run_id = jobs.submit(long_run)
    wait_for(jobs, run_id, after_step(1))
    os.kill(pid_of(settings, run_id), signal.SIGTERM)
    status = wait_for(jobs, run_id, until(JobState.STOPPED))
    assert (settings.runs / run_id / "checkpoints" / f"checkpoint-{status.step}").is_dir()


def test_a_run_that_cannot_be_fails_with_a_sentence_and_the_queue_goes_on(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    failing = jobs.submit(replace(long_run, train_data="nowhere.jsonl"))
    following = jobs.submit(replace(long_run, max_steps=1))
    status = wait_for(jobs, failing, until(JobState.FAILED))
    assert "nowhere.jsonl" in status.error and status.error_template
    assert "Traceback" not in jobs.log_tail(failing)
    wait_for(jobs, following, until(JobState.FINISHED))
