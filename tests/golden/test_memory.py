"""Every part of the closed form, to the byte, for all plans of which traces are committed.

The traces themselves are held in `tests/unit/memory/test_traces.py`.
"""

from typing import Any

from studio.memory.training import estimate_training
from tests.benchmarks.memory_traces import draw
from tests.golden.conftest import Golden


def test_the_closed_form_of_180_plans_is_that_of_before(golden: Golden) -> None:
    cases = draw()
    assert len(cases) == 180
    rows = [numbers(estimate_training(case.plan, case.dimensions).to_json()) for case in cases]
    golden(
        "memory",
        {
            "columns": list(rows[0]),
            "plans": {
                f"{case.number} {case.model} {case.plan.method}": ",".join(map(str, row.values()))
                for case, row in zip(cases, rows, strict=True)
            },
        },
    )


def numbers(answer: dict[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in answer.items() if name not in ("formulas", "phases")}
    return {**left, **answer["phases"]}
