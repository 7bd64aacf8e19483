"""One training step as a picture: the memory of each moment by part, from a trace of the real code."""

from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.estimate import TRAIN, Question, shape_of, training_plan_of
from studio.errors import ConfigError
from studio.memory.plan import TrainingPlan
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.memory.training import estimate_training
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html
from studio.reports.pieces import note
from studio.settings import Settings
from studio.translation import tr
from studio.ui.memory.charts import step_chart
from studio.ui.memory.views import STEP_PHASES
from studio.ui.shared.errors import told_in
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.views import part_names
from studio.units import format_bytes


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


def wire_step(registry: ModelRegistry, settings: Settings, form: dict[str, Block], step: StepSection) -> None:
    """The picture is drawn when asked for; what is on the page when the form changes is no longer true."""

    def show(request: gr.Request, **values: Any) -> list[Any]:
        """The traced step, and its peak beside the estimate's."""
        plan, dimensions = traceable(Question(**values), registry)
        trace = traced(plan, dimensions, settings)
        return _shown(plan, dimensions, trace, request_locale(request))

    drawn = told_in(step.said, show, [step.chart, step.said], form)
    step.draw.click(**drawn, inputs_kwargs=form, api_visibility="private", concurrency_limit=2)


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
