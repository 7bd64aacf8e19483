"""A studio that is used by many, and for long: each benchmark measures, writes its report, and fails where a
promise is broken."""

import subprocess
import sys

import pytest

from tests.studio_process import ROOT

pytestmark = pytest.mark.timeout(7200)


def test_a_lab_calculates_transcribes_and_trains_for_a_quarter_of_an_hour() -> None:
    measure("tests.benchmarks.load", "--alone", "3", "--minutes", "15")


def test_a_home_of_ten_thousand_runs_opens_as_an_empty_one() -> None:
    measure("tests.benchmarks.startup")


def measure(*benchmark: str) -> None:
    subprocess.run([sys.executable, "-m", *benchmark], cwd=ROOT, check=True)
