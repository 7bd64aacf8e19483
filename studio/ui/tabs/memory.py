"""How much GPU memory a run or a model needs: form on the left, the answer on the right, no button."""

from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.memory.gpus import GPUS
from studio.registry.store import ModelRegistry
from studio.training.config import METHODS, PRECISIONS, QUANTIZATIONS
from studio.ui.charts import memory_chart
from studio.ui.errors import shows_errors
from studio.ui.forms import CHOICES, LABELS
from studio.ui.i18n import _, request_locale
from studio.ui.sizing import TRAIN, TRANSCRIBE, Question, answer, default_gpu, estimate_command, gpus
from studio.ui.views import memory_table, memory_verdict, model_choices, part_names
from studio.units import format_bytes

DEFAULT_MODEL = "openai/whisper-small"


@dataclass(frozen=True)
class _Answers:
    """Components on the right."""

    verdict: gr.HTML
    chart: gr.Plot
    parts: gr.HTML
    command: gr.Textbox

    def all(self) -> list[Block]:
        """In the order in which the handler gives them."""
        return [self.verdict, self.chart, self.parts, self.command]


def build_memory_tab(registry: ModelRegistry, tab: gr.Tab) -> None:
    """The tab's content; it answers at every change of a value."""
    gr.Markdown(
        _("Will it fit? Choose a model and what you want to do with it: the answer follows every change."),
        elem_classes="lead",
    )
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form = _form(registry)
        with gr.Column(scale=3, min_width=320):
            answers = _Answers(
                gr.HTML(elem_id="memory-verdict"),
                gr.Plot(show_label=False, elem_id="memory-chart"),
                gr.HTML(elem_id="memory-parts"),
                gr.Textbox(
                    label=_("The same in a terminal"),
                    buttons=["copy"],
                    interactive=False,
                    max_lines=3,
                    elem_id="memory-command",
                ),
            )
            gr.Markdown(
                _(
                    "An estimate by closed formulas, worked out from the model's dimensions. The range says "
                    "how far a real run may be off. Audio is always padded to 30 seconds, so its length "
                    "changes nothing."
                ),
                elem_classes="subdued",
            )
    _wire(registry, tab, form, answers)


def _form(registry: ModelRegistry) -> dict[str, Block]:
    """Components under the names of `Question`."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        model_choices(registry.all(), "en"), value=DEFAULT_MODEL, label=_("Model"), allow_custom_value=True
    )
    form["use"] = gr.Radio(
        [(_("Train it"), TRAIN), (_("Transcribe with it"), TRANSCRIBE)], value=TRAIN, label=_("Use")
    )
    form["gpu"] = gr.Dropdown(
        [(f"{gpu.name} · {format_bytes(gpu.memory_bytes)}", gpu.name) for gpu in gpus()],
        value=default_gpu().name,
        label=_("GPU"),
    )
    form["method"] = gr.Dropdown([(CHOICES[m], m) for m in METHODS], value="lora", label=LABELS["method"])
    form["per_device_train_batch_size"] = gr.Slider(
        1, 64, value=8, step=1, label=LABELS["per_device_train_batch_size"]
    )
    form["gradient_checkpointing"] = gr.Checkbox(
        False,
        label=LABELS["gradient_checkpointing"],
        info=_("Saves the most memory of all; costs about a third more time."),
    )
    form["precision"] = gr.Radio(
        [(CHOICES.get(p, p), p) for p in PRECISIONS], value="auto", label=LABELS["precision"]
    )
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


_TRAINING_ONLY = ("method", "gradient_checkpointing", "quantization", "lora_r", "label_length")


def _wire(registry: ModelRegistry, tab: gr.Tab, form: dict[str, Block], answers: _Answers) -> None:
    @shows_errors
    def show(request: gr.Request, **values: Any) -> list[Any]:
        return _show(Question(**values), registry, request_locale(request))

    def refresh(request: gr.Request) -> Any:
        return gr.update(choices=model_choices(registry.all(), request_locale(request)))

    def show_fields(use: str) -> list[Any]:
        return [gr.update(visible=use == TRAIN) for _name in _TRAINING_ONLY] + [
            gr.update(visible=use == TRANSCRIBE)
        ]

    quiet: dict[str, Any] = {
        "api_visibility": "private",
        "show_progress": "hidden",
        "concurrency_limit": None,
    }
    changes = [component.change for component in form.values()]  # type: ignore[attr-defined]
    gr.on(
        [tab.select, *changes],
        show,
        inputs_kwargs=form,
        outputs=answers.all(),
        trigger_mode="always_last",
        **quiet,
    )
    tab.select(refresh, None, form["base_model"], **quiet)
    folded = [form[name] for name in (*_TRAINING_ONLY, "num_beams")]
    form["use"].change(show_fields, form["use"], folded, **quiet)  # type: ignore[attr-defined]


def _show(question: Question, registry: ModelRegistry, locale: str) -> list[Any]:
    """Verdict, chart, table and command."""
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
        memory_chart(
            parts, part_names(locale), [gpu.memory_bytes for gpu in GPUS], found.gpu.memory_bytes, locale
        ),
        memory_table(parts, formulas, locale),
        estimate_command(question),
    ]
