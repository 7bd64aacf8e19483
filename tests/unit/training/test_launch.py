"""How several processes are started: the arguments, and what is refused before."""

import shlex
import socket
from dataclasses import replace

import pytest

from studio.errors import ConfigError, RunError
from studio.options.training import TrainingConfig
from studio.training.launch import (
    check_processes,
    launch_arguments,
    launch_command,
    launched,
    network_interface,
    reach_main_machine,
)

PAIR = TrainingConfig(
    num_processes=2, num_machines=2, machine_rank=1, main_process_ip="127.0.0.1", main_process_port=1
)


def test_accelerate_understands_the_arguments() -> None:
    from accelerate.commands.launch import launch_command_parser

    config = replace(PAIR, num_processes=8, main_process_ip="10.0.0.1", main_process_port=29400)
    read = launch_command_parser().parse_args(launch_arguments(config, "/runs/a b", wait_seconds=30))
    assert (read.multi_gpu, read.num_processes, read.num_machines, read.machine_rank) == (True, 8, 2, 1)
    assert (read.main_process_ip, read.main_process_port) == ("10.0.0.1", 29400)
    assert (read.training_script, read.training_script_args) == ("studio.training.worker", ["/runs/a b"])
    assert read.module and read.rdzv_conf == "timeout=30"


def test_the_shown_command_is_quoted() -> None:
    words = shlex.split(launch_command(TrainingConfig(num_processes=2), "/my runs/$x"))
    assert words[:4] == ["accelerate", "launch", "--multi_gpu", "--num_processes"]
    assert words[-2:] == ["studio.training.worker", "/my runs/$x"]
    assert shlex.split(launch_command(TrainingConfig(), "r")) == [
        "python",
        "-m",
        "studio.training.worker",
        "r",
    ]


def test_several_starts_by_torchrun_are_one_run() -> None:
    assert launched(TrainingConfig(), 1, 1) == TrainingConfig()
    for local in (0, 4):
        assert launched(TrainingConfig(), 4, local) == TrainingConfig(num_processes=4)
    assert launched(TrainingConfig(num_processes=4), 4, 4).num_processes == 4


@pytest.mark.parametrize(
    ("config", "local", "sentence"),
    [
        (TrainingConfig(), 2, "on several machines: start python -m studio train itself, once on each"),
        (TrainingConfig(num_processes=2), 4, "num_processes is 2: leave out the launcher"),
        (TrainingConfig(distill=True), 4, "distill runs in one process, got 4"),
    ],
)
def test_what_torchrun_cannot_mean_is_refused(config: TrainingConfig, local: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        launched(config, 4, local)


@pytest.mark.parametrize(
    ("config", "gpus", "sentence"),
    [
        (TrainingConfig(num_processes=3), 2, "3 processes need a GPU each, and this machine has 2"),
        (TrainingConfig(num_processes=9), 0, "9 processes need a core each, and this machine has 8"),
        (replace(PAIR, num_processes=6), 2, "3 processes need a GPU each.*num_processes 4"),
        (TrainingConfig(num_processes=2, sharding="fsdp"), 0, "needs GPUs, and this machine has none"),
        (TrainingConfig(num_processes=2, sharding="zero3"), 2, "choose fsdp"),
        (TrainingConfig(num_processes=2, sharding="zero2"), 2, "needs the package deepspeed"),
    ],
)
def test_what_cannot_be_started_is_refused(config: TrainingConfig, gpus: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_processes(config, gpus, cores=8)


def test_as_many_processes_as_devices_are_taken() -> None:
    check_processes(TrainingConfig(num_processes=2), gpus=2, cores=1)
    check_processes(TrainingConfig(num_processes=2, sharding="fsdp"), gpus=2, cores=1)
    check_processes(TrainingConfig(num_processes=2), gpus=0, cores=2)
    check_processes(TrainingConfig(sharding="zero3"), gpus=0, cores=1)


def test_a_machine_that_does_not_answer_is_named() -> None:
    with pytest.raises(RunError, match=r"did not answer at 127.0.0.1:1 within 0 s \(Connection refused\)"):
        reach_main_machine(PAIR, wait_seconds=0)
    with pytest.raises(RunError, match=r"The host name no-such-host.invalid:1 cannot"):
        reach_main_machine(replace(PAIR, main_process_ip="no-such-host.invalid"), wait_seconds=0)


def test_a_machine_that_answers_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach_main_machine(replace(PAIR, main_process_port=server.getsockname()[1]), wait_seconds=5)


def test_the_interface_is_the_one_that_leads_to_machine_0() -> None:
    assert network_interface(TrainingConfig(num_processes=2)) == ""
    assert network_interface(PAIR) in {name for _, name in socket.if_nameindex()}
    assert network_interface(replace(PAIR, main_process_ip="no-such-host.invalid")) == ""
