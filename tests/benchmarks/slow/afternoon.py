"""A studio that is used by many, and for long: each benchmark measures, writes its report, and fails where a
promise is broken."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.studio_process import ROOT

Note = Callable[[str, object], None]

pytestmark = pytest.mark.timeout(7200)


def test_a_lab_calculates_transcribes_and_trains_for_a_quarter_of_an_hour(record_property: Note) -> None:
    measure(record_property, "load", "--alone", "3", "--minutes", "15")


def test_a_home_of_ten_thousand_runs_opens_as_an_empty_one(record_property: Note) -> None:
    measure(record_property, "startup")


def measure(note: Note, name: str, *options: str) -> None:
    note("report", f"[{name}.md]({name}.md)")
    subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}", *options], cwd=ROOT, check=True)
