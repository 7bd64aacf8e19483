"""The form of the estimate: what is asked, under the names of `Question`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.estimate import TRAIN, TRANSCRIBE, default_gpu, gpus, precisions
from studio.errors import StudioError
from studio.memory.plan import LABEL_LENGTH
from studio.methods import METHODS
from studio.options.choices import ENGINES, QUANTIZATIONS, or_auto
from studio.registry.store import ModelRegistry
from studio.transcription.engine import USUAL_BEAMS
from studio.ui.shared.errors import fields_of, refusal
from studio.ui.shared.following import AT_ONCE, QUIET, UNCHECKED, follow_form, offered
from studio.ui.shared.forms import choices_of, field_component
from studio.ui.shared.handover import Handover, handed
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.views import model_choices
from studio.units import format_bytes

DEFAULT_MODEL = "openai/whisper-small"
_TRAINING_ONLY = ("method", "gradient_checkpointing", "label_length")
_TRANSCRIBING_ONLY = ("engine", "num_beams")
_MORE = (
    *("short_audio", "max_audio_len", "loss_chunk_size"),
    *("optim", "attn_implementation", "base_dtype"),
)
"""Options of a run that few people change."""
_SHARED = ("gpu", "base_model", "method", "label_length")
"""Fields of the same question in two sections."""


@dataclass(frozen=True)
class PlanSection:
    """A form whose answer is a plan: what the page around it needs."""

    form: Mapping[str, Block]
    handover: Handover


def wire_answers(
    section: PlanSection, answers: Sequence[Block], tab: gr.Tab, answer: Callable[..., list[Any]], **how: Any
) -> None:
    """What `answer` gives for the form's values stands in `answers`, and the plan in the section's handover;
    or what is wrong with the question, and nothing as if it were the answer.
    """
    fields = fields_of(section.form)

    def show(request: gr.Request, **values: Any) -> list[Any]:
        """The answer, or what is wrong with the question."""
        try:
            return answer(request, **values)
        except StudioError as error:
            told = refusal(error, fields, request_locale(request))
            return [told, *[""] * (len(answers) - 1), *handed(None)]

    follow_form(section.form, show, [*answers, *section.handover], tab.select, **how)


def build_form(registry: ModelRegistry) -> tuple[dict[str, Block], gr.Accordion]:
    """Components under the names of `Question`, and what some of them are folded in."""
    form: dict[str, Block] = {}
    form["base_model"] = gr.Dropdown(
        model_choices(registry.all(), "en"), value=DEFAULT_MODEL, label=_("Model"), allow_custom_value=True
    )
    form["use"] = gr.Radio(
        [(_("Train it"), TRAIN), (_("Transcribe with it"), TRANSCRIBE)], value=TRAIN, label=_("Use")
    )
    form["gpu"] = gpu_field()
    form["method"] = field_component("method", info=None)
    form["engine"] = gr.Radio(list(ENGINES), value="transformers", label=_("Engine"), visible=False)
    form["per_device_train_batch_size"] = field_component("per_device_train_batch_size", info=None)
    form["gradient_checkpointing"] = field_component(
        "gradient_checkpointing", info=_("Saves the most memory of all; costs about a third more time.")
    )
    form["precision"] = field_component("precision", choose=gr.Radio, info=None)
    form["quantization"] = gr.Radio(
        choices_of(QUANTIZATIONS), value="none", label=_("Quantization of the frozen weights")
    )
    with gr.Row():
        form["lora_r"] = field_component("lora_r", info=None, min_width=120)
        form["label_length"] = gr.Number(LABEL_LENGTH, label=_("Longest text (tokens)"), min_width=120)
    form["num_beams"] = gr.Number(USUAL_BEAMS, label=_("Beam size"), visible=False)
    with gr.Accordion(_("More options"), open=False, elem_id="memory-more") as more:
        form |= {name: field_component(name) for name in _MORE}
        form["num_gpus"] = gr.Number(1, label=_("GPUs"), info=_("The figures are those of one of them."))
        form["sharding"] = field_component("sharding", info=None)
    for name, field in form.items():
        field.elem_id = f"memory-{name}"
    return form, more


def gpu_field(**more: Any) -> gr.Dropdown:
    """A card of this machine or of the table, or a size in words."""
    choices = [(f"{gpu.name} · {format_bytes(gpu.memory_bytes)}", gpu.name) for gpu in gpus()]
    return gr.Dropdown(choices, value=default_gpu().name, label=_("GPU"), allow_custom_value=True, **more)


def share_choices(section: gr.Tab, form: dict[str, Block], not_taken: str = "") -> None:
    """What was chosen for `_SHARED` in one section is chosen in the other when it is opened, but for the
    value that only the other has. To be wired before whatever asks the studio: the page goes through the
    handlers of an event in turn, and waits for the answer of each.
    """
    for name in _SHARED:
        field, chosen = form[name], f"window.chosen_{name}"
        keep = f"(value) => {{ {chosen} = value; return []; }}"
        take = f"(value) => [undefined, '{not_taken}'].includes({chosen}) ? value : {chosen}"
        field.change(None, field, None, js=keep, **QUIET)  # type: ignore[attr-defined]
        section.select(None, field, field, js=take, **QUIET)


def wire_fields(form: dict[str, Block], *of_training: Block) -> None:
    """Which fields are in sight; with them what else is `of_training` alone."""

    def show_fields(use: str, engine: str, precision: str, method: str) -> list[Any]:
        """Those of training with the method or of transcribing, and the precisions that the engine has."""
        allowed = or_auto(precisions(use, engine))
        kept = precision if precision in allowed else "auto"
        return [
            *[gr.update(visible=use == TRAIN) for _name in _TRAINING_ONLY],
            *[gr.update(visible=use == TRANSCRIBE) for _name in _TRANSCRIBING_ONLY],
            gr.update(visible=use == TRAIN and METHODS[method].is_adapter),
            gr.update(visible=use == TRAIN or engine == "transformers"),
            offered(choices_of(allowed), kept, precision),
            *[gr.update(visible=use == TRAIN) for _block in of_training],
        ]

    names = (*_TRAINING_ONLY, *_TRANSCRIBING_ONLY, "lora_r", "quantization", "precision")
    folded = [*[form[name] for name in names], *of_training]
    choosing = [form["use"], form["engine"], form["precision"], form["method"]]
    gr.on(
        [form["use"].change, form["engine"].change, form["method"].change],  # type: ignore[attr-defined]
        show_fields,
        choosing,
        folded,
        **AT_ONCE,
        **UNCHECKED,
    )
