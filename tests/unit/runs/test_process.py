"""What a worker gets from the process that starts it."""

import subprocess
import sys
from pathlib import Path

import pytest

from studio.runs.process import environment
from studio.settings import Settings


def test_a_run_does_not_look_for_the_launcher_of_the_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    launchers = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "ACCELERATE_USE_FSDP",
    )
    for name in launchers:
        monkeypatch.setenv(name, "1")
    assert {*launchers} & environment(settings).keys() == set()
    monkeypatch.delenv("WORLD_SIZE")
    assert "MASTER_PORT" in environment(settings), "somebody has set it for a reason"


def test_a_run_is_not_told_who_may_come_in(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"STUDIO_AUTH": "ada:never-told", "STUDIO_API_KEY": "never-told"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    assert secrets.keys() & environment(settings).keys() == set()


@pytest.mark.parametrize(("told", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_leave_the_cores_to_others_while_they_wait_unless_they_are_told(
    settings: Settings, told: dict[str, str], policy: str
) -> None:
    asked = [sys.executable, "-c", "import os, studio.settings; print(os.environ['OMP_WAIT_POLICY'])"]
    env = {name: value for name, value in environment(settings).items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(asked, env={**env, **told}, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == policy


def test_what_lies_in_the_folder_of_a_run_is_never_imported(settings: Settings, tmp_path: Path) -> None:
    for module in ("studio", "torch"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text("raise SystemExit('I was run')", encoding="utf-8")
    asked = [sys.executable, "-m", "studio.training.worker"]
    done = subprocess.run(
        asked, cwd=tmp_path, env=environment(settings), capture_output=True, encoding="utf-8"
    )
    assert "I was run" not in done.stderr and done.returncode != 0
