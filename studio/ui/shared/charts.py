"""Figures for Gradio's plotly front end, as pure functions of domain values.

The figures are plain JSON in plotly's schema, so the server does not import plotly to draw them;
colours of text and grid come from the page's style sheet, so that they follow light and dark.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gradio.components.plot import PlotData

from studio.reports.pieces import AMBER, BLUE, GREY, ROSE, TEAL, VIOLET
from studio.runs.status import RunStatus
from studio.translation import tr

PART_COLOURS = {
    "weights_trainable": "#1f5f99",
    "weights_frozen": "#3b82c4",
    "weights_quantized": "#7fb3dd",
    "weight_casts": "#b5d3ec",
    "gradients": "#d9912b",
    "optimizer_states": "#b3541e",
    "activations": "#1d9f8e",
    "logits_and_loss": "#cf4f74",
    "temporaries": "#7f6bc9",
    "overhead": "#8c9aa5",
}


def figure(data: Sequence[Mapping[str, Any]], **layout: Any) -> PlotData:
    """Traces and layout in plotly's schema, with what all our figures share."""
    base = {
        "template": {"layout": {}},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 13, "color": GREY, "family": "system-ui, sans-serif"},
        "margin": {"l": 8, "r": 16, "t": 36 if "title" in layout else 12, "b": 8},
        "hovermode": "closest",
        "dragmode": False,
    }
    figure = {"data": list(data), "layout": {**base, **layout}, "config": {"displayModeBar": False}}
    return PlotData(type="plotly", plot=json.dumps(figure, ensure_ascii=False))


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis that cannot be dragged, with a quiet grid."""
    grid = "rgba(128,140,150,0.25)"
    below = {"title": {"text": title, "standoff": 6, "font": {"size": 13}}, "ticklabelstandoff": 4}
    shown = below if title else {}
    return {**shown, "automargin": True, "gridcolor": grid, "zerolinecolor": grid, "fixedrange": True, **more}


def _title(text: str) -> dict[str, Any]:
    place = {"x": 0.01, "xanchor": "left", "y": 0.97, "yanchor": "top"}
    return {"text": f"<b>{text}</b>", "font": {"size": 14}, **place}


_BELOW = {"orientation": "h", "yanchor": "top", "traceorder": "normal"}
_LEGEND = {**_BELOW, "x": 0, "xanchor": "left", "y": -0.28}


def loss_chart(
    points: Sequence[tuple[int, float]],
    eval_points: Sequence[tuple[int, float]],
    locale: str,
    rates: Sequence[tuple[int, float]] = (),
) -> PlotData:
    """Loss over steps: of training, and of evaluation where there is one; the learning rate beside it."""
    traces = [_line(points, tr("Training loss", locale), BLUE, markers=len(points) < 3)]
    if eval_points:
        traces.append(_line(eval_points, tr("Evaluation loss", locale), AMBER, markers=True))
    if rates:
        line = _line(rates, tr("Learning rate", locale), GREY, markers=False)
        look = {"color": GREY, "width": 1.5, "dash": "dot"}
        hover = f"{line['name']}: %{{y:.2e}} · %{{x}}<extra></extra>"
        traces.append({**line, "yaxis": "y2", "line": look, "hovertemplate": hover})
    return figure(
        traces,
        title=_title(tr("Loss", locale)),
        height=300,
        showlegend=True,
        legend=_LEGEND,
        xaxis=axis(tr("Step", locale), rangemode="tozero"),
        yaxis=axis(rangemode="tozero"),
        yaxis2=axis(
            overlaying="y", side="right", rangemode="tozero", showgrid=False, exponentformat="power", nticks=4
        ),
    )


def runs_chart(runs: Sequence[RunStatus], locale: str) -> PlotData:
    """Loss and WER of several runs over their steps, a colour a run."""
    traces = []
    for place, run in enumerate(runs):
        colour = (BLUE, AMBER, TEAL, ROSE, VIOLET, GREY)[place % 6]
        name = str(run.config.run_name or run.run_id)
        loss = _line(run.loss_points, name, colour, markers=len(run.loss_points) < 3)
        points = [(point.step, point.wer) for point in run.eval_points]
        wer = _line(points, name, colour, markers=True, percent=True)
        traces.append({**loss, "legendgroup": run.run_id})
        traces.append({**wer, "legendgroup": run.run_id, "showlegend": False, "xaxis": "x2", "yaxis": "y2"})
    step = tr("Step", locale)
    return figure(
        traces,
        height=360,
        showlegend=True,
        legend=_LEGEND,
        xaxis=axis(f"{tr('Loss', locale)} · {step}", rangemode="tozero", domain=[0, 0.46]),
        yaxis=axis(rangemode="tozero"),
        xaxis2=axis(
            f"{tr('WER (words)', locale)} · {step}", rangemode="tozero", domain=[0.54, 1], anchor="y2"
        ),
        yaxis2=axis(rangemode="tozero", tickformat=".0%", anchor="x2"),
    )


def error_chart(wer: Sequence[tuple[int, float]], cer: Sequence[tuple[int, float]], locale: str) -> PlotData:
    """WER and CER (shares, 0.1 is 10 %) over steps; step 0 is the base model."""
    traces = [
        _line(wer, tr("WER (words)", locale), TEAL, markers=True, percent=True),
        _line(cer, tr("CER (characters)", locale), VIOLET, markers=True, percent=True),
    ]
    empty = {} if wer or cer else {"range": [0, 1]}  # plotly alone would choose up to 400 %
    return figure(
        traces,
        title=_title(tr("Error rates", locale)),
        height=300,
        showlegend=True,
        legend=_LEGEND,
        xaxis=axis(tr("Step (0 is the base model)", locale), rangemode="tozero"),
        yaxis={**axis(rangemode="tozero", tickformat=".0%"), **empty},
    )


def _line(
    points: Sequence[tuple[int, float]], name: str, colour: str, *, markers: bool, percent: bool = False
) -> dict[str, Any]:
    value = "%{y:.1%}" if percent else "%{y:.4f}"
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "x": [step for step, _value in points],
        "y": [value for _step, value in points],
        "name": name,
        "line": {"color": colour, "width": 2.5},
        "marker": {"size": 8},
        "cliponaxis": False,  # that of step 0 is whole, too
        "hovertemplate": f"{name}: {value} · %{{x}}<extra></extra>",
    }
