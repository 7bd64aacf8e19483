"""`pip install .` gives a command that needs no checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.studio_process import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its command, built from this checkout and installed as pip does."""
    wheels, folder = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)], check=True)
    return folder


def run(installed: Path, home: Path, *arguments: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(installed), "STUDIO_HOME": str(home)}
    command = [str(installed / "bin" / "whisper-studio"), *arguments]
    done = subprocess.run(
        command, env=environ, cwd=home.parent, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout


def test_the_command_finds_its_models_and_transcribes_its_sample(installed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    models = json.loads(run(installed, home, "models", "--json"))["models"]
    demo = next(row for row in models if row["id"] == "demo")
    assert Path(demo["path"]) == installed / "studio" / "assets" / "demo-whisper"
    sample = installed / "studio" / "assets" / "demo-speech" / "samples" / "kitchen-light.flac"
    assert "kitchen light" in run(installed, home, "transcribe", "--model", "demo", str(sample))


def test_everything_that_is_read_while_the_studio_works_is_inside(installed: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "assets", "studio"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for_developers = ("assets/docker/", "assets/make_demo/", "assets/screenshots/", "assets/README.md")
    for_developers += ("assets/whisper_studio.ipynb",)  # opened from the repository
    wanted = {
        path.replace("assets/", "studio/assets/", 1) if path.startswith("assets/") else path
        for path in listed
        if not path.startswith(for_developers)
    }
    there = {path.relative_to(installed).as_posix() for path in (installed / "studio").rglob("*")}
    assert wanted - there == set()
