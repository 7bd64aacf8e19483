"""Worker processes: started with an argument list, found again by pid and start time, ended as a tree."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from studio.errors import StorageError
from studio.files import noted, read_json, write_json
from studio.options.arguments import read_config
from studio.options.training import TrainingConfig
from studio.runs.kinds import PROCESS, fitting
from studio.settings import PROJECT_ROOT, Settings
from studio.training.launch import network_interface, worker_command
from studio.training.record import started_by
from studio.training.run_dir import RunDir

_START_TIME_SLACK_SECONDS = 1.0
"""Start times are read from the clock tick: two processes with one pid are further apart."""
_PATIENCE_SECONDS = 5.0
_EXIT_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_SECRETS = ("STUDIO_AUTH", "STUDIO_API_KEY", "OAUTH_CLIENT_SECRET")
_ACCOUNTS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")


def spawn(run: RunDir, settings: Settings) -> subprocess.Popen[bytes]:
    """Starts the worker of a run in a session of its own and records it in the run's folder.

    Its output goes to a file, never to a pipe that somebody would have to drain.

    Raises:
        ConfigError: if its configuration cannot be used.
        StorageError: if it cannot be recorded; then it is ended.
    """
    config = read_config(run.config)
    told = run.events.stat().st_size if run.events.exists() else 0
    with run.log.open("ab") as output:
        process: subprocess.Popen[bytes] = settings.popen(
            worker_command(config, str(run.path)),
            cwd=run.path,
            env={
                **environment(settings, started_by(run)),
                **devices(config),
                **_reporting(run, config),
                **_place(run),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **own_group(),
        )
    try:
        record = {"pid": process.pid, "started": _start_time(process.pid), "ticks": _ticks(process.pid)}
        write_json(run.process, {"schema_version": 1, **record, "told_bytes": told})
    except StorageError:  # nobody would know of it, and start another
        end_tree(psutil.Process(process.pid))
        process.wait()
        raise
    return process


def is_alive(run: RunDir) -> bool:
    """Whether the recorded worker still runs: a process of that pid that started at that time."""
    return _worker(run) is not None


def wait_for_exit(run: RunDir) -> None:
    """Returns when the worker of a run that has ended is gone; it may take its time, but not for ever."""
    end = time.monotonic() + _EXIT_SECONDS
    while is_alive(run) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def recorded_pid(run: RunDir) -> int | None:
    """Process id of the worker that was started last."""
    record = _record(run)
    return int(record["pid"]) if record else None


def start_time(run: RunDir) -> float | None:
    """When the recorded worker was started, in seconds since the epoch; None if none was."""
    record = _record(run)
    return float(record["started"]) if record else None


def has_spoken(run: RunDir, last_event: float | None) -> bool:
    """Whether the recorded worker has told something yet, and not only those before it: its events lie behind
    theirs, whatever the clock says meanwhile. `last_event` is the time of the latest."""
    record = _record(run) or {}
    if isinstance(told := record.get("told_bytes"), int):
        return last_event is not None and run.events.stat().st_size > told
    return last_event is not None and last_event > float(record.get("started", 0.0))  # an older studio's


def terminate_tree(run: RunDir) -> None:
    """Ends the worker and everything it started: asks first, then kills."""
    worker = _worker(run)
    if worker is not None:
        end_tree(worker)


def end_tree(worker: psutil.Process) -> None:
    """Ends a process and everything it started: asks first, then kills."""
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
        is_same = _is_same(process, record)
        is_running = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    return process if is_same and is_running else None


def _is_same(process: psutil.Process, record: dict[str, Any]) -> bool:
    """Whether a process of the recorded pid is the recorded one, even if the clock was set meanwhile."""
    ticks = _ticks(process.pid)
    if ticks is not None and record.get("ticks") is not None:
        return bool(ticks == record["ticks"])
    return bool(abs(process.create_time() - float(record["started"])) < _START_TIME_SLACK_SECONDS)


def _ticks(pid: int) -> int | None:
    """Start of a process in ticks since the machine was switched on, where the system tells: on Linux."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _record(run: RunDir) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] | None = fitting(read_json(run.process), PROCESS)
    except (OSError, ValueError):
        return None
    return record if record and 0 < record["pid"] < 2**31 and 0 < record["started"] < 1e11 else None


def _start_time(pid: int) -> float:
    return float(psutil.Process(pid).create_time())


def environment(settings: Settings, visitor: str = "") -> dict[str, str]:
    """Of a child process: this process's environment with the settings of this studio; for a visitor of a
    Space without the accounts of its owner."""
    env = {name: value for name, value in os.environ.items() if not _is_launchers(name)}
    # A worker lets nobody in, and needs no password.
    for secret in (*_SECRETS, *(_ACCOUNTS if visitor or settings.visitor else ())):
        env.pop(secret, None)
    env["STUDIO_HOME"] = str(settings.home)
    env["STUDIO_THREADS"] = str(settings.threads)
    if settings.hf_cache != Path():
        env["HF_HUB_CACHE"] = str(settings.hf_cache)
    # An empty one would be the run's folder.
    named = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    env["PYTHONPATH"] = os.pathsep.join(map(str, (PROJECT_ROOT, *(Path(path).absolute() for path in named))))
    env["PYTHONSAFEPATH"] = "1"  # what somebody put into a run's folder is no module
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONIOENCODING"] = "utf-8"
    env["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    env["TOKENIZERS_PARALLELISM"] = "false"
    # A second GPU would make the trainer wrap the model in DataParallel.
    env["CUDA_VISIBLE_DEVICES"] = env.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return env


def _is_launchers(name: str) -> bool:
    """Whether torchrun or accelerate told this process so which of several it is: a run has processes of its
    own, which would look for the launcher's."""
    if "WORLD_SIZE" not in os.environ:
        return False
    numbers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return name in numbers or name.startswith(("GROUP_", "ROLE_", "TORCHELASTIC_", "ACCELERATE_"))


def devices(config: TrainingConfig) -> dict[str, str]:
    """What several processes see beside or instead: all GPUs, and the network between their machines."""
    if not config.is_distributed:
        return {}
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    env = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(64))) if seen is None else seen}
    if interface := network_interface(config):
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            env[name] = os.environ.get(name, interface)
    return env


def _reporting(run: RunDir, config: TrainingConfig) -> dict[str, str]:
    """Where the packages of `report_to` write, and under which name, unless the user's environment says."""
    ours = {}
    if "tensorboard" in config.trackers:
        ours["TENSORBOARD_LOGGING_DIR"] = str(run.path / "tensorboard")
    if "wandb" in config.trackers:
        ours |= {
            "WANDB_DIR": str(run.path),
            "WANDB_PROJECT": config.project or "whisper-studio",
            "WANDB_RUN_ID": run.run_id,
            "WANDB_RESUME": "allow",
            "WANDB_SILENT": "true",
        }
        if not _has_wandb_account():  # it would ask for a key where nobody can answer
            ours["WANDB_MODE"] = "offline"
    return {name: os.environ.get(name, value) for name, value in ours.items()}


def _has_wandb_account() -> bool:
    if "WANDB_API_KEY" in os.environ:
        return True
    try:
        return b"wandb" in (Path.home() / ".netrc").read_bytes()
    except OSError:  # there is none, or it is not for this user
        return False


def _place(run: RunDir) -> dict[str, str]:
    """Where relative paths in the run's lists count from: where somebody asked for it, not its folder."""
    place = noted(run.record, "working_dir")
    return {"STUDIO_WORKING_DIR": place} if place else {}  # none: an older run


def own_group() -> dict[str, Any]:
    """Options of `Popen` for a process that no signal to this one's group reaches."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
