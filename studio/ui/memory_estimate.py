"""The estimate: form on the left, the answer on the right, no button to press."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.memory.fit import cards_for
from studio.memory.gpus import GPUS
from studio.memory.plan import ENGINES
from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.training.config import METHODS, PRECISIONS, QUANTIZATIONS
from studio.ui.charts import memory_chart
from studio.ui.errors import shows_errors
from studio.ui.forms import CHOICES, LABELS
from studio.ui.handover import Handover, handed, handover
from studio.ui.i18n import _, request_locale
from studio.ui.links import plan_link
from studio.ui.markup import Html, tag
from studio.ui.memory_charts import batch_chart
from studio.ui.memory_step import build_step, wire_step
from studio.ui.memory_views import cards_view
from studio.ui.sizing import (
    TRAIN,
    TRANSCRIBE,
    Answer,
    Question,
    answer,
    batch_curve,
    default_gpu,
    estimate_command,
    gpus,
    training_config,
)
from studio.ui.transcript_views import download_links
from studio.ui.views import memory_table, memory_verdict, model_choices, part_names
from studio.units import format_bytes

DEFAULT_MODEL = "openai/whisper-small"
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "concurrency_limit": None}
AT_ONCE: dict[str, Any] = {**QUIET, "queue": False}
"""For answers that take milliseconds: a place in the queue would take longer."""
_TRAINING_ONLY = ("method", "gradient_checkpointing", "quantization", "lora_r", "label_length")
_TRANSCRIBING_ONLY = ("engine", "num_beams")


@dataclass(frozen=True)
class _Answers:
    """Components on the right."""

    verdict: gr.HTML
    chart: gr.Plot
    batches: gr.Plot
    cards: gr.HTML
    parts: gr.HTML
    command: gr.Textbox
    link: gr.HTML

    def words(self) -> list[Block]:
        """In the order in which the first handler gives them."""
        return [self.verdict, self.cards, self.parts, self.command, self.link]

    def charts(self) -> list[Block]:
        """In the order in which the second handler gives them."""
        return [self.chart, self.batches]


@dataclass(frozen=True)
class EstimateSection:
    """What the page around it needs."""

    form: Mapping[str, Block]
    handover: Handover


def build_estimate(settings: Settings, registry: ModelRegistry, tab: gr.Tab) -> EstimateSection:
    """The section's content; it answers at every change of a value."""
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form = _form(registry)
        with gr.Column(scale=3, min_width=320):
            verdict = gr.HTML(elem_id="memory-verdict")
            use = handover("memory-use")
            answers = _Answers(
                verdict,
                gr.Plot(show_label=False, elem_id="memory-chart"),
                gr.Plot(show_label=False, elem_id="memory-batches"),
                gr.HTML(elem_id="memory-cards"),
                gr.HTML(elem_id="memory-parts"),
                gr.Textbox(
                    label=_("The same in a terminal"),
                    buttons=["copy"],
                    interactive=False,
                    max_lines=3,
                    elem_id="memory-command",
                ),
                gr.HTML(elem_id="memory-link"),
            )
            step = build_step()
            gr.Markdown(
                _(
                    "An estimate by closed formulas, worked out from the model's dimensions. The range says "
                    "how far a real run may be off. Audio is always padded to 30 seconds, so its length "
                    "changes nothing."
                ),
                elem_classes="subdued",
            )
    _wire(registry, tab, form, answers, use)
    wire_step(registry, settings.cache, form, step)
    return EstimateSection(form, use)


def _form(registry: ModelRegistry) -> dict[str, Block]:
    """Components under the names of `Question`."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        model_choices(registry.all(), "en"), value=DEFAULT_MODEL, label=_("Model"), allow_custom_value=True
    )
    form["use"] = gr.Radio(
        [(_("Train it"), TRAIN), (_("Transcribe with it"), TRANSCRIBE)], value=TRAIN, label=_("Use")
    )
    form["gpu"] = gpu_field()
    form["method"] = gr.Dropdown([(CHOICES[m], m) for m in METHODS], value="lora", label=LABELS["method"])
    form["engine"] = gr.Radio(list(ENGINES), value="transformers", label=_("Engine"), visible=False)
    form["per_device_train_batch_size"] = gr.Slider(
        1, 64, value=8, step=1, label=LABELS["per_device_train_batch_size"]
    )
    form["gradient_checkpointing"] = gr.Checkbox(
        False,
        label=LABELS["gradient_checkpointing"],
        info=_("Saves the most memory of all; costs about a third more time."),
    )
    form["precision"] = gr.Radio(_precisions(TRAIN, ""), value="auto", label=LABELS["precision"])
    form["quantization"] = gr.Radio(
        [(CHOICES[q], q) for q in QUANTIZATIONS], value="none", label=_("Quantization of the frozen weights")
    )
    form["lora_r"] = gr.Slider(1, 256, value=32, step=1, label=LABELS["lora_r"])
    form["label_length"] = gr.Slider(
        8,
        448,
        value=64,
        step=8,
        label=_("Longest text (tokens)"),
        info=_("Tokens of the longest text in a batch."),
    )
    form["num_beams"] = gr.Slider(1, 16, value=1, step=1, label=_("Beams"), visible=False)
    return form


def gpu_field(**more: Any) -> gr.Dropdown:
    """A card of this machine or of the table."""
    choices = [(f"{gpu.name} · {format_bytes(gpu.memory_bytes)}", gpu.name) for gpu in gpus()]
    return gr.Dropdown(choices, value=default_gpu().name, label=_("GPU"), **more)


def _precisions(use: str, engine: str) -> list[tuple[Any, str]]:
    """int8 is of faster-whisper alone."""
    names = (*PRECISIONS, "int8") if use == TRANSCRIBE and engine == "faster-whisper" else PRECISIONS
    return [(CHOICES.get(name, name), name) for name in names]


def _wire(
    registry: ModelRegistry, tab: gr.Tab, form: dict[str, Block], answers: _Answers, use: Handover
) -> None:
    @shows_errors
    def show(request: gr.Request, **values: Any) -> list[Any]:
        return _words(Question(**values), registry, request)

    @shows_errors
    def draw(request: gr.Request, **values: Any) -> list[Any]:
        return _charts(Question(**values), registry, request_locale(request))

    def refresh(request: gr.Request) -> Any:
        return gr.update(choices=model_choices(registry.all(), request_locale(request)))

    def show_fields(use: str, engine: str, precision: str) -> list[Any]:
        allowed = _precisions(use, engine)
        kept = precision if precision in [name for _label, name in allowed] else "auto"
        return [
            *[gr.update(visible=use == TRAIN) for _name in _TRAINING_ONLY],
            *[gr.update(visible=use == TRANSCRIBE) for _name in _TRANSCRIBING_ONLY],
            gr.update(choices=allowed, value=kept),
        ]

    changes = [component.change for component in form.values()]  # type: ignore[attr-defined]
    shown = gr.on(
        [tab.select, *changes],
        show,
        inputs_kwargs=form,
        outputs=[*answers.words(), *use.all()],
        trigger_mode="always_last",
        **AT_ONCE,
    )
    # A browser takes longer to draw than to write: the verdict does not wait for the charts.
    shown.success(draw, inputs_kwargs=form, outputs=answers.charts(), **AT_ONCE)
    tab.select(refresh, None, form["base_model"], **QUIET)
    folded = [form[name] for name in (*_TRAINING_ONLY, *_TRANSCRIBING_ONLY, "precision")]
    choosing = [form["use"], form["engine"], form["precision"]]
    gr.on(
        [form["use"].change, form["engine"].change],  # type: ignore[attr-defined]
        show_fields,
        choosing,
        folded,
        **AT_ONCE,
    )


def _is_changing(question: Question) -> bool:
    """Whether the list of precisions has yet to follow the engine."""
    return question.precision == "int8" and (question.use, question.engine) != (TRANSCRIBE, "faster-whisper")


def _words(question: Question, registry: ModelRegistry, request: gr.Request) -> list[Any]:
    """Verdict, cards, parts, command and links, and what goes to the Train tab."""
    if _is_changing(question):
        return [gr.skip()] * 7
    locale = request_locale(request)
    found = answer(question, registry)
    estimate = found.estimate
    parts = {str(part): size for part, size in estimate.parts.items()}
    formulas = {str(part): text for part, text in estimate.formulas.items()}
    return [
        memory_verdict(
            found.verdict,
            found.gpu.name,
            found.usable_bytes,
            estimate.low_bytes,
            estimate.high_bytes,
            estimate.device_bytes,
            locale,
        ),
        cards_view(cards_for(estimate), locale),
        memory_table(parts, formulas, locale),
        estimate_command(question),
        _links(question, found, request, locale),
        *handed(training_config(question) if question.use == TRAIN else None),
    ]


def _charts(question: Question, registry: ModelRegistry, locale: str) -> list[Any]:
    """Stacked parts against common GPUs, and the peak against the batch."""
    if _is_changing(question):
        return [gr.skip()] * 2
    found = answer(question, registry)
    parts = {str(part): size for part, size in found.estimate.parts.items()}
    points, largest = batch_curve(question, found)
    chosen = question.per_device_train_batch_size
    sizes = [gpu.memory_bytes for gpu in GPUS]
    return [
        memory_chart(parts, part_names(locale), sizes, found.gpu.memory_bytes, locale),
        batch_chart(points, found.usable_bytes, found.gpu.name, chosen, largest, locale),
    ]


def _links(question: Question, found: Answer, request: gr.Request, locale: str) -> Html:
    """A link that opens the page with this form, and the answer as JSON."""
    row = {**found.estimate.to_json(), "gpu": found.gpu.name, "verdict": found.verdict}
    files = download_links({"json": json.dumps(row, indent=2)}, "whisper-memory", locale)
    return tag("div", plan_link(question, request, locale), files, class_="downloads")
