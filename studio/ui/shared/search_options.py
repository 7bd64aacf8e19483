"""The engine of a transcription, and how it looks for the text: what few visitors change."""

from collections.abc import Mapping
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.messages import Joined
from studio.options.choices import ENGINES, FASTER_WHISPER
from studio.transcription.engine import FIELDS, USUAL_BEAMS, EngineChoice, TranscribeOptions
from studio.transcription.loaded_export import compute_types
from studio.transcription.options import BATCHED_WINDOWS_ALONE, USUAL, read_options
from studio.translation import tr
from studio.ui.shared.following import QUIET, offered
from studio.ui.shared.forms import component
from studio.ui.shared.i18n import _, request_locale

_SIDE_BY_SIDE = (
    ("compression_ratio_threshold", "logprob_threshold", "no_speech_threshold"),
    ("suppress_tokens", "max_new_tokens", "batch_size"),
)


def option_field(name: str, prefix: str, **more: Any) -> Block:
    """The component for an option of a transcription; `prefix` begins the id of its element."""
    return component(FIELDS[name], **{"value": USUAL[name], "elem_id": f"{prefix}-{name}", **more})


def search_options(prefix: str = "transcribe") -> dict[str, Block]:
    """Components under the names of the options."""
    form: dict[str, Block] = {}
    with gr.Accordion(_("Engine"), open=False):
        form |= engine_fields(prefix)
    with gr.Accordion(_("More options"), open=False):
        for name in ("initial_prompt", "hotwords"):
            form[name] = option_field(name, prefix, max_lines=3)
        for name in ("condition_on_prev_tokens", "vad"):
            form[name] = option_field(name, prefix)
        form["num_beams"] = option_field("num_beams", prefix, value=USUAL_BEAMS)
        form["temperature"] = option_field("temperature", prefix)
        for names in _SIDE_BY_SIDE:
            with gr.Row():
                form |= {name: option_field(name, prefix, min_width=130) for name in names}
        for name in ("audio_context", "chinese_script"):
            form[name] = option_field(name, prefix, choose=gr.Radio)
    # What an engine lacks is switched off, with the reason.
    form["batch_size"].change(  # type: ignore[attr-defined]
        _offered, form["batch_size"], form["condition_on_prev_tokens"], **QUIET
    )
    return form


def chosen(values: Mapping[str, Any]) -> tuple[TranscribeOptions, EngineChoice]:
    """What the form says.

    Raises:
        ConfigError: for a value that cannot be used.
    """
    return read_options(values), EngineChoice(values["engine"], values["precision"])


def engine_fields(prefix: str) -> dict[str, Block]:
    """Engine and precision, under the names of the options; what a machine cannot do is left out."""
    form: dict[str, Block] = {}
    with gr.Row():
        form["engine"] = option_field("engine", prefix, info=None, min_width=140)
        form["precision"] = option_field(
            "precision",
            prefix,
            choices=[(_("Automatic"), "auto")],
            min_width=140,
            allow_custom_value=True,  # Gradio may have forgotten which the engine has; `check_engine` knows
        )
    gr.Markdown(
        _("faster-whisper runs exported models: any other is exported at its first use, and kept."),
        elem_classes="subdued",
    )
    form["engine"].change(  # type: ignore[attr-defined]
        _precisions, [form["engine"], form["precision"]], form["precision"], **QUIET
    )
    return form


def _precisions(engine: str, precision: str, request: gr.Request) -> Any:
    """Those that the engine has on this machine."""
    locale = request_locale(request)
    named = ("auto", *ENGINES.get(engine, ()))
    usable = ("auto", *compute_types()) if engine == FASTER_WHISPER else named
    known = [name for name in named if name in usable]
    missing = [name for name in named if name not in usable]
    lacking = Joined(tuple(missing))
    reason = tr("This machine cannot do {missing}.", locale, missing=lacking) if missing else ""
    choices = [(tr("Automatic", locale) if name == "auto" else name, name) for name in known]
    return offered(choices, precision if precision in known else "auto", precision, info=reason)


def _offered(batch_size: float | None, request: gr.Request) -> Any:
    """Whether the text before may be given along; the tick stays as it is, for when it may be again."""
    is_together = (batch_size or 0) > 1
    usual = FIELDS["condition_on_prev_tokens"].metadata["help"]
    before = BATCHED_WINDOWS_ALONE.template if is_together else usual
    return gr.update(interactive=not is_together, info=tr(before, request_locale(request)))
