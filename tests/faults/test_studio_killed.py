"""The studio ends during a run: the run goes on, and a new studio finds it where it is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from gradio_client import Client

from studio.files import read_json
from studio.training.retry import last_known
from studio.training.run_dir import RunDir
from tests.studio_process import StudioProcess

LONG = {
    "per_device_train_batch_size": 1,
    "max_steps": 10_000,
    "eval_strategy": "no",
    "eval_on_start": False,
    "max_eval_samples": 2,
    "capability_check": False,
    "replay_share": 0.0,
}
SHORT = {**LONG, "max_steps": 4}
ENDED = {"finished", "stopped", "failed", "interrupted"}


def status_when(client: Client, run_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The run's status once it is as wanted; fails if the run ends as something else."""
    while True:
        status: dict[str, Any] = client.predict(run_id=run_id, api_name="/run_status")
        if wanted(status):
            return status
        assert status["state"] not in ENDED, status["error"] or status["state"]
        time.sleep(0.2)


def test_a_run_outlives_studios_that_are_killed_or_end_in_order_and_the_next_one_takes_it_up(
    start_studio: Callable[..., StudioProcess], micro_model: Path, tones: Path
) -> None:
    what = {"base_model": str(micro_model), "train_data": str(tones)}
    first = start_studio(truly=True)
    client = Client(first.url, verbose=False)
    run_id = client.predict(config={**LONG, **what}, api_name="/start_run")
    waiting_id = client.predict(config={**SHORT, **what}, api_name="/start_run")
    before = status_when(client, run_id, lambda status: status["step"] > 0)
    first.kill()
    run = RunDir(first.home / "runs" / run_id)
    while last_known(run)[1] <= before["step"]:
        time.sleep(0.1)

    worker = psutil.Process(read_json(run.process)["pid"])
    worker.suspend()  # it has nothing to compute while a server starts
    second = start_studio()
    client = Client(second.url, verbose=False)
    then = status_when(client, run_id, lambda status: status["step"] > before["step"])
    worker.resume()
    later = status_when(client, run_id, lambda status: status["step"] > then["step"])
    assert later["state"] == "running"
    worker.suspend()
    assert second.interrupt() == 0
    assert "Traceback" not in second.log()

    client = Client(start_studio().url, verbose=False)
    _, known = last_known(run)
    worker.resume()
    status_when(client, run_id, lambda status: status["step"] > known)
    assert client.predict(run_id=waiting_id, api_name="/run_status")["state"] == "queued"

    client.predict(run_id=run_id, api_name="/stop_run")
    stopped = status_when(client, run_id, lambda status: status["state"] == "stopped")
    assert stopped["can_resume"]

    finished = status_when(client, waiting_id, lambda status: status["state"] == "finished")
    models = client.predict(api_name="/models")["models"]
    assert finished["model_id"] in {model["id"] for model in models}


def test_three_studios_on_one_home_start_each_run_once(
    start_studio: Callable[..., StudioProcess], micro_model: Path, tones: Path
) -> None:
    short = {**SHORT, "base_model": str(micro_model), "train_data": str(tones)}
    studios = [start_studio() for _ in range(3)]
    clients = [Client(studio.url, verbose=False) for studio in studios]
    ids = [client.predict(config=short, api_name="/start_run") for client in clients[1:]]
    for run_id in ids:
        for client in clients:
            status_when(client, run_id, lambda status: status["state"] == "finished")
    for run_id in ids:
        log = (studios[0].home / "runs" / run_id / "events.jsonl").read_text(encoding="utf-8")
        assert log.count('"kind": "plan"') == 1
