"""Figures of memory over the batch size, and over one training step."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradio.components.plot import PlotData

from studio.memory.trace.ledger import PARTS
from studio.reports.pieces import BLUE, GREY, ROSE, TEAL
from studio.translation import tr
from studio.ui.shared.charts import PART_COLOURS, axis, figure
from studio.units import GIB

Point = tuple[int, int, int, int]
"""Batch size, and low, middle and high end of the range in bytes."""


def batch_chart(
    points: Sequence[Point], usable_bytes: int, gpu: str, chosen: int, largest: int, locale: str
) -> PlotData:
    """Peak against batch size: the middle as a line, the range as a band, the card as a line across.

    `largest` is the largest batch whose whole range is below the card's line, 0 if none is; it and the
    `chosen` one are dots.
    """
    usable = usable_bytes / GIB
    said = tr("Largest batch that fits: {size}", locale, size=largest)
    title = said if largest else tr("No batch fits", locale)
    ticks = [size for size, *_range in points if size & (size - 1) == 0]
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": usable, "y1": usable}
    top = max(usable * 1.15, points[0][2] / GIB * 1.5)
    return figure(
        [*_curve(points, tr("Batch size", locale)), *_dots(points, ((chosen, GREY), (largest, TEAL)))],
        height=260,
        showlegend=False,
        margin={"l": 8, "r": 16, "t": 34, "b": 8},
        xaxis=axis(tr("Batch size", locale), type="log", tickvals=ticks, ticktext=ticks),
        yaxis=axis(tr("GiB of GPU memory", locale), range=[0, top]),
        shapes=[{**line, "line": {"color": ROSE, "width": 2.5}}],
        annotations=[_text(gpu, usable), _text(f"<b>{title}</b>", 1.02, yref="paper")],
    )


def _curve(points: Sequence[Point], name: str) -> list[dict[str, Any]]:
    sizes = [size for size, *_range in points]
    low, middle, high = ([round(row[k] / GIB, 3) for row in points] for k in (1, 2, 3))
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": sizes}
    return [
        {**edge, "y": high},
        {**edge, "y": low, "fill": "tonexty", "fillcolor": "rgba(59,130,196,0.18)"},
        {
            "type": "scatter",
            "mode": "lines",
            "x": sizes,
            "y": middle,
            "line": {"color": BLUE, "width": 2.5},
            "hovertemplate": f"{name} %{{x}}: %{{y:.2f}} GiB<extra></extra>",
        },
    ]


def _dots(points: Sequence[Point], marked: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    middles = {size: middle / GIB for size, _low, middle, _high in points}
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [size],
            "y": [round(middles[size], 3)],
            "marker": {"size": 11, "color": colour},
            "hovertemplate": "%{x}: %{y:.2f} GiB<extra></extra>",
        }
        for size, colour in marked
        if size in middles
    ]


def _text(text: str, y: float, **more: Any) -> dict[str, Any]:
    left = {"x": 0.01, "xref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    return {**left, "y": y, "text": text, **more}


def step_chart(
    samples: Sequence[tuple[str, Sequence[int]]],
    part_names: Mapping[str, str],
    phase_names: Mapping[str, str],
    locale: str,
) -> PlotData:
    """Live bytes over a training step, stacked by part; samples: phase and sizes, in the order of `PARTS`."""
    places = list(range(len(samples)))
    data = []
    for index, part in enumerate(PARTS):
        sizes = [round(sample[index] / GIB, 4) for _phase, sample in samples]
        if not any(sizes):
            continue
        name = part_names.get(part, part)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "stackgroup": "parts",
                "x": places,
                "y": sizes,
                "name": name,
                "line": {"width": 0.5, "color": PART_COLOURS[part]},
                "fillcolor": PART_COLOURS[part],
                "hovertemplate": f"{name}: %{{y:.2f}} GiB<extra></extra>",
            }
        )
    shapes, notes = _phase_marks([phase for phase, _sizes in samples], phase_names)
    return figure(
        data,
        height=300,
        showlegend=False,
        hovermode="x unified",
        margin={"l": 8, "r": 16, "t": 30, "b": 8},
        xaxis=axis(tr("One training step", locale), showticklabels=False),
        yaxis=axis(tr("GiB of tensors", locale), rangemode="tozero"),
        shapes=shapes,
        annotations=notes,
    )


def _phase_marks(
    phases: Sequence[str], names: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A line across where a phase begins, and its name above it."""
    shapes, notes = [], []
    for place, phase in enumerate(phases):
        if place and phases[place - 1] == phase:
            continue
        line = {"color": GREY, "width": 1, "dash": "dot"}
        shapes.append(
            {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "yref": "paper", "line": line}
        )
        notes.append(_text(names.get(phase, phase), 1.02, x=place, xref="x", yref="paper"))
    return shapes, notes
