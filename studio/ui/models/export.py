"""The Models tab's export: a model for faster-whisper, or an adapter merged into its base, with its proof."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.registry.spec import ModelKind, ModelSpec
from studio.sentences import Sentence
from studio.settings import Settings
from studio.transcription.conversion import QUANTIZATIONS
from studio.transcription.export import ExportRequest
from studio.transcription.model_cache import ModelCache
from studio.ui.shared.access import require_training
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.following import QUIET, UNCHECKED
from studio.ui.shared.i18n import N_, _, request_locale, tr
from studio.ui.shared.markup import Html, tag
from studio.ui.shared.streaming import Worked
from studio.ui.shared.views import loss_note, note, progress_bar

_SAME = N_("Proof: both write the same {tokens} tokens ({clips} clips).")
_DIFFERENT = N_("Measured: {different_tokens} of {tokens} tokens differ ({clips} clips).")


@dataclass(frozen=True)
class _Step:
    doing: Sentence
    share: float


@dataclass(frozen=True)
class ExportParts:
    """Components of the export."""

    group: gr.Group
    format: gr.Dropdown
    quantization: gr.Dropdown
    start: gr.Button
    status: gr.HTML


def export_parts() -> ExportParts:
    """The form, hidden until a model is chosen that can be exported."""
    with gr.Group(visible=False) as group:
        with gr.Row():
            format_ = gr.Dropdown(
                [
                    (_("For faster-whisper (CTranslate2)"), "ctranslate2"),
                    (_("Merged into its base"), "merged"),
                ],
                value="ctranslate2",
                label=_("Export as"),
                min_width=150,
                elem_id="models-export-format",
            )
            quantization = gr.Dropdown(
                [(_("As they are"), "auto"), *((name, name) for name in QUANTIZATIONS["ctranslate2"])],
                value="auto",
                label=_("Weights"),
                min_width=120,
                elem_id="models-export-quantization",
            )
        start = gr.Button(_("Export"), size="sm", elem_id="models-export")
    status = gr.HTML(elem_id="models-export-status")
    return ExportParts(group, format_, quantization, start, status)


def wire_export(
    parts: ExportParts, choice: Block, settings: Settings, engines: ModelCache, show: Any
) -> None:
    """Export starts at the button; `show` is the handler that then shows the models there are, and its
    outputs. The chosen model stays so."""

    @shows_errors
    def make_export(request: gr.Request, model: str, format_: str, quantization: str) -> Iterator[Html]:
        """Tells how far it is, at the end the proof."""
        require_training(settings)
        locale = request_locale(request)
        asked = ExportRequest(model, format_, quantization)
        work: Worked[_Step, ModelSpec] = Worked(
            lambda report: engines.exporter.export(asked, lambda doing, share: report(_Step(doing, share)))
        )
        yield progress_bar(0.0, tr("Reading {model} …", locale, model=model))
        for step in work:
            yield progress_bar(step.share, tr(step.doing.template, locale, **step.doing.values))
        yield proof(work.result, locale)

    handler, outputs = show
    parts.start.click(
        make_export,
        [choice, parts.format, parts.quantization],
        parts.status,
        **{**QUIET, **UNCHECKED, "concurrency_limit": 1},
    ).success(handler, choice, outputs, **QUIET, **UNCHECKED)


def can_export(spec: ModelSpec | None) -> bool:
    """Whether the model has another form."""
    return spec is not None and spec.kind is not ModelKind.EXPORT and not spec.problem


def export_formats(spec: ModelSpec | None, locale: str) -> Any:
    """Formats of the chosen model: only an adapter can be merged."""
    choices = [(tr("For faster-whisper (CTranslate2)", locale), "ctranslate2")]
    if spec is not None and spec.kind is ModelKind.ADAPTER:
        choices.append((tr("Merged into its base", locale), "merged"))
    return gr.Dropdown(choices=choices, value="ctranslate2")


def proof(spec: ModelSpec, locale: str) -> Html:
    """How the new form compares with the model."""
    lines: list[Html | None] = [
        loss_note(spec.card.get("capabilities"), locale),
        note(tr("{model} is there.", locale, model=spec.id), "good"),
    ]
    for row in spec.card.get("parity") or ():
        text = tr(_SAME if row["equal"] else _DIFFERENT, locale, **row)
        lines.append(tag("p", text, class_="subdued"))
    return tag("div", lines)
