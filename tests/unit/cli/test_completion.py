"""The TAB key, as a shell asks: a line of the terminal in the environment, the answer on descriptor 8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from studio.cli.completion import MODELS
from studio.cli.main import COMMANDS, command
from studio.options.training import FIELDS
from tests.studio_process import ROOT

HEAVY = ("torch", "gradio", "transformers", "numpy", "datasets")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A studio with a run and a broken model, whose table is made by the first answer."""
    home = tmp_path_factory.mktemp("home")
    for folder in ("runs/my-run-1", "models/my-model"):
        (home / folder).mkdir(parents=True)
    return home


def completed(line: str, home: Path) -> tuple[list[str], set[str]]:
    """What can follow the line, and every module that was imported to say so."""
    asks = {
        "_ARGCOMPLETE": "3",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "STUDIO_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
    }
    # As bash and zsh do it; nothing but the answer may reach the terminal.
    words = [
        "sh",
        "-c",
        'exec "$0" "$@" 8>&1 1>/dev/null',
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "studio",
    ]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, **asks}, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    imported = {row.rpartition("|")[2].strip() for row in done.stderr.splitlines() if "import time:" in row}
    return [word.rstrip() for word in done.stdout.splitlines()], imported


@pytest.mark.parametrize(
    ("line", "offered", "withheld"),
    [
        ("python -m studio tr", {"train", "transcribe"}, {"runs"}),
        ("python -m studio train --gradient_", {"--gradient_checkpointing"}, {"--json"}),
        ("python -m studio train --method ", {"lora", "full", "frozen_encoder"}, {"demo"}),
        ("python -m studio export --format ", {"ctranslate2", "merged", "ggml"}, set()),
        ("python -m studio transcribe --language cz", {"czech"}, {"english"}),
        ("python -m studio evaluate --models demo,my", {"demo,my-model"}, {"demo,tiny"}),
        ("python -m studio train --base_model tin", {"tiny", "tiny.en"}, {"my-model"}),
        ("python -m studio models ", {"list", "rename"}, {"demo"}),
        ("python -m studio models delete my", {"my-model"}, {"rename"}),
        ("python -m studio runs co", {"compare"}, {"list"}),
        ("python -m studio runs resume my", {"my-run-1"}, set()),
        ("python -m studio check-data READ", {"README.md"}, set()),
    ],
)
def test_what_can_follow_is_offered(home: Path, line: str, offered: set[str], withheld: set[str]) -> None:
    words, _ = completed(line, home)
    assert offered <= set(words)
    assert withheld & set(words) == set()


def test_an_answer_imports_no_command_once_the_table_is_kept_and_never_a_heavy_library(home: Path) -> None:
    words, imported = completed("python -m studio serve --model ", home)
    assert "demo" in words
    assert imported.isdisjoint(HEAVY)
    _, imported = completed("python -m studio serve --model ", home)
    assert "studio.registry.store" in imported
    assert not any(f"studio.cli.{name}" in imported for name in ("train", "serve", "transcribe"))


def test_whatever_names_a_model_is_completed_with_models() -> None:
    told = [row for name in COMMANDS for row in command(name).parser().arguments()]
    named = {row.name for row in told if "egistry id" in row.text}
    named |= {name for name, field in FIELDS.items() if "egistry id" in field.metadata["help"]}
    assert named <= MODELS
