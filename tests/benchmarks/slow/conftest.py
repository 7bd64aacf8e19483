"""What these tests found goes to `tests/benchmarks/reports/slow.md`: each has a section."""

import os
import platform
import re
import shlex
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

REPORT = Path(__file__).parent.parent / "reports" / "slow.md"
LIBRARIES = ("torch", "transformers", "peft", "soundfile", "av", "gradio")
HEAD = "# What needs tens of minutes\n\nMade by `python3 tests/run.py --slow`.\n"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes the section of a test that has run."""
    if report.when != "call" or "PYTEST_XDIST_WORKER" in os.environ:  # side by side, one process writes
        return
    text = REPORT.read_text(encoding="utf-8") if REPORT.is_file() else HEAD
    head, *sections = re.split(r"(?m)^(?=## )", text)
    title = report.nodeid.split("::")[-1].removeprefix("test_").replace("_", " ").capitalize()
    sections = [section for section in sections if not section.startswith(f"## {title}\n")]
    found = "".join(f"| {name} | {value} |\n" for name, value in report.user_properties)
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    sections.append(
        f"## {title}\n\n**{report.outcome}** in {report.duration:.0f} s, {time.strftime('%Y-%m-%d')}, by "
        f"`pytest {shlex.join(sys.argv[1:])}`, with a load of {os.getloadavg()[0]:.1f} at the end "
        f"(other work included).\n\n"
        f"| what | found |\n|---|---|\n{found}\n{platform.machine()}, {os.cpu_count()} cores, "
        f"{platform.system()}; Python {platform.python_version()}, {versions}.\n\n"
    )
    REPORT.write_text(
        "\n\n".join(part.strip() for part in [head, *sorted(sections)]) + "\n", encoding="utf-8"
    )
