"""Many visitors at once, as `tests/benchmarks/visitors.py` measures them: each gets their own text."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.benchmarks.visitors import REPORTS
from tests.studio_process import ROOT


@pytest.mark.timeout(7200)
def test_each_of_many_visitors_gets_their_own_text(record_property: Callable[[str, object], None]) -> None:
    subprocess.run([sys.executable, "-m", "tests.benchmarks.visitors"], cwd=ROOT, check=True)
    found = json.loads((REPORTS / "visitors.json").read_text(encoding="utf-8"))["visitors"]
    for name in ("visitors", "requests", "places_out_of_order", "memory_growth_mib"):
        record_property(name.replace("_", " "), found[name])
    assert found["wrong_texts"] == [] and found["requests"] >= 500
