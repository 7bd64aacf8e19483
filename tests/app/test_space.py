"""The repository as a Hugging Face Space: an ordinary user, a read-only checkout, no training."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.studio_process import StudioProcess, copy_checkout

NOBODY = 65534
READS_ALL = "+dac_read_search"


@pytest.fixture(scope="module")
def space(environ: dict[str, str]) -> Iterator[StudioProcess]:
    """The page of a Space, served by a user who owns nothing but a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="space-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        checkout, own = folder / "app", folder / "tmp"
        copy_checkout(checkout)
        make_read_only(checkout)
        own.mkdir()
        command = [sys.executable, "app.py"]
        if is_root():
            os.chown(own, NOBODY, NOBODY)
            command = [*as_ordinary_user(), *command]
        on_space = {
            **environ,
            "SPACE_ID": "somebody/whisper-studio",
            "HOME": str(own),
            "TMPDIR": str(own),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        before = fingerprint(checkout)
        process = StudioProcess(
            own / "whisper-studio", on_space, command=command, checkout=checkout, name_home=False
        )
        try:
            with process:
                yield process
            assert fingerprint(checkout) == before, "the checkout was written to"
        finally:
            make_writable(checkout)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def as_ordinary_user() -> list[str]:
    """What to put before a command so that root's test runs it without root's rights.

    The interpreter may lie in a folder that only root can enter; then the user is given the right to read
    everything, or else root loses the right to write what its permissions forbid.
    """
    setpriv = shutil.which("setpriv")
    assert setpriv, "root needs setpriv (util-linux) to start the studio as an ordinary user"
    nobody = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    ways = (
        nobody,
        [*nobody, f"--inh-caps={READS_ALL}", f"--ambient-caps={READS_ALL}"],
        [setpriv, "--inh-caps=-dac_override", "--bounding-set=-dac_override"],
    )
    for way in ways:
        done = subprocess.run([*way, sys.executable, "-c", "import gradio"], capture_output=True)
        if done.returncode == 0:
            return way
    raise AssertionError("this machine's root cannot give up its rights")


def make_read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def make_writable(folder: Path) -> None:
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        path.chmod(0o755)


def fingerprint(folder: Path) -> str:
    """Names and contents of every file."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(path.relative_to(folder).as_posix().encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
