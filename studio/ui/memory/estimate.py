"""The estimate: form on the left, the answer on the right, no button to press."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.events import Dependency

from studio.actions.estimate import (
    TRAIN,
    Answer,
    Question,
    answer,
    batch_curve,
    estimate_command,
    precisions,
    remedies,
    training_config,
)
from studio.actions.fit import AUTO
from studio.memory.fit import cards_for
from studio.memory.gpus import GPUS
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html, join, tag
from studio.services import Services
from studio.ui.memory.charts import batch_chart, parts_chart
from studio.ui.memory.form import PlanSection, build_form, share_choices, wire_answers, wire_fields
from studio.ui.memory.probe import ProbeSection, build_probe, wire_probe
from studio.ui.memory.step import StepSection, build_step, wire_step
from studio.ui.memory.views import cards_view, phases_view, savings_view
from studio.ui.shared.following import AT_ONCE, UNCHECKED, changes_of, copyable, follow_models
from studio.ui.shared.handover import handed, handover
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.links import plan_link
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.views import memory_table, memory_verdict, part_names


def build_estimate(services: Services, tab: gr.Tab, section: gr.Tab) -> PlanSection:
    """The section's content; it answers at every change of a value."""
    settings, registry = services.settings, services.registry
    with gr.Row(elem_classes="estimate-row"):
        with gr.Column(scale=2, min_width=300):
            form, more = build_form(registry)
        with gr.Column(scale=3, min_width=320):
            verdict = gr.HTML(elem_id="memory-verdict")
            use = handover("memory-to-train")
            figures = [gr.HTML(elem_id=f"memory-{name}") for name in ("chart", "batches", "cards", "parts")]
            command = copyable(_("Same on the command line"), "memory-command", lines=2)
            link = gr.HTML(elem_id="memory-link")
            answers = [verdict, *figures, command, link]  # as `_answered` gives them
            step = build_step()
            probe = build_probe()
            gr.Markdown(
                _(
                    "Calculated by formulas from the model's dimensions; the range shows the expected "
                    "error. While clips are padded to 30 seconds, their length does not matter; in "
                    "short-audio mode the longest clip counts."
                ),
                elem_classes="subdued",
            )
    share_choices(section, form, not_taken=AUTO)
    wire_fields(form, more, step.draw, probe.measure)
    drawing = wire_step(registry, settings, form, step)
    wire_probe(services, form, probe)
    _forget(services, form, step, probe, drawing)

    def show(request: gr.Request, **values: Any) -> list[Any]:
        """The answer to the form's question."""
        return _answered(Question(**values), registry, settings.calibration, request)

    estimate = PlanSection(form, use)
    wire_answers(estimate, answers, tab, show, **AT_ONCE, **UNCHECKED)
    follow_models(registry, tab, form["base_model"])
    return estimate


def _forget(
    services: Services, form: dict[str, Block], step: StepSection, probe: ProbeSection, drawing: Dependency
) -> None:
    """Hides what was drawn and measured for another form, and does not wait for what is being drawn."""

    def hide() -> list[Any]:
        """What was drawn, and what was measured unless somebody measures."""
        gone = gr.update(visible=False)
        return [gone, gone, gr.skip() if services.prober.is_busy else gone]

    gr.on(changes_of(form), hide, None, [step.chart, step.said, probe.said], cancels=drawing, **AT_ONCE)


def _is_changing(question: Question) -> bool:
    """Whether the list of precisions has yet to follow the engine."""
    return question.precision not in ("auto", *precisions(question.use, question.engine))


def _answered(question: Question, registry: ModelRegistry, receipts: Path, request: gr.Request) -> list[Any]:
    """Verdict, charts, cards, parts, command and links, and what goes to the Train tab."""
    if _is_changing(question):
        return [gr.skip()] * 9
    locale = request_locale(request)
    found = answer(question, registry, receipts)
    estimate = found.estimate
    run = training_config(question) if question.use == TRAIN else None
    parts = {str(part): size for part, size in estimate.parts.items()}
    formulas = {str(part): text for part, text in estimate.formulas.items()}
    phases = {str(phase): size for phase, size in estimate.phases.items()}
    points, largest = batch_curve(question, found)
    chosen, sizes = question.per_device_train_batch_size, [gpu.memory_bytes for gpu in GPUS]
    return [
        memory_verdict(
            found.verdict,
            found.gpu.name,
            found.usable_bytes,
            estimate,
            remedies(question.per_device_train_batch_size, run),
            locale,
        ),
        parts_chart(parts, part_names(locale), sizes, found.gpu.memory_bytes, locale),
        batch_chart(points, found.usable_bytes, found.gpu.name, chosen, largest, locale),
        cards_view(cards_for(found.elsewhere), locale),
        join(
            [
                memory_table(parts, formulas, locale),
                phases_view(phases, locale),
                savings_view(found.savings, locale),
            ]
        ),
        estimate_command(question),
        _links(question, found, request, locale),
        *handed(run, fits=found.verdict != "does_not_fit"),
    ]


def _links(question: Question, found: Answer, request: gr.Request, locale: str) -> Html:
    """A link that opens the page with this form, and the answer as JSON."""
    row = {**found.estimate.to_json(), "gpu": found.gpu.name, "verdict": found.verdict}
    files = download_links({"json": json.dumps(row, indent=2)}, "whisper-memory", locale)
    return tag("div", plan_link(question, request, locale), files, class_="downloads")
