"""What the packages of `report_to` have written, read back with their own readers."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from studio.runs import process
from studio.runs.status import read_result
from studio.training.record import evaluations
from studio.training.run_dir import RunDir
from tests.forking import Popen
from tests.unit.training.attempts import Runs, losses

PACKAGES = ("tensorboard", "wandb", "trackio")


def check_tensorboard(run: RunDir) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3]
    assert [event.step for event in events.Scalars("eval/wer")] == [3]


def records_of(content: bytes) -> Iterator[bytes]:
    """Records of W&B's file: a header of 7 bytes, then LevelDB's log in blocks of 32 KiB."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def check_wandb(run: RunDir) -> None:
    from wandb.proto import wandb_internal_pb2

    (file,) = run.path.glob("wandb/offline-run-*/run-*.wandb")
    seen: set[str] = set()
    project = ""
    for data in records_of(file.read_bytes()):
        record: Any = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        project = record.run.project or project
        seen |= {".".join(item.nested_key) or item.key for item in record.history.item}
    assert project == "my-speech"
    assert {"train/loss", "eval/wer", "eval/cer"} <= seen


def check_trackio(run: RunDir) -> None:
    """As trackio's own command line reads the curves, from the folder that `TRACKIO_DIR` names."""
    command = [sys.executable, "-m", "trackio.cli", "get", "snapshot", "--json"]
    chosen = ["--project", "my-speech", "--run", "reported", "--around", "2"]
    said = subprocess.run([*command, *chosen], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    curves = {
        name: [point["value"] for point in points]
        for name, points in json.loads(said.stdout)["metrics"].items()
    }
    points = list(losses(run).values())
    (found,) = evaluations(run).values()
    assert len(points) == 3
    assert curves["train/loss"] == pytest.approx(points)
    assert curves["eval/wer"] == pytest.approx([found["wer"]])


def test_each_package_has_the_curves_beside_the_others_without_a_network_or_an_account(
    runs: Runs, popen: Popen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of one run in a worker."""
    for package in PACKAGES:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: python3 tests/run.py installs it")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    usual = {"HOME": os.environ["HOME"]}
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))

    def start(words: list[str], *, env: dict[str, str], **how: Any) -> Any:
        """Forked, it is told what they read before it imports them."""
        own = {name: value for name, value in env.items() if name.startswith(("HOME", "TRACKIO_", "WANDB_"))}
        line = f"import os, runpy, sys; os.environ.update({own!r}); sys.argv = {words[2:]!r}; "
        line += f"runpy.run_module({words[2]!r}, run_name='__main__')"
        others = {name: value for name, value in env.items() if name not in own}
        return popen([words[0], "-c", line], env=others | usual, **how)

    (tmp_path / ".netrc").write_bytes("machine example.org login jos\u00e9 password x\n".encode("latin-1"))
    run = runs.new("reported", report_to=",".join(PACKAGES), project="my-speech", max_steps=3)
    process.spawn(run, replace(runs.settings, popen=start)).wait(timeout=300)
    result = read_result(run)
    assert result is not None and result["state"] == "finished", run.log.read_text(encoding="utf-8")
    check_tensorboard(run)
    check_wandb(run)
    check_trackio(run)
