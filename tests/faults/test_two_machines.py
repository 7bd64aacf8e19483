"""Two machines train one run: two network namespaces, joined by a cable that can be cut."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from studio.options.arguments import command_line
from studio.options.training import TrainingConfig
from tests.forking import Popen, forked_server
from tests.studio_process import ROOT, end_processes_of
from tests.unit.training.attempts import quick

PATIENCE_SECONDS = 300


@dataclass
class Machine:
    """A namespace with an address, and a home of its own; its processes are forked, unless `truly`."""

    namespace: str
    address: str
    home: Path
    environ: dict[str, str]
    popen: Popen
    truly: bool = False

    def studio(self, *words: str) -> subprocess.Popen[str]:
        popen, start = self.popen, forked_server(self.popen)["command"]
        if self.truly:
            popen = subprocess.Popen
            start = ["ip", "netns", "exec", self.namespace, sys.executable, "-m", "studio"]
        return popen(
            [*start, *words],
            env={**self.environ, "PYTHONPATH": f"{self.environ.get('PYTHONPATH', '')}:{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def train(self, config: TrainingConfig) -> subprocess.Popen[str]:
        return self.studio(*shlex.split(command_line(config))[3:])

    def run(self) -> Path:
        return max((self.home / "runs").iterdir(), key=lambda path: path.stat().st_mtime)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, encoding="utf-8")


@pytest.fixture
def machines(tmp_path: Path, environ: dict[str, str], popen: Popen) -> Iterator[tuple[Machine, Machine]]:
    """Two machines; skipped where namespaces cannot be made."""
    if sys.platform != "linux" or not shutil.which("ip"):
        pytest.skip("network namespaces need Linux and the command ip")
    tag = uuid.uuid4().hex[:6]
    names = [f"studio-{tag}-{number}" for number in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", f"a{tag}", "netns", names[0], "type", "veth", "peer", f"b{tag}", "netns", names[1])
        made = []
        for number, (name, cable) in enumerate(zip(names, (f"a{tag}", f"b{tag}"), strict=True)):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")
            home = tmp_path / f"machine-{number}"
            own = {"STUDIO_HOME": str(home), "STUDIO_THREADS": "1", "STUDIO_MACHINE_WAIT_SECONDS": "120"}
            own["NETWORK_NAMESPACE"] = name
            made.append(Machine(name, f"10.77.0.{number + 1}", home, {**environ, **own}, popen))
    except subprocess.CalledProcessError as error:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
    yield made[0], made[1]
    for machine in made:
        end_processes_of(machine.home)
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def pair(model: Path, manifest: Path, rank: int, **changes: object) -> TrainingConfig:
    values = {
        "num_processes": 2,
        "num_machines": 2,
        "machine_rank": rank,
        "main_process_ip": "10.77.0.1",
        "ddp_timeout": 60,
        "per_device_train_batch_size": 2,
        "max_steps": 40,
        "save_steps": 2,
        "eval_strategy": "no",
        "run_name": "together",
    }
    return quick(model, manifest, **{**values, **changes})


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, output


def test_two_machines_train_one_run_and_survive_the_loss_of_one(
    machines: tuple[Machine, Machine], micro_model: Path, tones: Path
) -> None:
    first, second = machines
    both = [machine.train(pair(micro_model, tones, rank)) for rank, machine in enumerate(machines)]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(first.home.glob("runs/*/checkpoints/*/trainer_state.json")):
        assert time.monotonic() < deadline and both[0].poll() is None, ended(both[0])
        time.sleep(0.1)
    both[1].send_signal(signal.SIGSTOP)  # or it would see to a worker that was killed
    end_processes_of(second.home)
    both[1].send_signal(signal.SIGKILL)
    code, output = ended(both[0])
    assert code == 1 and "resume the run, on every machine" in output, output
    before = json.loads((first.run() / "result.json").read_text(encoding="utf-8"))
    assert before["state"] == "failed" and before["step"] < 40

    # The machine comes back without its disk: it gets the checkpoint from the other one.
    shutil.rmtree(second.home)
    run_id = first.run().name
    both = [first.studio("runs", "resume", run_id), second.train(pair(micro_model, tones, 1))]
    results = [ended(process) for process in both]
    assert [code for code, _ in results] == [0, 0], results
    assert "Model: together" in results[0][1] and "The model is on machine 0." in results[1][1]
    assert list((second.home / "models").iterdir()) == []
    log = (second.run() / "worker.log").read_text(encoding="utf-8")
    assert "goes to the machines that lack it" in log
    states = [machine.run() / "checkpoints" / "checkpoint-40" / "trainer_state.json" for machine in machines]
    assert states[0].is_file() and not states[1].is_file(), "one process writes the checkpoints"


def test_machines_with_other_libraries_are_told_apart(
    machines: tuple[Machine, Machine], micro_model: Path, tones: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old" / "peft-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: peft\nVersion: 0.0.1\n", encoding="utf-8")
    machines[1].environ["PYTHONPATH"] = str(old.parent)
    machines[1].truly = True
    both = [machine.train(pair(micro_model, tones, rank)) for rank, machine in enumerate(machines)]
    for code, output in map(ended, both):
        assert code == 1, output
        assert "and 0.0.1 for process 1 on" in output, output
        assert "make them the same on all machines" in output, output


def test_a_machine_that_nobody_joins_says_so(
    machines: tuple[Machine, Machine], micro_model: Path, tones: Path
) -> None:
    sentences = ("Not all 2 machines came together within 2 s", "Machine 0 did not answer")
    for rank, sentence in enumerate(sentences):
        machines[rank].environ["STUDIO_MACHINE_WAIT_SECONDS"] = "2"
        code, output = ended(machines[rank].train(pair(micro_model, tones, rank)))
        assert code == 1 and sentence in output, output
        assert list((machines[rank].home / "models").iterdir()) == []
