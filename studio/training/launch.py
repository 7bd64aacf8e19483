"""Several processes of a run: `python -m studio.training.launch RUN_DIR` starts them by `accelerate launch`.

One process a GPU, or a core where there is no GPU. This process waits for them and ends with them; it writes
the run's result only if they could not be started.
"""

import logging
import os
import shlex
import socket
import sys
import time
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from studio.errors import ConfigError, RunError, StudioError, in_brief
from studio.files import noted, write_json
from studio.options.arguments import read_config
from studio.options.training import TrainingConfig
from studio.process_exit import leave
from studio.settings import Settings
from studio.training.outcome import Outcome
from studio.training.run_dir import RunDir
from studio.watching import ShouldStop, never

WORKER = "studio.training.worker"
LAUNCHER = "studio.training.launch"
_RETRY_SECONDS = 0.5
log = logging.getLogger("studio.training")


def worker_command(config: TrainingConfig, run_dir: str) -> list[str]:
    """What the studio starts for a run: its worker, or the launcher of several."""
    return [sys.executable, "-m", LAUNCHER if config.is_distributed else WORKER, run_dir]


def launched(config: TrainingConfig, world_size: int, local_world_size: int) -> TrainingConfig:
    """The one run that is meant where torchrun or accelerate has started this command `world_size` times.

    `local_world_size` of them are on this machine; 0 if that is not known.

    Raises:
        ConfigError: if they are on several machines, or the run cannot have as many processes.
    """
    if world_size == 1:
        return config
    if local_world_size not in (0, world_size):
        raise ConfigError(
            "A launcher has started {count} processes on several machines: start python -m studio train "
            "itself, once on each of them, with --num_processes {count} --num_machines, --machine_rank and "
            "--main_process_ip.",
            count=world_size,
        )
    if config.num_processes not in (1, world_size):
        raise ConfigError(
            "A launcher has started {count} processes, and num_processes is {value}: leave out the launcher "
            "(torchrun, accelerate launch), or num_processes.",
            name="num_processes",
            count=world_size,
            value=config.num_processes,
        )
    return replace(config, num_processes=world_size)


def launch_command(config: TrainingConfig, run_dir: str) -> str:
    """What is underneath, as one would type it: the worker itself, or `accelerate launch`."""
    if not config.is_distributed:
        return shlex.join(["python", "-m", WORKER, run_dir])
    return shlex.join(["accelerate", "launch", *launch_arguments(config, run_dir)])


def launch_arguments(config: TrainingConfig, run_dir: str, wait_seconds: float = 600) -> list[str]:
    """The arguments of `accelerate launch`. A single machine takes any free port."""
    words = ["--multi_gpu", "--num_processes", str(config.num_processes), "--gpu_ids", "all"]
    words += ["--num_machines", str(config.num_machines)]
    if config.has_machines:
        words += ["--machine_rank", str(config.machine_rank), "--main_process_ip", config.main_process_ip]
        words += ["--main_process_port", str(config.main_process_port)]
        words += ["--rdzv_conf", f"timeout={max(1, round(wait_seconds))}"]
    else:
        words += ["--main_process_port", "0"]
    # The trainer sets precision and sharding itself; given here, so that no notice asks for them.
    words += ["--mixed_precision", "no", "--dynamo_backend", "no", "--module", WORKER, run_dir]
    return words


def check_processes(config: TrainingConfig, gpus: int, cores: int) -> None:
    """Refuses more processes than there are devices for, and sharding that cannot be had.

    Raises:
        ConfigError: says how many there are.
    """
    wanted = config.processes_per_machine
    if wanted > (gpus or cores):
        raise ConfigError(
            "{wanted} processes need a GPU each, and this machine has {count}: give num_processes {most}."
            if gpus
            else "{wanted} processes need a core each, and this machine has {count}: "
            "give num_processes {most}.",
            wanted=wanted,
            count=gpus or cores,
            most=(gpus or cores) * config.num_machines,
        )
    if not config.is_sharded:
        return
    if config.sharding == "zero3":
        raise ConfigError("sharding zero3 is only estimated: choose fsdp, which divides the same.")
    if config.sharding.startswith("zero") and find_spec("deepspeed") is None:
        raise ConfigError(
            "sharding {name} needs the package deepspeed, which is not installed: install it with "
            "pip install deepspeed, or choose ddp or fsdp.",
            name=config.sharding,
        )
    if not gpus:
        raise ConfigError(
            "sharding {name} needs GPUs, and this machine has none: choose ddp.", name=config.sharding
        )


def network_interface(config: TrainingConfig) -> str:
    """The network interface that leads to machine 0; empty with one machine, or if nothing is known."""
    if not config.has_machines:
        return ""
    try:
        with socket.socket(_family(config), socket.SOCK_DGRAM) as probe:
            probe.connect((config.main_process_ip, config.main_process_port))  # sends nothing
            own = str(probe.getsockname()[0])
    except OSError:
        return ""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address.partition("%")[0] == own for address in addresses):
            return str(name)
    return ""


def _family(config: TrainingConfig) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    family, *_rest = socket.getaddrinfo(config.main_process_ip, config.main_process_port)[0]
    return family


def reach_main_machine(config: TrainingConfig, wait_seconds: float, should_stop: ShouldStop = never) -> None:
    """Waits until machine 0 answers.

    Raises:
        RunError: if its name means nothing, or nobody answers in time.
    """
    address = f"{config.main_process_ip}:{config.main_process_port}"
    end = time.monotonic() + wait_seconds
    while not should_stop():
        try:
            where = (config.main_process_ip, config.main_process_port)
            socket.create_connection(where, timeout=max(1.0, end - time.monotonic())).close()
        except socket.gaierror as error:
            raise RunError(
                "The host name {address} cannot be resolved ({reason}): give an IP address as "
                "main_process_ip.",
                address=address,
                reason=error.strerror,
            ) from error
        except OSError as error:
            if time.monotonic() >= end:
                raise RunError(
                    "Machine 0 did not answer at {address} within {seconds} s ({reason}): start the run "
                    "there, and let its port through the firewall.",
                    address=address,
                    seconds=f"{wait_seconds:g}",
                    reason=error.strerror or in_brief(error),
                ) from error
            time.sleep(_RETRY_SECONDS)
        else:
            return


def main(argv: list[str]) -> int:
    """Starts the processes and waits for them; exit code 0 if they finished or stopped."""
    if len(argv) != 1 or not RunDir(Path(argv[0])).config.is_file():
        sys.stderr.write(f"usage: python -m {LAUNCHER} RUN_DIR (a folder with config.json)\n")
        return 2
    run = RunDir(Path(argv[0]).resolve())
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s", force=True)
    run.failure.unlink(missing_ok=True)
    outcome = Outcome()
    try:
        _launch(run)
    except StudioError as error:
        outcome.error = error
        log.info("Failed: %s", error)
        write_json(run.result, outcome.to_json({}))
        return 1
    except Exception as error:  # noqa: BLE001 - the processes have told what happened, each in its own words
        log.info("The processes have ended: %s", type(error).__name__)
        return _exit_code(error, run)
    return 0


def _launch(run: RunDir) -> None:
    import torch

    config, settings = read_config(run.config), Settings.from_env()
    check_processes(config, torch.cuda.device_count(), os.cpu_count() or 1)
    wait = settings.machine_wait_seconds
    if config.machine_rank > 0:
        reach_main_machine(config, wait, run.stop_request.exists)
    threads = settings.threads or max(1, (os.cpu_count() or 1) // config.processes_per_machine)
    words = launch_arguments(config, str(run.path), wait)
    log.info("accelerate launch %s", shlex.join(words))
    _accelerate(["--num_cpu_threads_per_process", str(threads), *words], config, wait)


def _accelerate(words: list[str], config: TrainingConfig, wait_seconds: float) -> None:
    """`accelerate launch` in this process, which saves one.

    Raises:
        RunError: if the machines do not come together.
    """
    from torch.distributed import DistStoreError

    launch: Any = import_module("accelerate.commands.launch")
    try:
        launch.launch_command(launch.launch_command_parser().parse_args(words))
    except DistStoreError as error:
        raise RunError(
            "Not all {count} machines came together within {seconds} s: start the run on each of them, "
            "with the same num_machines and num_processes.",
            count=config.num_machines,
            seconds=f"{wait_seconds:g}",
        ) from error
    except ConnectionError as error:
        raise RunError(
            "Port {port} of this machine is taken: give another main_process_port, on all machines.",
            port=config.main_process_port,
        ) from error


def _exit_code(error: Exception, run: RunDir) -> int:
    """That of the process that failed first, as a shell tells it of a signal; 0 if all was stopped."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if isinstance(error, ChildFailedError):
        rank, failure = error.get_first_failure()
        log.info("Process %s failed first, with exit code %s.", rank, failure.exitcode)
        if noted(run.result, "state") == "stopped" and not run.stop_request.exists():
            run.result.unlink()  # the first process was ended because another failed
        code: int = failure.exitcode
        return 128 - code if code < 0 else code or 1
    return 0 if run.result.exists() else 1


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
