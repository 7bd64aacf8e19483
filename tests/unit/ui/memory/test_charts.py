"""The first view's drawings say the same as the tables beneath them."""

import re

import pytest

from studio.reports.markup import Html
from studio.ui.memory.charts import batch_chart, parts_chart
from studio.ui.shared.views import part_names
from studio.units import GIB

POINTS = [(1, GIB, 2 * GIB, 3 * GIB), (4, 4 * GIB, 5 * GIB, 6 * GIB), (8, 9 * GIB, 10 * GIB, 12 * GIB)]
PARTS = {"weights_frozen": 2 * GIB, "gradients": 0, "activations": 6 * GIB, "overhead": GIB}


def parts(chosen: int = 24) -> Html:
    sizes = [gib * GIB for gib in (8, 12, 16, 24, 80)]
    return parts_chart(PARTS, part_names("en"), sizes, chosen * GIB, "en")


def lines(chart: Html) -> dict[str, float]:
    """Names of the lines of cards, and where they stand, in percent of the width."""
    found = re.findall(r"plot-mark[^>]*left:([\d.]+)%[^>]*><i>([^<]+)", chart)
    return {name: float(place) for place, name in found}


def test_parts_are_stacked_to_the_whole_and_empty_ones_are_left_out() -> None:
    chart = parts()
    assert re.findall(r"<li><i[^>]*></i>([^<]+)", chart) == [
        *("Frozen weights", "Activations"),
        "CUDA context and allocator slack",
    ]
    widths = [float(width) for width in re.findall(r'"width:([\d.]+)%', chart)]
    assert sum(widths) == pytest.approx(100 * 9 / (24 * 1.05), abs=0.01)
    assert 'data-said="Activations: 6.00 GiB"' in chart and "Gradients" not in chart
    assert 'role="img" aria-label="Frozen weights: 2.00 GiB; Activations: 6.00 GiB; CUDA context' in chart


def test_gpu_sizes_within_reach_are_lines_and_the_chosen_one_is_bold() -> None:
    chart = parts()
    assert list(lines(chart)) == ["24 GiB", "16", "12", "8"]
    assert lines(chart)["24 GiB"] == pytest.approx(100 / 1.05, abs=0.01)
    assert len(re.findall("plot-chosen[^>]*><i>24 GiB", chart)) == chart.count("plot-chosen") == 1


def test_an_estimate_above_the_gpu_shows_both() -> None:
    chart = parts(chosen=8)
    assert lines(chart)["8 GiB"] == pytest.approx(100 * 8 / (9 * 1.15), abs=0.01)


def test_the_curve_over_batches_marks_the_chosen_and_the_largest_that_fits() -> None:
    chart = batch_chart(POINTS, 10 * GIB, "T4", 8, 4, "en")
    assert re.findall("<b>(.+?)</b>", chart) == ["Largest batch that fits: 4"]
    (card,) = re.findall(r'<span class="plot-y plot-chosen" style="left:0.00%;bottom:([\d.]+)%">', chart)
    assert float(card) == pytest.approx(100 / 1.15, abs=0.01)
    dots = re.findall(r'plot-dot" style="left:([\d.]+)%;bottom:([\d.]+)%', chart)
    assert [float(x) for x, _y in dots] == pytest.approx([100.0, 200 / 3], abs=0.01)
    assert [float(y) for _x, y in dots] == pytest.approx([100 * 10 / 11.5, 100 * 5 / 11.5], abs=0.01)
    assert 'data-said="Batch size 4: 5.00 GiB"' in chart
    assert "No batch fits" in batch_chart(POINTS, GIB, "T4", 8, 0, "en")


def test_a_point_above_the_drawing_is_not_drawn_over_what_stands_there() -> None:
    chart = batch_chart(POINTS, 4 * GIB, "T4", 8, 1, "en")
    assert chart.count("plot-dot") == 1


def test_names_are_escaped() -> None:
    assert "<i>&lt;b&gt;</i>" in batch_chart(POINTS, 8 * GIB, "<b>", 8, 4, "zh-TW")
