"""What a worker gets from the process that starts it."""

import os
import subprocess
import sys
from dataclasses import replace
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
    secrets = ("STUDIO_AUTH", "STUDIO_API_KEY", "OAUTH_CLIENT_SECRET")
    accounts = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY")
    for name in (*secrets, *accounts):
        monkeypatch.setenv(name, "never-told")
    assert [name for name, value in environment(settings).items() if value == "never-told"] == [*accounts]
    for of_visitor in (environment(settings, "one"), environment(replace(settings, visitor="one"))):
        assert "never-told" not in of_visitor.values(), "they are the owner's of the Space"


@pytest.mark.parametrize(
    ("told", "token"), [({}, "None"), ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "0"}, "hf_own")]
)
def test_what_visitors_of_a_space_name_is_read_without_its_owners_token_unless_told(
    settings: Settings, told: dict[str, str], token: str
) -> None:
    script = (
        "import studio.settings, huggingface_hub.utils as hub; "
        "print(str(hub.build_hf_headers().get('authorization')).removeprefix('Bearer '))"
    )
    env = {**environment(settings), "SPACE_ID": "ada/studio", "HF_TOKEN": "hf_own", **told}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == token


@pytest.mark.parametrize(("told", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_leave_the_cores_to_others_while_they_wait_unless_they_are_told(
    settings: Settings, told: dict[str, str], policy: str
) -> None:
    asked = [sys.executable, "-c", "import os, studio.settings; print(os.environ['OMP_WAIT_POLICY'])"]
    env = {name: value for name, value in environment(settings).items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(asked, env={**env, **told}, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == policy


def test_what_a_card_of_apples_lacks_the_processor_computes(settings: Settings) -> None:
    said = "import os, studio.settings; print(os.environ['PYTORCH_ENABLE_MPS_FALLBACK'])"
    asked = [sys.executable, "-c", said]
    done = subprocess.run(asked, env=environment(settings), capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "1"


def test_what_lies_in_the_folder_of_a_run_is_never_imported(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", ".", os.environ.get("PYTHONPATH", ""))))
    for module in ("studio", "torch", "filelock"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text("raise SystemExit('I was run')", encoding="utf-8")
    asked = [sys.executable, "-m", "studio.training.worker"]
    done = subprocess.run(
        asked, cwd=tmp_path, env=environment(settings), capture_output=True, encoding="utf-8"
    )
    assert "I was run" not in done.stderr and done.returncode != 0
