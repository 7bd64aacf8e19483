"""A worker that is forked does and ends as one that is started."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from gradio_client import Client

from studio.files import read_json
from studio.options.arguments import config_to_dict
from studio.runs.process import spawn
from studio.settings import Settings
from studio.training.run_dir import RunDir
from tests.faults.test_processes import curve
from tests.forking import ForkedProcess, Popen
from tests.studio_process import StudioProcess, end_processes_of, words_of
from tests.unit.training.attempts import new_run, quick


def ended(settings: Settings, run: RunDir) -> tuple[Any, ...]:
    """Exit code of the run's worker, what does not hang on the clock in its result, and the losses."""
    worker = spawn(run, replace(settings, threads=1))
    assert isinstance(worker, ForkedProcess) == (settings.popen is not subprocess.Popen)
    code = worker.wait(300)
    result = read_json(run.result)
    return code, *(result[name] for name in ("state", "error", "step", "max_steps", "metrics")), curve(run)


def test_a_forked_worker_learns_and_ends_as_one_that_was_started(
    settings: Settings, popen: Popen, micro_model: Path, tones: Path
) -> None:
    runs = [new_run(settings, quick(micro_model, tones), f"run-{number}") for number in range(2)]
    forked = replace(settings, popen=popen)
    started = ended(settings, runs[0])
    assert started == ended(forked, runs[1]) and started[:2] == (0, "finished")
    failed = ended(forked, new_run(settings, quick(micro_model, Path("nowhere.jsonl")), "bad"))
    assert failed[:2] == (1, "failed") and "nowhere.jsonl" in str(failed[2])


def test_a_forked_worker_is_found_and_ended_as_one_that_was_started(
    settings: Settings, popen: Popen, micro_model: Path, tones: Path
) -> None:
    config = quick(micro_model, tones, max_steps=10_000, eval_strategy="no")
    codes = []
    for number, end in enumerate((signal.SIGKILL, signal.SIGTERM, None)):
        run = new_run(settings, config, f"run-{number}")
        worker = spawn(run, replace(settings, threads=1, popen=popen))
        while not curve(run):
            assert worker.poll() is None, run.log.read_text("utf-8")
            time.sleep(0.1)
        assert psutil.Process(worker.pid).cmdline()[1:4] == ["-m", "studio.training.worker", str(run.path)]
        worker.send_signal(end) if end else end_processes_of(settings.home)
        codes.append(worker.wait(60))
    with popen([sys.executable, "-m", "studio.memory.trace.worker"], stdin=subprocess.PIPE) as listening:
        listening.terminate()
    assert (*codes, listening.returncode) == (-signal.SIGKILL, 0, -signal.SIGKILL, -signal.SIGTERM)
    assert read_json(RunDir(settings.runs / "run-1").result)["state"] == "stopped"


def test_a_line_of_python_is_forked_as_processes_of_tests_are(popen: Popen) -> None:
    line = "import sys; print(__name__, sys.argv, 'torch' in sys.modules)"
    with popen([sys.executable, "-u", "-c", line], stdout=subprocess.PIPE, encoding="ascii") as process:
        assert process.stdout and process.stdout.read() == "__main__ ['-c'] True\n"
    assert process.returncode == 0


def test_the_workers_of_a_forked_server_are_forked_too(
    start_studio: Callable[..., StudioProcess], micro_model: Path, tones: Path
) -> None:
    server = start_studio()
    config = {**config_to_dict(quick(micro_model, tones, max_steps=10_000)), "eval_strategy": "no"}
    run_id = Client(server.url, verbose=False).predict(config=config, api_name="/start_run")
    run = RunDir(server.home / "runs" / run_id)
    while not run.process.is_file():
        time.sleep(0.1)
    parent = psutil.Process(read_json(run.process)["pid"]).parent()
    assert parent is not None and "tests.forking" in words_of(parent), (
        "it was started, which takes ten seconds"
    )
