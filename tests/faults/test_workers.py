"""Workers that are killed, stopped, or never get far: real processes, real training."""

import os
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from studio.files import read_json
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.runs.manager import JobManager, JobState, RunStatus
from studio.runs.status import ACTIVE
from studio.services import Services
from studio.settings import Settings
from studio.training.checkpoints import WRITING, last_checkpoint, step_of
from studio.training.run_dir import RunDir
from tests.app.test_training_command import SECRETS
from tests.forking import Popen

PATIENCE_SECONDS = 550
PIPE_BYTES = 64 * 1024
NewStudio = Callable[..., JobManager]


@pytest.fixture
def new_studio(popen: Popen) -> Iterator[NewStudio]:
    """Managers with their threads; closed after the test.

    `truly` is how many of its first workers one starts; the others are forked.
    """
    made: list[JobManager] = []

    def make(settings: Settings, truly: int = 0) -> JobManager:
        ways = chain([subprocess.Popen] * truly, repeat(popen))
        registry = ModelRegistry(settings.models, demo=None, hf_cache=None)
        own = replace(settings, threads=1, popen=lambda *given, **named: next(ways)(*given, **named))
        manager = JobManager(own, registry)
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
        max_steps=6000,  # it never gets there
        save_steps=3,
        eval_strategy="no",
        generation_max_length=6,
        logging_steps=1,
        capability_check=False,
        replay_share=0.0,
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


def in_attempt(number: int) -> Callable[[RunStatus], bool]:
    return lambda status: len(status.retries) == number - 1


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


def test_a_killed_worker_is_followed_by_one_that_takes_less_and_the_queue_goes_on(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    slow = replace(long_run, per_device_train_batch_size=1, gradient_accumulation_steps=3, max_steps=12)
    killed = jobs.submit(slow)
    following = jobs.submit(replace(long_run, max_steps=2))
    for attempt, step in ((1, 3), (2, 7)):
        wait_for(jobs, killed, after_step(step))
        os.kill(pid_of(settings, killed), signal.SIGKILL)
        status = wait_for(jobs, killed, in_attempt(attempt + 1))
    assert [retry.changes for retry in status.retries] == [
        {"gradient_checkpointing": True},
        {"per_device_eval_batch_size": 4},
    ]
    assert "killed at step" in str(status.retries[0].sentences()[0])
    status = wait_for(jobs, killed, until(JobState.FINISHED))
    assert status.model_id and list(dict(status.loss_points)) == list(range(1, 13))
    assert starts_of(settings, killed) == 3
    assert wait_for(jobs, following, until(JobState.FINISHED)).model_id

    unbroken = jobs.submit(slow)
    wait_for(jobs, unbroken, until(JobState.FINISHED))
    weights = [
        load_file(settings.runs / run_id / "checkpoints" / "checkpoint-12" / "adapter_model.safetensors")
        for run_id in (killed, unbroken)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_worker_killed_with_nothing_left_to_make_smaller_is_interrupted_and_the_queue_goes_on(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    least = replace(
        long_run, per_device_train_batch_size=1, per_device_eval_batch_size=1, gradient_checkpointing=True
    )
    killed = jobs.submit(least)
    following = jobs.submit(replace(long_run, max_steps=1))
    wait_for(jobs, killed, after_step(1))
    os.kill(pid_of(settings, killed), signal.SIGKILL)
    status = wait_for(jobs, killed, until(JobState.INTERRUPTED))
    assert status.can_resume and not status.retries
    assert "probably for memory" in str(status.error)
    assert wait_for(jobs, following, until(JobState.FINISHED)).model_id


def test_a_worker_has_the_memory_of_loaded_models_and_without_enough_one_with_half_the_batch_follows(
    settings: Settings, micro_model: Path, tones: Path, popen: Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to read what it says: it takes the same steps, and each learns from as many clips."""
    monkeypatch.setenv("PYTHONVERBOSE", "1")  # the worker tells of each import: megabytes
    ways = chain([subprocess.Popen], repeat(popen))
    started = replace(settings, popen=lambda *given, **named: next(ways)(*given, **named))
    services = Services.open(replace(started, threads=1, model_idle_seconds=600))
    jobs = services.jobs
    with services.engines.lease("demo") as engine:
        weights = weakref.ref(engine._loaded)
    assert weights() is not None
    run_id = jobs.submit(
        TrainingConfig(
            base_model=str(micro_model),
            train_data=str(tones),
            method="full",
            per_device_train_batch_size=8,
            per_device_eval_batch_size=1,
            generation_max_length=100,
            num_train_epochs=2,
            logging_steps=1,
            capability_check=False,
            replay_share=0.0,
        )
    )
    jobs.start()
    try:
        wait_for(jobs, run_id, until(JobState.STARTING))
        assert weights() is None
        monkeypatch.delenv("PYTHONVERBOSE")
        wait_for(jobs, run_id, lambda status: status.phase == "evaluating")
        worker = psutil.Process(pid_of(settings, run_id))
        most = worker.memory_info().vms + 40 * 2**20  # enough to evaluate, not for eight at once
        worker.rlimit(psutil.RLIMIT_AS, (most, most))
        status = wait_for(jobs, run_id, until(JobState.FINISHED))
    finally:
        services.close()
    shortage = status.retries[0].shortage
    assert shortage.cause == "out_of_memory" and shortage.free_bytes
    assert status.retries[0].changes == {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    assert status.max_steps == 4, "one step still learns from eight clips"
    said = RunDir(settings.runs / run_id).log.read_text("utf-8", "replace")
    assert len(said) > 10 * PIPE_BYTES, "more than a pipe holds that nobody reads"
    # Whoever asks first says it in its own words: torch's allocator or oneDNN.
    words = ("DefaultCPUAllocator: can't allocate memory", "could not create a primitive")
    assert any(word in said for word in words)


def test_on_a_full_disk_the_last_checkpoint_stays_and_the_run_resumes_after_room_was_made(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    full = jobs.submit(replace(long_run, method="full", max_steps=60))
    following = jobs.submit(replace(long_run, max_steps=1))
    wait_for(jobs, full, after_step(7))
    psutil.Process(pid_of(settings, full)).rlimit(psutil.RLIMIT_FSIZE, (400_000, 400_000))
    status = wait_for(jobs, full, until(JobState.FAILED))
    assert "could not be written" in str(status.error) and "remove-checkpoints" in str(status.error)
    assert status.disk_free_bytes and status.checkpoints_bytes
    kept = last_checkpoint(settings.runs / full / "checkpoints")
    assert kept is not None and f"{kept.name} is kept" in str(status.error)
    torn = kept.with_name(f"checkpoint-{int(kept.name.rpartition('-')[2]) + 3}")
    assert not torn.exists(), "what is cut off takes no space"
    wait_for(jobs, following, until(JobState.FINISHED))

    assert jobs.remove_checkpoints(full) > 0 and last_checkpoint(kept.parent) == kept
    jobs.resume(full)
    finished = wait_for(jobs, full, until(JobState.FINISHED))
    assert list(dict(finished.loss_points)) == list(range(1, 61))
    assert jobs.remove_checkpoints(full) > 0 and not list(kept.parent.iterdir())


def test_a_worker_killed_in_the_middle_of_a_checkpoint_leaves_the_last_one(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(settings)
    least = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1}
    config = replace(long_run, **least, method="full", gradient_checkpointing=True, save_steps=1)
    killed = jobs.submit(config)
    wait_for(jobs, killed, after_step(2))
    worker = psutil.Process(pid_of(settings, killed))
    checkpoints = settings.runs / killed / "checkpoints"
    while True:
        assert worker.status() != psutil.STATUS_ZOMBIE, "a checkpoint was always missed"
        if any((checkpoints / WRITING).glob("*/model.safetensors")):
            worker.suspend()
            if any((checkpoints / WRITING).glob("*/model.safetensors")):
                break
            worker.resume()
    torn = next((checkpoints / WRITING).iterdir()).name
    worker.kill()
    status = wait_for(jobs, killed, until(JobState.INTERRUPTED))
    assert status.can_resume and (checkpoints / WRITING / torn).is_dir()
    assert torn not in {folder.name for folder in checkpoints.iterdir()}
    kept = last_checkpoint(checkpoints)
    assert kept is not None and kept.name == f"checkpoint-{int(torn.rpartition('-')[2]) - 1}"
    jobs.resume(killed)
    wait_for(jobs, killed, after_step(int(torn.rpartition("-")[2]) + 1))
    jobs.stop(killed)
    wait_for(jobs, killed, until(JobState.STOPPED))
    assert not (checkpoints / WRITING).exists()
    assert step_of(last_checkpoint(checkpoints)) > step_of(kept) + 1, "the torn one was written anew"


def test_a_worker_that_is_killed_at_its_start_is_resumed_and_ended_if_it_does_not_stop(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio
) -> None:
    jobs = new_studio(replace(settings, stop_grace_seconds=0.1), truly=2)
    run_id = jobs.submit(long_run)
    wait_for(jobs, run_id, lambda status: status.state is not JobState.QUEUED)
    os.kill(pid_of(settings, run_id), signal.SIGKILL)
    assert "killed" in str(wait_for(jobs, run_id, until(JobState.INTERRUPTED)).error), "long before a step"

    jobs.resume(run_id)
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
    assert not list(settings.models.iterdir()), "a stopped run makes no model"


def test_a_run_that_cannot_be_fails_with_a_sentence_tells_no_secret_and_the_queue_goes_on(
    settings: Settings, long_run: TrainingConfig, new_studio: NewStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    jobs = new_studio(settings)
    failing = jobs.submit(replace(long_run, train_data="nowhere.jsonl"))
    following = jobs.submit(replace(long_run, max_steps=1))
    status = wait_for(jobs, failing, until(JobState.FAILED))
    assert "nowhere.jsonl" in str(status.error)
    assert "Traceback" not in jobs.log_tail(failing)
    wait_for(jobs, following, until(JobState.FINISHED))
    left = [path for path in settings.home.rglob("*") if path.is_file()]
    assert len(left) > 10 and [path for path in left if b"never-told" in path.read_bytes()] == []
