"""Figures of memory over the batch size."""

from collections.abc import Sequence
from typing import Any

from gradio.components.plot import PlotData

from studio.ui.charts import BLUE, GREY, ROSE, TEAL, axis, figure
from studio.ui.i18n import tr
from studio.units import GIB


def batch_chart(
    points: Sequence[tuple[int, int, int, int]],
    usable_bytes: int,
    gpu: str,
    chosen: int,
    largest: int,
    locale: str,
) -> PlotData:
    """Peak against batch size: the middle as a line, the range as a band, the card as a line across.

    `points` are batch size and low, middle and high bytes; `largest` is the largest batch whose whole range
    is below the card's line, 0 if none is.
    """
    sizes = [size for size, _low, _middle, _high in points]
    low, middle, high = ([round(row[k] / GIB, 3) for row in points] for k in (1, 2, 3))
    edge = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    traces: list[dict[str, Any]] = [
        {**edge, "x": sizes, "y": high},
        {**edge, "x": sizes, "y": low, "fill": "tonexty", "fillcolor": "rgba(59,130,196,0.18)"},
        {
            "type": "scatter",
            "mode": "lines",
            "x": sizes,
            "y": middle,
            "line": {"color": BLUE, "width": 2.5},
            "hovertemplate": f"{tr('Batch size', locale)} %{{x}}: %{{y:.2f}} GiB<extra></extra>",
        },
    ]
    for size, colour in ((chosen, GREY), (largest, TEAL)):
        if size in sizes:
            traces.append(_dot(size, middle[sizes.index(size)], colour))
    usable = usable_bytes / GIB
    says = (
        tr("Largest batch that fits: {size}", locale, size=largest)
        if largest
        else tr("No batch fits", locale)
    )
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": usable, "y1": usable}
    return figure(
        traces,
        height=260,
        showlegend=False,
        margin={"l": 8, "r": 16, "t": 34, "b": 8},
        xaxis=axis(tr("Batch size", locale), type="log", tickvals=_ticks(sizes), ticktext=_ticks(sizes)),
        yaxis=axis(tr("GiB of GPU memory", locale), range=[0, max(usable * 1.15, middle[0] * 1.5)]),
        shapes=[{**line, "line": {"color": ROSE, "width": 2.5}}],
        annotations=[
            {
                "x": 0.01,
                "xref": "paper",
                "xanchor": "left",
                "y": usable,
                "yanchor": "bottom",
                "text": gpu,
                "showarrow": False,
            },
            {
                "x": 0.01,
                "xref": "paper",
                "xanchor": "left",
                "y": 1.02,
                "yref": "paper",
                "yanchor": "bottom",
                "text": f"<b>{says}</b>",
                "showarrow": False,
            },
        ],
    )


def _dot(x: int, y: float, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [y],
        "marker": {"size": 11, "color": colour},
        "hovertemplate": "%{x}: %{y:.2f} GiB<extra></extra>",
    }


def _ticks(sizes: Sequence[int]) -> list[int]:
    """Powers of two among the batch sizes."""
    return [size for size in sizes if size & (size - 1) == 0]
