"""The engine of a transcription, and how it looks for the text: what few visitors change."""

from collections.abc import Mapping
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.options.choices import ENGINES, FASTER_WHISPER
from studio.options.values import whole_number
from studio.transcription.engine import USUAL_BEAMS, EngineChoice, TranscribeOptions
from studio.transcription.loaded_export import compute_types
from studio.transcription.options import BATCHED_WINDOWS_ALONE, parse_numbers, parse_tokens
from studio.translation import N_, tr
from studio.ui.shared.following import QUIET, offered
from studio.ui.shared.i18n import _, request_locale

_USUAL = TranscribeOptions()
_WHOLE_NUMBERS = ("num_beams", "max_new_tokens", "batch_size")
_BEFORE = N_("Fewer errors, one script and one style; a mistake may be carried on.")
_TOGETHER = N_("Windows decoded together; 0: one after the other. On a GPU, more is faster.")


def search_options(prefix: str = "transcribe") -> dict[str, Block]:
    """Components under the names of the options; `prefix` begins the ids of their elements."""
    form: dict[str, Block] = {}
    with gr.Accordion(_("Engine"), open=False):
        form |= engine_fields(prefix)
    with gr.Accordion(_("More options"), open=False):
        _text_fields(form, prefix)
        _search_fields(form, prefix)
        form["audio_context"] = gr.Radio(
            [(_("As trained"), "auto"), (_("30 seconds"), "full"), (_("Audio length"), "short")],
            value="auto",
            label=_("Audio context"),
            info=_(
                "Encoder input length. Models trained in short-audio mode take the audio's own "
                "length, others 30 seconds: these make errors on shorter input."
            ),
            elem_id=f"{prefix}-audio-context",
        )
        form["chinese_script"] = script_field(prefix)
    _wire(form)
    return form


def script_field(prefix: str) -> gr.Radio:
    """In which script Chinese is written."""
    return gr.Radio(
        [
            (_("One script"), "auto"),
            (_("As transcribed"), "as_heard"),
            (_("Simplified"), "simplified"),
            (_("Traditional"), "traditional"),
            (_("Traditional, Taiwan"), "taiwan"),
        ],
        value="auto",
        label=_("Chinese script"),
        info=_("A model may write both in one recording; one script: the one that most of it is written in."),
        elem_id=f"{prefix}-script",
    )


def chosen(values: Mapping[str, Any]) -> tuple[TranscribeOptions, EngineChoice]:
    """What the form says.

    Raises:
        ConfigError: for a value that cannot be used.
    """
    rest = {
        name: value for name, value in values.items() if name not in ("audio", "model", "engine", "precision")
    }
    rest["temperature"] = parse_numbers("temperature", str(rest["temperature"]))
    rest["suppress_tokens"] = parse_tokens(str(rest["suppress_tokens"] or ""))
    for name in _WHOLE_NUMBERS:
        rest[name] = whole_number(name, rest[name])
    return TranscribeOptions(**rest), EngineChoice(values["engine"], values["precision"])


def engine_fields(prefix: str) -> dict[str, Block]:
    """Engine and precision, under the names of the options; what a machine cannot do is left out."""
    form: dict[str, Block] = {}
    with gr.Row():
        form["engine"] = gr.Dropdown(
            [(_("Automatic"), "auto"), *((engine, engine) for engine in ENGINES)],
            value="auto",
            label=_("Engine"),
            min_width=140,
            elem_id=f"{prefix}-engine",
        )
        form["precision"] = gr.Dropdown(
            [(_("Automatic"), "auto")],
            value="auto",
            label=_("Precision"),
            min_width=140,
            allow_custom_value=True,  # Gradio may have forgotten which the engine has; `check_engine` knows
            elem_id=f"{prefix}-precision",
        )
    gr.Markdown(
        _("faster-whisper runs exported models: any other is exported at its first use, and kept."),
        elem_classes="subdued",
    )
    form["engine"].change(  # type: ignore[attr-defined]
        _precisions, [form["engine"], form["precision"]], form["precision"], **QUIET
    )
    return form


def _text_fields(form: dict[str, Block], prefix: str) -> None:
    form["initial_prompt"] = gr.Textbox(
        "",
        label=_("Initial prompt"),
        info=_("Shows the style, and how names are spelled."),
        max_lines=3,
    )
    form["hotwords"] = gr.Textbox(
        "", label=_("Hotwords"), info=_("Words to expect in every window: names, terms."), max_lines=3
    )
    form["condition_on_prev_tokens"] = gr.Checkbox(
        True,
        label=_("Condition on previous text"),
        info=_(_BEFORE),
        elem_id=f"{prefix}-condition",
    )
    form["vad"] = gr.Checkbox(
        True,
        label=_("Skip parts without speech"),
        info=_("Voice activity detection: on silence and noise the model may hallucinate."),
    )


def _search_fields(form: dict[str, Block], prefix: str) -> None:
    form["num_beams"] = gr.Number(
        USUAL_BEAMS,
        label=_("Beam size"),
        info=_("1 takes less than half the time of 5, with about a tenth more errors."),
    )
    form["temperature"] = gr.Textbox(
        ", ".join(f"{value:g}" for value in _USUAL.temperature),
        label=_("Temperature"),
        info=_("The first is used; the next when a text repeats itself or is unsure."),
        max_lines=1,
    )
    _judgement_fields(form)
    with gr.Row():
        form["suppress_tokens"] = gr.Textbox(
            "-1",
            label=_("Suppressed tokens"),
            info=_("Ids with commas; -1: the model's own list; none: no token."),
            max_lines=1,
            min_width=130,
        )
        form["max_new_tokens"] = gr.Number(
            0, label=_("Longest text"), info=_("Max tokens per window; 0: no limit."), min_width=130
        )
        form["batch_size"] = gr.Number(
            0,
            label=_("Batch size"),
            info=_(_TOGETHER),
            min_width=130,
            elem_id=f"{prefix}-batch",
        )


def _judgement_fields(form: dict[str, Block]) -> None:
    """When a text is taken for a loop, for a guess, for silence."""
    with gr.Row():
        form["compression_ratio_threshold"] = gr.Number(
            _USUAL.compression_ratio_threshold,
            label=_("Compression ratio threshold"),
            info=_("Above it, a text counts as repetitive."),
            min_width=130,
        )
        form["logprob_threshold"] = gr.Number(
            _USUAL.logprob_threshold,
            label=_("Log-probability threshold"),
            info=_("Below it (mean over tokens), a text counts as unsure."),
            min_width=130,
        )
        form["no_speech_threshold"] = gr.Number(
            _USUAL.no_speech_threshold,
            label=_("No-speech threshold"),
            info=_("Above it, an unsure text is dropped as silence."),
            min_width=130,
        )


def _wire(form: dict[str, Block]) -> None:
    """What an engine lacks is switched off, with the reason."""
    form["batch_size"].change(  # type: ignore[attr-defined]
        _offered, form["batch_size"], form["condition_on_prev_tokens"], **QUIET
    )


def _precisions(engine: str, precision: str, request: gr.Request) -> Any:
    """Those that the engine has on this machine."""
    locale = request_locale(request)
    named = ("auto", *ENGINES.get(engine, ()))
    usable = ("auto", *compute_types()) if engine == FASTER_WHISPER else named
    known = [name for name in named if name in usable]
    missing = [name for name in named if name not in usable]
    reason = tr("This machine cannot do {missing}.", locale, missing=", ".join(missing)) if missing else ""
    choices = [(tr("Automatic", locale) if name == "auto" else name, name) for name in known]
    return offered(choices, precision if precision in known else "auto", precision, info=reason)


def _offered(batch_size: float | None, request: gr.Request) -> Any:
    """Whether the text before may be given along; the tick stays as it is, for when it may be again."""
    is_together = (batch_size or 0) > 1
    before = BATCHED_WINDOWS_ALONE.template if is_together else _BEFORE
    return gr.update(interactive=not is_together, info=tr(before, request_locale(request)))
