"""What was done to the studio, how often, and what was lost by it.

`python -m tests.benchmarks.faults [-n 2]` runs the tests of faults, those of homes with cut files, and those
of a hub that fails, and writes `reports/faults.md`: a row a test, with the number of its faults, as it has
told it, or else of its cases. Killing runs and studios at any moment takes longer: see `slow.md`.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT = Path(__file__).parent / "reports" / "faults.md"
PLACES = {
    "Killed, full and foreign": ("tests/faults",),
    "Files that were cut, homes of others": ("tests/golden/test_home.py", "tests/unit/runs/test_kinds.py"),
    "A hub that fails": (
        "tests/unit/registry/test_hub.py",
        "tests/unit/dataset/test_hub.py",
        "tests/unit/publishing/test_publish.py",
    ),
}


@dataclass
class Row:
    """What one test did."""

    cases: int = 0
    faults: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


def rows_of(results: ET.Element) -> dict[tuple[str, str], Row]:
    """Module and name of a test → its row, in the order of the names."""
    rows: dict[tuple[str, str], Row] = defaultdict(Row)
    for case in results.iter("testcase"):
        name = case.attrib["name"].partition("[")[0].removeprefix("test_").replace("_", " ")
        row = rows[case.attrib["classname"], name]
        told = [found.attrib["value"] for found in case.iter("property")]
        row.cases += 1
        row.faults += sum(int(value) for value in told if value.isdecimal())
        row.failed += case.find("failure") is not None or case.find("error") is not None
        row.skipped += case.find("skipped") is not None
        row.seconds += float(case.attrib["time"])
    return dict(sorted(rows.items()))


def section(title: str, rows: dict[tuple[str, str], Row]) -> str:
    """The table of one place."""
    lines = [f"## {title}", "", "| what holds | faults | seconds | outcome |", "|---|---|---|---|"]
    for (_module, name), row in rows.items():
        outcome = f"**{row.failed} of {row.cases} failed**" if row.failed else "nothing lost"
        outcome = f"not tried here ({row.skipped})" if row.skipped else outcome
        count = row.faults or row.cases
        lines.append(f"| {name[:1].upper()}{name[1:]} | {count} | {row.seconds:.0f} | {outcome} |")
    return "\n".join(lines)


def main() -> int:
    """Runs the tests, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", dest="processes", default="1", help="tests at a time")
    given = parser.parse_args()
    sections, code = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (title, places) in enumerate(PLACES.items()):
            results = Path(folder) / f"{number}.xml"
            words = [sys.executable, "-m", "pytest", "-q", *places, f"--junitxml={results}"]
            words += ["-n", given.processes, "--dist", "loadscope"] if given.processes != "1" else []
            code = subprocess.run(words, cwd=ROOT).returncode or code
            sections.append(section(title, rows_of(ET.parse(results).getroot())))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
    head = (
        "# Faults\n\nMade by `python -m tests.benchmarks.faults` on "
        f"{time.strftime('%Y-%m-%d')} ({machine}; Python {platform.python_version()}). Each row is a test, "
        "which names what holds whatever fails; faults are the moments, files or cases in which it was "
        "tried. What takes longer, among it fifty kills of a run and twenty of a studio, is in "
        "[slow.md](slow.md)."
    )
    REPORT.write_text("\n\n".join([head, *sections]) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
