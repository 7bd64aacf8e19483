"""The worker's process: what it takes, and that a run has one worker."""

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from studio.files import write_json
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
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
