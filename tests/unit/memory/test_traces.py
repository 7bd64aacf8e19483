"""The closed form against committed traces of plans drawn at random, and the tracer against itself."""

import statistics
from typing import Any

import pytest

from studio.memory.trace.result import Trace
from tests.benchmarks.memory_traces import Case, draw, error_of, read, trace_row

ROWS = read()
CASES = [case for case in draw() if case.number in ROWS]
RETRACED = sorted(CASES, key=lambda case: case.dimensions.d_model * case.dimensions.encoder_layers)[:40:4]
"""Ten of the smaller ones: every fourth of the forty smallest."""


def test_every_trace_is_of_a_drawn_plan_and_a_third_of_them_was_held_out() -> None:
    assert len(CASES) == len(ROWS) >= 120
    assert 0.25 < sum(case.is_held_out for case in CASES) / len(CASES) < 0.42


@pytest.mark.parametrize("held_out", [False, True], ids=["fitted", "held out"])
def test_the_closed_form_meets_the_traces(held_out: bool) -> None:
    errors = [error_of(case, ROWS[case.number]) for case in CASES if case.is_held_out is held_out]
    sizes = sorted(abs(error) for error in errors)
    assert statistics.median(sizes) <= 0.007
    assert sizes[round(0.95 * (len(sizes) - 1))] <= 0.03
    assert sizes[-1] <= 0.06
    assert min(errors) >= -0.03


@pytest.mark.parametrize("case", RETRACED, ids=lambda case: f"{case.number}-{case.model}-{case.plan.method}")
def test_a_trace_made_again_is_the_same(case: Case) -> None:
    assert trace_row(case) == ROWS[case.number]


def test_a_trace_travels_as_json() -> None:
    from studio.memory.trace.step import trace_step

    case = RETRACED[0]
    trace = trace_step(case.plan, case.dimensions)
    row: dict[str, Any] = trace.to_json()
    assert Trace.from_json(row) == trace
    with pytest.raises(KeyError):
        Trace.from_json({name: value for name, value in row.items() if name != "timeline"})
