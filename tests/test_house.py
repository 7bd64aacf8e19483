"""Style and types are tests, too."""

import subprocess
import sys

from tests.studio_process import ROOT


def run_tool(*arguments: str) -> None:
    """Runs a module of the tests' own environment over the checkout, and shows what it says if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout


def test_ruff_finds_nothing() -> None:
    run_tool("ruff", "check")


def test_files_are_formatted() -> None:
    run_tool("ruff", "format", "--check")


def test_types_hold_in_strict_mode() -> None:
    run_tool("mypy")


def test_coroutines_run_in_a_loop_of_their_own() -> None:
    """A browser test leaves a loop at work in its process: there, no other one can be started."""
    own = ROOT / "tests" / "event_loop.py"
    call = "asyncio." + "run("
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != own]
    assert [str(path) for path in files if call in path.read_text(encoding="utf-8")] == []
