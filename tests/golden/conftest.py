"""Golden records: what the studio answered before something was moved, and answers still.

`python -m pytest tests/golden --renew` writes them anew. Each difference then stands in git, and belongs into
the CHANGELOG with its reason.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.studio_process import ROOT

RECORDS = Path(__file__).parent / "records"
HOMES = Path(__file__).parent / "homes"
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)"), "<time>"),
    (re.compile(r"-\d{8}-\d{6}"), "-<time>"),
)
"""Moments, as they stand in files and in the ids of runs."""
UNSTEADY = (
    *("real_time_factor", "disk_free_bytes", "versions", "probability", "language_probabilities"),
    *("seconds", "measured"),
)
"""What another run or another machine answers otherwise, be it in the last digit."""

Golden = Callable[[str, object], None]


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    """`golden("estimate", value)`: the value is, line by line, what was recorded under that name."""

    def compare(name: str, value: object) -> None:
        path = RECORDS / f"{name}.json"
        text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
        if pytestconfig.getoption("renew"):
            path.write_text(text, encoding="utf-8")
        assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()

    return compare


@pytest.fixture
def old_home(studio_home: Path) -> Path:
    """A copy of a home that an earlier version made, at another place than it was made."""
    (home,) = HOMES.iterdir()
    shutil.copytree(home, studio_home)
    return studio_home


def masked(value: Any, *places: Path) -> Any:
    """The same without places, moments, and what is never twice the same."""
    if isinstance(value, Mapping):
        return {
            name: "<masked>" if name in UNSTEADY else masked(each, *places) for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(each, *places) for each in value]
    if isinstance(value, str):
        for place in places:
            value = value.replace(str(place), "<place>")
        for pattern, word in MASKS:
            value = pattern.sub(word, value)
        return value.replace(str(ROOT), "<checkout>")
    return value


def shape(value: Any) -> Any:
    """Names and kinds: of what was measured or learned, the numbers are another matter."""
    if isinstance(value, Mapping):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shape(value[0])] if value else []
    return type(value).__name__
