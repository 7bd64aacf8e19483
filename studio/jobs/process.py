"""Worker processes: started with an argument list, found again by pid and start time, ended as a tree."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from studio.files import read_json, write_json
from studio.settings import PROJECT_ROOT, Settings
from studio.training.run_dir import RunDir

_START_TIME_SLACK_SECONDS = 1.0
"""Start times are read from the clock tick: two processes with one pid are further apart."""
_PATIENCE_SECONDS = 5.0


def spawn(run: RunDir, settings: Settings) -> subprocess.Popen[bytes]:
    """Starts the worker of a run in a session of its own and records it in the run's folder.

    Its output goes to a file, never to a pipe that somebody would have to drain.
    """
    with run.log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "studio.training.worker", str(run.path)],
            cwd=run.path,
            env=_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **_own_group(),
        )
    write_json(run.process, {"schema_version": 1, "pid": process.pid, "started": _start_time(process.pid)})
    return process


def is_alive(run: RunDir) -> bool:
    """Whether the recorded worker still runs: a process of that pid that started at that time."""
    return _worker(run) is not None


def start_time(run: RunDir) -> float | None:
    """When the recorded worker was started, in seconds since the epoch; None if none was."""
    record = _record(run)
    return float(record["started"]) if record else None


def terminate_tree(run: RunDir) -> None:
    """Ends the worker and everything it started: asks first, then kills."""
    worker = _worker(run)
    if worker is None:
        return
    try:
        family = [*worker.children(recursive=True), worker]
    except psutil.NoSuchProcess:
        return
    for process in family:
        _signal(process, kill=False)
    _, alive = psutil.wait_procs(family, timeout=_PATIENCE_SECONDS)
    for process in alive:
        _signal(process, kill=True)
    psutil.wait_procs(alive, timeout=_PATIENCE_SECONDS)


def _signal(process: psutil.Process, *, kill: bool) -> None:
    try:
        process.kill() if kill else process.terminate()
    except psutil.NoSuchProcess:
        return


def _worker(run: RunDir) -> psutil.Process | None:
    record = _record(run)
    if record is None:
        return None
    try:
        process = psutil.Process(int(record["pid"]))
        is_same = abs(process.create_time() - float(record["started"])) < _START_TIME_SLACK_SECONDS
        is_running = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if is_same and is_running else None


def _record(run: RunDir) -> dict[str, Any] | None:
    try:
        record = read_json(run.process)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and {"pid", "started"} <= record.keys() else None


def _start_time(pid: int) -> float:
    return float(psutil.Process(pid).create_time())


def _environment(settings: Settings) -> dict[str, str]:
    """This process's environment with the settings of this studio."""
    env = dict(os.environ)
    env["STUDIO_HOME"] = str(settings.home)
    env["STUDIO_THREADS"] = str(settings.threads)
    if settings.hf_cache != Path():
        env["HF_HUB_CACHE"] = str(settings.hf_cache)
    paths = [str(PROJECT_ROOT), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONIOENCODING"] = "utf-8"
    env["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    env["TOKENIZERS_PARALLELISM"] = "false"
    # A second GPU would make the trainer wrap the model in DataParallel.
    env.setdefault("CUDA_VISIBLE_DEVICES", "0")
    return env


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
