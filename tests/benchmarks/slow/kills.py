"""A worker is killed fifty times, at any moment of its life: its runs are as good as an unbroken one."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from studio.options.training import TrainingConfig
from studio.runs.manager import JobState, RunStatus
from studio.settings import Settings
from studio.training.run_dir import RunDir
from tests.faults.test_workers import NewStudio, long_run, new_studio, pid_of, until, wait_for

__all__ = ["long_run", "new_studio"]
KILLS = 50
Outcome = tuple[list[tuple[int, float]], dict[str, torch.Tensor]]


def outcome(settings: Settings, status: RunStatus) -> Outcome:
    """The loss of each step, and the weights of the last checkpoint."""
    folder = RunDir(settings.runs / status.run_id).checkpoints / f"checkpoint-{status.step}"
    return list(status.loss_points), load_file(folder / "adapter_model.safetensors")


def at_rest(status: RunStatus) -> bool:
    return status.state in (JobState.INTERRUPTED, JobState.FINISHED)


@pytest.mark.timeout(7200)
def test_fifty_kills_change_neither_the_curve_nor_the_weights(
    settings: Settings,
    long_run: TrainingConfig,
    new_studio: NewStudio,
    record_property: Callable[[str, object], None],
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    record_property("seed of the moments", seed)
    jobs = new_studio(settings)
    small = {"per_device_train_batch_size": 1, "per_device_eval_batch_size": 1}
    config = replace(long_run, **small, max_steps=60, gradient_checkpointing=True, capability_check=False)
    began = time.monotonic()
    unbroken = jobs.submit(config)
    expected = outcome(settings, wait_for(jobs, unbroken, until(JobState.FINISHED)))
    seconds = time.monotonic() - began
    record_property("seconds of an unbroken run", f"{seconds:.0f}")
    killed: Counter[str] = Counter()
    runs = 0
    while killed.total() < KILLS:
        run_id, runs = jobs.submit(config), runs + 1
        while True:
            wait_for(jobs, run_id, lambda status: status.state is not JobState.QUEUED)
            moment = time.monotonic() + chance.uniform(0, seconds)
            while time.monotonic() < moment and not at_rest(jobs.status(run_id)):
                time.sleep(0.02)
            status = jobs.status(run_id)
            if killed.total() < KILLS and not at_rest(status):
                os.kill(pid_of(settings, run_id), signal.SIGKILL)
                killed["before the first step" if not status.step else status.phase or "?"] += 1
                status = wait_for(jobs, run_id, at_rest)
            else:
                status = wait_for(jobs, run_id, at_rest)
            if status.state is JobState.FINISHED:
                break
            assert status.can_resume, status.error
            jobs.resume(run_id)
        points, weights = outcome(settings, status)
        assert points == expected[0]
        assert all(torch.equal(weights[name], tensor) for name, tensor in expected[1].items())
    for phase, count in killed.items():
        record_property(f"kills, {phase}", count)
    record_property("runs that were broken and equal the unbroken one to the bit", runs)
