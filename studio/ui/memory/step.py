"""One training step as a picture: the memory of each moment by part, from a trace of the real code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.components.plot import PlotData
from gradio.events import Dependency

from studio.actions.estimate import TRAIN, Question, shape_of, training_plan_of
from studio.errors import ConfigError
from studio.memory.plan import TrainingPlan
from studio.memory.trace.ledger import PARTS
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.memory.training import estimate_training
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html
from studio.reports.pieces import GREY, note
from studio.settings import Settings
from studio.translation import tr
from studio.ui.memory.views import STEP_PHASES
from studio.ui.shared.charts import PART_COLOURS, axis, figure
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import UNCHECKED
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.views import part_names
from studio.units import GIB, format_bytes


@dataclass(frozen=True)
class StepSection:
    """Components of the picture."""

    draw: gr.Button
    chart: gr.Plot
    said: gr.HTML


def build_step() -> StepSection:
    """The button, and where the picture will be."""
    draw = gr.Button(_("Plot the memory of one training step"), size="sm", elem_id="memory-trace")
    return StepSection(
        draw,
        gr.Plot(show_label=False, visible=False, elem_id="memory-step"),
        gr.HTML(visible=False, elem_id="memory-step-said"),
    )


def wire_step(
    registry: ModelRegistry, settings: Settings, form: dict[str, Block], step: StepSection
) -> Dependency:
    """The picture is drawn when asked for; of a form that has changed since, it is no longer true."""

    def show(request: gr.Request, **values: Any) -> list[Any]:
        """The traced step, and its peak beside the estimate's."""
        plan, dimensions = traceable(Question(**values), registry)
        trace = traced(plan, dimensions, settings)
        return _shown(plan, dimensions, trace, request_locale(request))

    drawn = told_in(step.said, show, [step.chart, step.said], form)
    drawing: Dependency = step.draw.click(
        **drawn, inputs_kwargs=form, api_visibility="private", concurrency_limit=2, **UNCHECKED
    )
    return drawing


def traceable(question: Question, registry: ModelRegistry) -> tuple[TrainingPlan, ModelDimensions]:
    """The plan behind a question and the model's dimensions.

    Raises:
        ConfigError: if the question is about transcribing, or has a value that cannot be.
        ModelNotFoundError: if there is no such model.
    """
    if question.use != TRAIN:
        raise ConfigError(
            "Only a training step can be traced: choose train instead of {use}.", use=question.use
        )
    return training_plan_of(question), shape_of(question.base_model, registry)


def _shown(plan: TrainingPlan, dimensions: ModelDimensions, trace: Trace, locale: str) -> list[Any]:
    samples = [(str(sample.phase), sample.sizes) for sample in trace.timeline]
    phases = {phase: tr(name, locale) for phase, name in STEP_PHASES.items()}
    chart = step_chart(samples, part_names(locale), phases, locale)
    return [
        gr.update(value=chart, visible=True),
        gr.update(value=_said(plan, dimensions, trace, locale), visible=True),
    ]


def _said(plan: TrainingPlan, dimensions: ModelDimensions, trace: Trace, locale: str) -> Html:
    """The traced peak beside the estimate's."""
    estimated = max(estimate_training(plan, dimensions).phases.values())
    off = estimated / trace.peak_bytes - 1
    return note(
        tr(
            "Traced, operation by operation: {peak} of tensors at the peak ({phase}). Estimated: "
            "{estimate}, {off} off.",
            locale,
            peak=format_bytes(trace.peak_bytes),
            phase=tr(STEP_PHASES[str(trace.peak_phase)], locale),
            estimate=format_bytes(estimated),
            off=f"{off:+.2%}",
        )
    )


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
        height=400,
        legend={"orientation": "h", "y": -0.12, "yanchor": "top", "traceorder": "normal"},
        hovermode="x unified",
        margin={"l": 8, "r": 16, "t": 44, "b": 8},
        xaxis=axis(tr("One training step", locale), showticklabels=False),
        yaxis=axis(tr("GiB of tensors", locale), rangemode="tozero"),
        shapes=shapes,
        annotations=notes,
    )


_ABOVE = {"y": 1.02, "yref": "paper", "yanchor": "bottom", "showarrow": False}


def _phase_marks(
    phases: Sequence[str], names: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A line across where a phase begins, and its name above it."""
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for place, phase in enumerate(phases):
        if place and phases[place - 1] == phase:
            continue
        line = {"color": GREY, "width": 1, "dash": "dot"}
        shapes.append(
            {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "yref": "paper", "line": line}
        )
        # One above the other in turn: a phase may be shorter than its name, the last one ends the picture.
        side = "right" if place > 0.75 * len(phases) else "left"
        row = {"xanchor": side, "yshift": 15 * (len(notes) % 2)}
        notes.append({**_ABOVE, **row, "x": place, "text": names.get(phase, phase)})
    return shapes, notes
