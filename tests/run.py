"""Runs the whole test suite from a bare checkout: `python3 tests/run.py [arguments for pytest]`.

`--changed [REV]` runs what the files that differ from REV can break, and says why (see `tests/changed.py`);
`--slow` runs what needs tens of minutes instead (see `tests/benchmarks/slow/`).

Makes or reuses `.venv`, installs `tests/requirements*.txt` into it, finds or installs Chromium, and hands
over to pytest, whose exit code it returns. Needs nothing but Python's standard library, so any Python 3 can
start it; a suitable one (3.11 to 3.13) is then looked for.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
MOST_PROCESSES = 4
"""Each has a browser and trains models."""
OLDEST, NEWEST = (3, 11), (3, 13)
SLOW = tuple(
    f"tests/benchmarks/slow/{name}.py" for name in ("kills", "fuzz", "crowd", "notebook", "grid", "afternoon")
)
"""Files that pytest does not find by itself."""
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_PACKAGES = (("chromium", "fonts-noto-cjk"), ("chromium-headless-shell",))
"""The second is no part of older systems, and only quicker."""


def main() -> int:
    wish, arguments = wishes()
    python = virtual_environment()
    if not is_installed(python):
        say("Installing what the tests need (tests/requirements*.txt)")
        install = [python, "-m", "pip", "install", "--quiet"]
        call([*install, "-r", str(ROOT / "tests" / "requirements.txt")])
        call([*install, "--no-deps", "-r", str(ROOT / "tests" / "requirements-no-deps.txt")])
    # Processes start by the hundred: none is to compile the modules again.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    chromium = environ.get("STUDIO_TEST_CHROMIUM") or system_chromium()
    if chromium:
        environ["STUDIO_TEST_CHROMIUM"] = chromium
    else:
        say("No Chromium from the system: installing Playwright's own")
        call([python, "-m", "playwright", "install", "chromium"])
    if wish.slow:
        arguments = arguments or list(SLOW)
    elif wish.changed is not None:
        say("What can break")
        arguments = [*side_by_side(), *can_break(python, wish.changed), *arguments]
    elif not arguments:
        arguments = side_by_side()
    if wish.slowed:
        arguments = [*arguments, f"--slowed={wish.slowed}"]
    if "-n" in arguments:
        environ.setdefault("OMP_NUM_THREADS", "1")
    say("Running the tests")
    command = [python, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL).returncode


def wishes() -> "tuple[argparse.Namespace, list[str]]":
    """What is for this script, and what is for pytest."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--changed", nargs="?", const="", metavar="REV", help="only what a change can break")
    parser.add_argument("--slow", action="store_true", help="only what needs tens of minutes")
    parser.add_argument("--slowed", metavar="TIMES", help="pages so many times slower, servers that give way")
    return parser.parse_known_args()


def can_break(python: str, revision: str) -> "list[str]":
    """Test files, chosen by what differs from a revision; why each, is printed."""
    command = [python, "-m", "tests.changed", revision]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return done.stdout.decode().split() if done.returncode == 0 else sys.exit(done.returncode)


def side_by_side() -> "list[str]":
    """Arguments that run the whole suite on all cores; one process more, since each waits now and then."""
    processes = min(MOST_PROCESSES, (os.cpu_count() or 1) + 1)
    # What shares a server stays together, and what takes long comes first: see `tests/conftest.py`.
    apart = ["-n", str(processes), "--dist", "loadscope", "--no-loadscope-reorder"]
    return [*apart, "--durations=30", "--durations-min=1"]


def virtual_environment() -> str:
    """The interpreter of `.venv`, which is made if it is not there, no longer runs, or has no pip."""
    python = str(ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    if not (is_suitable(python) and answer([python, "-m", "pip", "--version"])):
        say(f"Making the virtual environment {ENVIRONMENT}")
        call([suitable_python(), "-m", "venv", "--clear", str(ENVIRONMENT)])
    return python


def suitable_python() -> str:
    """An interpreter that the pinned libraries can be installed for."""
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    for candidate in [sys.executable, *(shutil.which(name) for name in names)]:
        if candidate and is_suitable(candidate):
            return candidate
    sys.exit("Python 3.11, 3.12 or 3.13 is needed, and none of them is on the PATH: install one of them.")


def is_suitable(python: str) -> bool:
    """Whether `python` runs, and is of a version that the pinned libraries know."""
    version = answer([python, "-c", "import sys; print(*sys.version_info[:2])"])
    return bool(version) and OLDEST <= tuple(map(int, version.split())) <= NEWEST


def is_installed(python: str) -> bool:
    """Whether all that is pinned is there: pip takes five seconds to say so."""
    lists = [ROOT / "requirements.txt", *(ROOT / "tests").glob("requirements*.txt")]
    lines = [line for path in lists for line in path.read_text(encoding="utf-8").splitlines()]
    look = """import sys; from importlib.metadata import version
pins = (pin.split("==") for pin in sys.argv[1:])
print(all(version(name).split("+")[0] == pinned for name, pinned in pins))"""
    return answer([python, "-c", look, *(line for line in lines if "==" in line)]) == "True"


def system_chromium() -> "str | None":
    """Path of a Chromium that runs, from the PATH or installed with the system's packages; None without."""
    found = working_chromium()
    rights = package_rights()
    if found or rights is None or not shutil.which("apt-get"):
        return found
    say("Installing Chromium with the system's packages")
    quiet = [*rights, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for command in (["update"], *(["install", "-y", *packages] for packages in CHROMIUM_PACKAGES)):
        if subprocess.run([*quiet, *command], stdin=subprocess.DEVNULL).returncode:
            break
    return working_chromium()


def working_chromium() -> "str | None":
    """The first Chromium on the PATH that answers; on some systems the name is a stub without a browser."""
    paths = (shutil.which(name) for name in CHROMIUM_NAMES)
    return next((path for path in paths if path and answer([path, "--version"])), None)


def package_rights() -> "list[str] | None":
    """What to put before a command that installs packages; None where this user may not."""
    if not hasattr(os, "geteuid"):
        return None
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if answer(["sudo", "-n", "id", "-u"]) == "0" else None


def answer(command: "list[str]") -> str:
    """What a command prints; empty if it cannot be run or fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def call(command: "list[str]") -> None:
    """Runs a step that everything after it needs; ends this script if it fails."""
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    if code:
        sys.exit(f"Stopped: {' '.join(command)} ended with exit code {code}.")


def say(text: str) -> None:
    """One line about what happens now."""
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
