"""Figures are plain JSON in plotly's schema."""

import json
from typing import Any

import pytest
from gradio.components.plot import PlotData

from studio.memory.trace.ledger import PARTS
from studio.ui.memory.step import step_chart
from studio.ui.shared.charts import error_chart, loss_chart
from studio.ui.shared.views import part_names
from studio.units import GIB

STEP = [
    ("forward", [GIB] * len(PARTS)),
    ("forward", [2 * GIB] * len(PARTS)),
    ("backward", [0] + [GIB] * (len(PARTS) - 1)),
]


def figure(plot: PlotData) -> dict[str, Any]:
    return dict(json.loads(plot.plot))


@pytest.mark.parametrize(
    "plot",
    [
        loss_chart([(0, 3.0), (5, 2.0)], [(5, 2.5)], "zh-TW"),
        error_chart([(0, 0.8)], [(0, 0.4)], "zh-CN"),
        step_chart(STEP, {}, {"forward": "Forward pass"}, "zh-TW"),
    ],
)
def test_plotly_accepts_every_figure(plot: PlotData) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    shown = figure(plot)
    graph_objects.Figure(data=shown["data"], layout=shown["layout"])


def test_curves_have_a_point_a_step_and_names_in_the_visitors_language() -> None:
    traces = figure(error_chart([(0, 0.8), (30, 0.1)], [(0, 0.4), (30, 0.05)], "zh-TW"))["data"]
    assert traces[0]["x"] == [0, 30] and traces[0]["y"] == [0.8, 0.1]
    assert traces[0]["name"] == "WER（字詞錯誤率）"


def test_a_step_is_stacked_by_part_and_its_phases_are_marked_where_they_begin() -> None:
    shown = figure(step_chart(STEP, part_names("en"), {"forward": "Forward pass"}, "en"))
    assert [trace["y"][:2] for trace in shown["data"]] == [[1, 2]] * len(PARTS)
    assert [(note["x"], note["text"]) for note in shown["layout"]["annotations"]] == [
        (0, "Forward pass"),
        (2, "backward"),
    ]
