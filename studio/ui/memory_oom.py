"""Why did I run out? An error or a log in, what happened and a run that fits out."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.memory.oom import explain as explain_oom
from studio.memory.oom_text import LONGEST_TEXT
from studio.registry.store import ModelRegistry
from studio.training.config import METHODS, QUANTIZATIONS, TrainingConfig
from studio.training.fitting import FitQuestion, shape_of
from studio.training.plan import config_of, planned
from studio.ui.errors import shows_errors
from studio.ui.forms import CHOICES, LABELS
from studio.ui.handover import Handover, handed, handover
from studio.ui.i18n import N_, _, request_locale, tr
from studio.ui.memory_estimate import AT_ONCE, QUIET
from studio.ui.memory_views import diagnosis_view
from studio.ui.views import model_choices

_UNKNOWN = ""
_ANOTHER = N_("Another, or I do not know")
_EXAMPLE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a …"


def build_oom(registry: ModelRegistry, tab: gr.Tab) -> Handover:
    """The section's content; it answers as soon as something is pasted."""
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            text = gr.Textbox(
                label=_("Paste the error, or the end of the log"),
                placeholder=_EXAMPLE,
                lines=9,
                max_lines=16,
                max_length=LONGEST_TEXT,
                elem_id="oom-text",
            )
            form = _form(registry)
        with gr.Column(scale=3, min_width=320):
            answer = gr.HTML(
                _(
                    "Here stands what happened and what helps, whichever PyTorch wrote the error: also "
                    "errors of cuBLAS and bitsandbytes, and logs of processes that were killed."
                ),
                elem_id="oom-answer",
            )
            use = handover("oom-use")
    _wire(registry, tab, text, form, answer, use)
    return use


def _form(registry: ModelRegistry) -> dict[str, Block]:
    """What was run, under the names of `TrainingConfig`; unknown unless a model is chosen."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        [(_(_ANOTHER), _UNKNOWN), *model_choices(registry.all(), "en")],
        value=_UNKNOWN,
        label=_("What was trained"),
        info=_("With it, a run is found that fits."),
        allow_custom_value=True,
        elem_id="oom-base_model",
    )
    with gr.Row():
        form["method"] = gr.Dropdown(
            [(CHOICES[name], name) for name in METHODS],
            value="lora",
            label=LABELS["method"],
            min_width=140,
            elem_id="oom-method",
        )
        form["per_device_train_batch_size"] = gr.Number(
            8,
            precision=0,
            label=LABELS["per_device_train_batch_size"],
            min_width=100,
            elem_id="oom-per_device_train_batch_size",
        )
    form["quantization"] = gr.Radio(
        [(CHOICES[name], name) for name in QUANTIZATIONS], value="none", label=LABELS["quantization"]
    )
    form["gradient_checkpointing"] = gr.Checkbox(False, label=LABELS["gradient_checkpointing"])
    return form


def _wire(
    registry: ModelRegistry,
    tab: gr.Tab,
    text: gr.Textbox,
    form: dict[str, Block],
    answer: gr.HTML,
    use: Handover,
) -> None:
    @shows_errors
    def show(text: str, request: gr.Request, **values: Any) -> list[Any]:
        if not text.strip():
            return [gr.skip(), *handed(None)]
        if values["base_model"] == _UNKNOWN:
            return [diagnosis_view(explain_oom(text), request_locale(request)), *handed(None)]
        config = TrainingConfig(**values)
        plan = planned(config, FitQuestion().label_length)
        diagnosis = explain_oom(text, plan, shape_of(config.base_model, registry))
        repaired = diagnosis.repaired
        fitting = config_of(repaired.plan, config) if repaired and repaired.fits else None
        return [diagnosis_view(diagnosis, request_locale(request)), *handed(fitting)]

    def refresh(request: gr.Request) -> Any:
        locale = request_locale(request)
        first = (tr(_ANOTHER, locale), _UNKNOWN)
        return gr.update(choices=[first, *model_choices(registry.all(), locale)])

    tab.select(refresh, None, form["base_model"], **QUIET)
    changes = [component.change for component in form.values()]  # type: ignore[attr-defined]
    gr.on(
        [text.change, *changes],
        show,
        inputs_kwargs={"text": text, **form},
        outputs=[answer, *use.all()],
        trigger_mode="always_last",
        **AT_ONCE,
    )
