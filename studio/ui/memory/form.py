"""The form of the estimate: what is asked, under the names of `Question`."""

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.actions.estimate import TRAIN, TRANSCRIBE, Question, default_gpu, gpus, question_plan
from studio.memory.inference_plan import ENGINES, INTEGERS
from studio.memory.plan import LABEL_LENGTH
from studio.options.choices import DTYPES, METHOD_LABELS, PRECISIONS, QUANTIZATIONS, SHARDINGS, or_auto
from studio.registry.store import ModelRegistry
from studio.transcription.engine import FASTER_WHISPER, USUAL_BEAMS
from studio.ui.shared.following import AT_ONCE, QUIET, offered
from studio.ui.shared.forms import LABELS, choices_of, field_component, validator
from studio.ui.shared.i18n import _
from studio.ui.shared.views import model_choices
from studio.units import format_bytes
from studio.whisper.constants import TEXT_POSITIONS

DEFAULT_MODEL = "openai/whisper-small"
_TRAINING_ONLY = ("method", "gradient_checkpointing", "lora_r", "label_length")
_TRANSCRIBING_ONLY = ("engine", "num_beams")


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
    form["method"] = gr.Dropdown(choices_of(METHOD_LABELS), value="lora", label=LABELS["method"])
    form["engine"] = gr.Radio(list(ENGINES), value="transformers", label=_("Engine"), visible=False)
    form["per_device_train_batch_size"] = gr.Slider(
        1, 64, value=8, step=1, label=LABELS["per_device_train_batch_size"]
    )
    form["gradient_checkpointing"] = gr.Checkbox(
        False,
        label=LABELS["gradient_checkpointing"],
        info=_("Saves the most memory of all; costs about a third more time."),
        elem_id="memory-gradient_checkpointing",
    )
    form["precision"] = gr.Radio(_precisions(TRAIN, ""), value="auto", label=LABELS["precision"])
    form["quantization"] = gr.Radio(
        choices_of(QUANTIZATIONS), value="none", label=_("Quantization of the frozen weights")
    )
    form["lora_r"] = gr.Slider(1, 256, value=32, step=1, label=LABELS["lora_r"])
    form["label_length"] = gr.Slider(
        8,
        TEXT_POSITIONS,
        value=LABEL_LENGTH,
        step=8,
        label=_("Longest text (tokens)"),
        info=_("Tokens of the longest text in a batch."),
    )
    form["num_beams"] = gr.Slider(
        1,
        16,
        value=USUAL_BEAMS,
        step=1,
        label=_("Beams"),
        visible=False,
    )
    with gr.Accordion(_("More options"), open=False, elem_id="memory-more") as more:
        form |= _more()
    return form, more


def _more() -> dict[str, Block]:
    """What few people change."""
    form: dict[str, Block] = {}
    for name in (
        "short_audio",
        "max_audio_len",
        "loss_chunk_size",
        "optim",
        "attn_implementation",
        "base_dtype",
    ):
        form[name] = field_component(name, elem_id=f"memory-{name}")
    form["num_gpus"] = gr.Slider(
        1,
        16,
        value=1,
        step=1,
        label=_("GPUs"),
        info=_("The figures are those of one of them."),
        elem_id="memory-num_gpus",
    )
    form["sharding"] = gr.Dropdown(
        choices_of(SHARDINGS),
        value="ddp",
        label=_("What several GPUs divide"),
        elem_id="memory-sharding",
    )
    return form


def gpu_field(**more: Any) -> gr.Dropdown:
    """A card of this machine or of the table."""
    choices = [(f"{gpu.name} · {format_bytes(gpu.memory_bytes)}", gpu.name) for gpu in gpus()]
    return gr.Dropdown(choices, value=default_gpu().name, label=_("GPU"), **more)


def _precisions(use: str, engine: str) -> list[tuple[Any, str]]:
    """Integers are of faster-whisper alone, bf16 throughout of training."""
    integers = {name: name for name in INTEGERS} if engine == FASTER_WHISPER else {}
    return choices_of(or_auto({**DTYPES, **integers} if use == TRANSCRIBE else PRECISIONS))


def wire_fields(form: dict[str, Block], more: gr.Accordion) -> None:
    """Which fields are in sight."""

    def show_fields(use: str, engine: str, precision: str) -> list[Any]:
        """Those of training or of transcribing, and the precisions that the engine has."""
        allowed = _precisions(use, engine)
        kept = precision if precision in [name for _label, name in allowed] else "auto"
        return [
            *[gr.update(visible=use == TRAIN) for _name in _TRAINING_ONLY],
            *[gr.update(visible=use == TRANSCRIBE) for _name in _TRANSCRIBING_ONLY],
            gr.update(visible=use == TRAIN or engine == "transformers"),
            offered(allowed, kept, precision),
            gr.update(visible=use == TRAIN),
        ]

    names = (*_TRAINING_ONLY, *_TRANSCRIBING_ONLY, "quantization", "precision")
    folded = [*[form[name] for name in names], more]
    choosing = [form["use"], form["engine"], form["precision"]]
    gr.on(
        [form["use"].change, form["engine"].change],  # type: ignore[attr-defined]
        show_fields,
        choosing,
        folded,
        **AT_ONCE,
    )


def mark_fields(form: dict[str, Block], *afterwards: Callable[..., Any]) -> None:
    """Marks the field whose value cannot be, `afterwards`: behind the last answer to a change.

    Whatever asks for a field's value takes its mark away, so that an answer that came later would.
    """
    check = validator(form, lambda values: question_plan(Question(**values)))
    for event in afterwards:
        event(
            lambda **_values: None,
            inputs_kwargs=form,
            trigger_mode="always_last",
            validator=check,
            **QUIET,
        )
