"""Why did I run out? An error or a log in, what happened and a run that fits out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.explain_oom import OomQuestion, explain_oom
from studio.memory.oom_text import LONGEST_TEXT
from studio.memory.plan import LABEL_LENGTH
from studio.options.arguments import config_from_dict, config_to_dict
from studio.registry.store import ModelRegistry
from studio.runs.oom import EndedRun
from studio.translation import N_
from studio.ui.memory.views import diagnosis_view
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import AT_ONCE, follow_form, follow_models
from studio.ui.shared.forms import field_component
from studio.ui.shared.handover import Handover, handed, handover
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.views import model_choices

_UNKNOWN = ""
_ANOTHER = N_("Another, or I do not know")
_EXAMPLE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a …"


@dataclass(frozen=True)
class OomSection:
    """What the page fills with a run that failed."""

    text: gr.Textbox
    form: Mapping[str, Block]
    run: gr.State
    """Options and longest text of that run, as long as the form speaks of its model."""
    handover: Handover

    def filled(self) -> list[Block]:
        """In the order of `fill_from_run`."""
        return [self.run, *self.form.values(), self.text]

    def fill_from_run(self, ended: EndedRun) -> list[Any]:
        """Values for `filled`; the last of them, the log, is explained when it arrives."""
        options = config_to_dict(ended.config)
        run = {"config": options, "label_length": ended.label_length}
        return [run, *(getattr(ended.config, name) for name in self.form), ended.text[-LONGEST_TEXT:]]


def build_oom(registry: ModelRegistry, tab: gr.Tab) -> OomSection:
    """The section's content; it answers as soon as something is pasted."""
    run = gr.State({})
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
                    "What happened and what helps will appear here, whichever version of PyTorch wrote the "
                    "error. Errors of cuBLAS and bitsandbytes and logs of processes that were killed are "
                    "understood, too."
                ),
                elem_id="oom-answer",
            )
            use = handover("oom-use")
    section = OomSection(text, form, run, use)
    _wire(registry, tab, section, answer)
    return section


def _form(registry: ModelRegistry) -> dict[str, Block]:
    """What was run, under the names of `TrainingConfig`; unknown unless a model is chosen."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        [(_(_ANOTHER), _UNKNOWN), *model_choices(registry.all(), "en")],
        value=_UNKNOWN,
        label=_("Model that was trained"),
        info=_("With it, a run that fits is found."),
        allow_custom_value=True,
        elem_id="oom-base_model",
    )
    with gr.Row():
        for name, width in (("method", 240), ("per_device_train_batch_size", 100)):
            form[name] = _field(name, min_width=width)
    form["quantization"] = _field("quantization", choose=gr.Radio)
    form["gradient_checkpointing"] = _field("gradient_checkpointing")
    return form


def _field(name: str, **more: Any) -> Block:
    return field_component(name, info=None, elem_id=f"oom-{name}", **more)


def _wire(
    registry: ModelRegistry,
    tab: gr.Tab,
    section: OomSection,
    answer: gr.HTML,
) -> None:
    text, form, use = section.text, section.form, section.handover

    def show(text: str | None, run: dict[str, Any], request: gr.Request, **values: Any) -> list[Any]:
        """The diagnosis; with a model also a run that fits, made of `run` if that is of the same model."""
        if not (text and text.strip()):
            return ["", *handed(None)]
        question = OomQuestion(text)
        if values["base_model"] != _UNKNOWN:
            is_of_run = run.get("config", {}).get("base_model") == values["base_model"]
            config = config_from_dict({**(run["config"] if is_of_run else {}), **values})
            question = OomQuestion(text, config, run["label_length"] if is_of_run else LABEL_LENGTH)
        found = explain_oom(question, registry)
        return [diagnosis_view(found.diagnosis, request_locale(request)), *handed(found.config)]

    follow_models(registry, tab, form["base_model"], (_ANOTHER, _UNKNOWN))
    asked = {"text": text, "run": section.run}
    shown = told_in(answer, show, [answer, *use], form)
    follow_form(form, shown["fn"], shown["outputs"], text.change, inputs=asked, **AT_ONCE)
