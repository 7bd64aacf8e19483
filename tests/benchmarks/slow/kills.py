"""Killed at any moment of their lives: a worker fifty times, whose runs are as good as an unbroken one, and a
studio twenty times, which loses nothing that it promised."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gradio_client import Client
from safetensors.torch import load_file

from studio.options.training import TrainingConfig
from studio.runs.manager import JobState, RunStatus
from studio.settings import Settings
from studio.training.run_dir import RunDir
from tests.faults.test_studio_killed import ENDED, SHORT_RUN
from tests.faults.test_workers import NewStudio, long_run, new_studio, pid_of, until, wait_for
from tests.studio_process import StudioProcess

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


STUDIO_KILLS = 20


@pytest.mark.timeout(7200)
def test_twenty_killed_studios_lose_no_run_and_no_model(
    start_studio: Callable[..., StudioProcess],
    studio_home: Path,
    record_property: Callable[[str, object], None],
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    record_property("seed of the moments", seed)
    promised: list[str] = []
    for _ in range(STUDIO_KILLS):
        studio = start_studio(truly=True)
        visitor = threading.Thread(target=submit_until_it_dies, args=(studio, promised))
        visitor.start()
        time.sleep(chance.uniform(0, 8))
        studio.kill()
        visitor.join()
    client = Client(start_studio(truly=True).url, verbose=False)
    runs = {run["run_id"]: run for run in client.predict(api_name="/runs")["runs"]}
    assert promised and set(promised) <= set(runs), "what was promised is there"
    waiting = set(runs)
    while waiting:
        run_id = waiting.pop()
        while (run := client.predict(run_id=run_id, api_name="/run_status"))["state"] not in ENDED:
            time.sleep(0.5)
        runs[run_id] = run
    assert {run["state"] for run in runs.values()} == {"finished"}, runs
    models = [model["id"] for model in client.predict(api_name="/models")["models"]]
    made = [run["model_id"] for run in runs.values()]
    assert len(set(made)) == len(made) and set(made) <= set(models)
    left = [path for path in studio_home.rglob("*") if path.name.endswith((".tmp", ".part", ".new"))]
    assert left == []
    record_property("runs that were promised", len(promised))
    record_property("runs that finished, each with its model", len(made))


def submit_until_it_dies(studio: StudioProcess, promised: list[str]) -> None:
    """Queues a run every few seconds, and notes each of which the studio said that it has it."""
    with suppress(Exception):  # the studio is killed in the middle of something
        client = Client(studio.url, verbose=False)
        while True:
            promised.append(client.predict(config=SHORT_RUN, api_name="/start_run"))
            time.sleep(6)
