"""Figures are plain JSON in plotly's schema."""

import json
from typing import Any

import pytest
from gradio.components.plot import PlotData

from studio.ui.memory.charts import batch_chart
from studio.ui.shared.charts import error_chart, loss_chart, memory_chart
from studio.ui.shared.views import part_names
from studio.units import GIB

POINTS = [(1, GIB, 2 * GIB, 3 * GIB), (4, 4 * GIB, 5 * GIB, 6 * GIB), (8, 9 * GIB, 10 * GIB, 12 * GIB)]
PARTS = {"weights_frozen": 2 * GIB, "gradients": 0, "activations": 6 * GIB, "overhead": GIB}


def figure(plot: PlotData) -> dict[str, Any]:
    return dict(json.loads(plot.plot))


def memory(locale: str = "en", chosen: int = 24) -> dict[str, Any]:
    sizes = [gib * GIB for gib in (8, 12, 16, 24, 80)]
    return figure(memory_chart(PARTS, part_names(locale), sizes, chosen * GIB, locale))


@pytest.mark.parametrize(
    "plot",
    [
        memory_chart(PARTS, {}, [GIB], 24 * GIB, "en"),
        loss_chart([(0, 3.0), (5, 2.0)], [(5, 2.5)], "zh-TW"),
        error_chart([(0, 0.8)], [(0, 0.4)], "zh-CN"),
        batch_chart(POINTS, 8 * GIB, "T4", 8, 4, "zh-TW"),
    ],
)
def test_plotly_accepts_every_figure(plot: PlotData) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    shown = figure(plot)
    graph_objects.Figure(data=shown["data"], layout=shown["layout"])


def test_parts_are_stacked_to_the_whole_and_empty_ones_are_left_out() -> None:
    bars = memory()["data"]
    names = ["Frozen weights", "Activations", "CUDA context and allocator slack"]
    assert [bar["name"] for bar in bars] == names
    assert sum(bar["x"][0] for bar in bars) == pytest.approx(9.0)


def test_gpu_sizes_within_reach_are_lines_and_the_chosen_one_is_bold() -> None:
    layout = memory()["layout"]
    texts = [note["text"] for note in layout["annotations"]]
    assert "<b>24 GiB</b>" in texts and "8" in texts and "80" not in texts
    assert [shape["x0"] for shape in layout["shapes"] if shape["line"]["width"] == 3] == [24]


def test_an_estimate_above_the_gpu_shows_both() -> None:
    layout = memory(chosen=8)["layout"]
    assert layout["xaxis"]["range"][1] > 9 and any("8 GiB" in note["text"] for note in layout["annotations"])


def test_curves_have_a_point_a_step_and_names_in_the_visitors_language() -> None:
    traces = figure(error_chart([(0, 0.8), (30, 0.1)], [(0, 0.4), (30, 0.05)], "zh-TW"))["data"]
    assert traces[0]["x"] == [0, 30] and traces[0]["y"] == [0.8, 0.1]
    assert traces[0]["name"] == "WER（字詞錯誤率）"


def test_the_curve_over_batches_marks_the_chosen_and_the_largest_that_fits() -> None:
    shown = figure(batch_chart(POINTS, 8 * GIB, "T4", 8, 4, "en"))
    dots = [trace["x"][0] for trace in shown["data"] if trace["mode"] == "markers"]
    assert dots == [8, 4]
    assert shown["layout"]["shapes"][0]["y0"] == 8
    notes = [note["text"] for note in shown["layout"]["annotations"]]
    assert notes == ["T4", "<b>Largest batch that fits: 4</b>"]
    nothing = figure(batch_chart(POINTS, GIB, "T4", 8, 0, "en"))
    assert "<b>No batch fits</b>" in [note["text"] for note in nothing["layout"]["annotations"]]
