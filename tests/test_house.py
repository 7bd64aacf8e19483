"""Style and types are tests, too, and so is what `tests/run.py --changed` goes by."""

import os
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from tests.benchmarks.changed import FAULTS
from tests.changed import WHOLE, chosen
from tests.stories import STORIES, story_of
from tests.studio_process import ROOT


def run_tool(*arguments: str, **variables: str) -> None:
    """Runs a module of the tests' own environment over the checkout, and shows what it says if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
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
    """What mypy knows of the libraries outlives this clone: to read them takes half a minute."""
    known = Path.home() / ".cache" / "whisper-studio" / "mypy"
    known.mkdir(parents=True, exist_ok=True)
    with FileLock(known / "lock"):
        run_tool("mypy", MYPY_CACHE_DIR=str(known))


def test_coroutines_run_in_a_loop_of_their_own() -> None:
    """A browser test leaves a loop at work in its process: there, no other one can be started."""
    own = ROOT / "tests" / "event_loop.py"
    call = "asyncio." + "run("
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != own]
    assert [str(path) for path in files if call in path.read_text(encoding="utf-8")] == []


def test_every_room_has_a_story_and_every_story_is_there() -> None:
    rooms = [path for path in (ROOT / "studio").iterdir() if path.name != "__pycache__"]
    assert [path for path in rooms if not story_of(path.relative_to(ROOT).as_posix())] == []
    assert [key for key in STORIES if not list(ROOT.glob(f"{key}*"))] == []
    told = {name for key in STORIES for name in story_of(key)}
    assert [name for name in told if not (ROOT / name).is_file()] == []
    rooms = [ROOT / "tests" / room for room in ("app", "browser", "faults", "golden")]
    tests = [path for room in rooms for path in room.glob("test_*.py")]
    alone = {path.relative_to(ROOT).as_posix() for path in tests} - told
    assert alone == {"tests/faults/test_forking.py"}, "which is of the tests' own processes"


def test_every_fault_of_the_benchmark_can_be_put_in() -> None:
    places = {name: (ROOT / fault.file, fault.is_there) for name, fault in FAULTS.items()}
    assert [name for name, (file, text) in places.items() if file.read_text("utf-8").count(text) != 1] == []


def test_a_change_is_followed_to_the_tests_that_it_can_break() -> None:
    found = chosen(["studio/memory/trace/step.py"])
    for name in ("unit/memory/test_trace", "unit/memory/test_training", "browser/test_memory", "test_house"):
        assert f"tests/{name}.py" in found
    assert "tests/unit/dataset/test_audio.py" not in found
    assert list(chosen(["studio/units.py", "requirements.txt"])) == [WHOLE]
    assert "tests/unit/training/test_attempt.py" in chosen(["tests/unit/training/attempts.py"])
