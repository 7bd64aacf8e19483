"""The worker's process: what it takes, and that a run has one worker."""

import os
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

from studio.files import read_json, write_json
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.runs.status import JobState, read_state
from studio.training.run_dir import RunDir
from tests.studio_process import ROOT


def worker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "studio.training.worker", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


SLOW = """
from pathlib import Path
Path(r"{folder}/importing").touch()
open(r"{folder}/pipe").read()  # until somebody writes to it, which nobody does
"""


def test_a_stop_while_libraries_are_loaded_ends_the_run_there(tmp_path: Path) -> None:
    """What takes long is an import here that does not come to its end, as on a slow disk."""
    run = RunDir(tmp_path / "run")
    write_json(run.config, config_to_dict(TrainingConfig()))
    (tmp_path / "slow" / "torch").mkdir(parents=True)
    (tmp_path / "slow" / "torch" / "__init__.py").write_text(SLOW.format(folder=tmp_path))
    os.mkfifo(tmp_path / "pipe")
    paths = os.pathsep.join([str(tmp_path / "slow"), str(ROOT)])
    started = subprocess.Popen(
        [sys.executable, "-m", "studio.training.worker", str(run.path)],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        while not (tmp_path / "importing").exists():
            assert started.poll() is None
            time.sleep(0.05)
        run.stop_request.touch()
        printed, _ = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode == 0, printed
    assert read_json(run.result)["state"] == "stopped" and "Stopped before anything was loaded." in printed
    assert read_state(run) is JobState.STOPPED and not run.reserve.exists()


def test_without_a_run_the_worker_says_what_it_takes(tmp_path: Path) -> None:
    for arguments in ([], [str(tmp_path)], ["a", "b"]):
        done = worker(*arguments)
        assert done.returncode == 2 and done.stderr.startswith("usage: "), arguments


def test_a_run_has_one_worker(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    write_json(run.config, config_to_dict(TrainingConfig()))
    with FileLock(run.lock):
        done = worker(str(tmp_path))
    assert done.returncode == 3 and "Another worker has this run." in done.stdout
    assert not run.result.exists()
