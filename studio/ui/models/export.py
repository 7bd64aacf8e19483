"""The Models tab's export: a model in another form, with its proof."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.publishing.export import Exporter, ExportRequest
from studio.publishing.formats import FORMATS, USUAL_FORMAT, form_of
from studio.publishing.formats.export_format import offered
from studio.registry.spec import ModelSpec
from studio.reports.markup import Html, tag
from studio.reports.pieces import note, progress_bar
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.translation import N_, said, tr
from studio.ui.models.section import Section
from studio.ui.shared.access import require_training
from studio.ui.shared.following import AT_ONCE, QUIET, UNCHECKED, wire_work
from studio.ui.shared.forms import choices_of
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.tasks import Task, Tasks, tells_steps
from studio.ui.shared.views import loss_note
from studio.ui.shared.visitors import settings_for

_UNCHANGED = N_("Unchanged")
_SAME = N_("Verified: identical output, {tokens} tokens ({clips} clips).")
_DIFFERENT = N_("Measured: {different_tokens} of {tokens} tokens differ ({clips} clips).")


def build_export(choice: Block, settings: Settings, exporter: Exporter) -> Section:
    """The form, hidden until a model is chosen that can be exported."""
    with gr.Group(visible=False) as group:
        with gr.Row():
            format_ = gr.Dropdown(
                choices_of({key: form.label for key, form in FORMATS.items()}),
                value=USUAL_FORMAT,
                label=_("Export as"),
                scale=3,
                min_width=240,  # so much its names need
                elem_id="models-export-format",
            )
            quantization = gr.Dropdown(
                [(_(_UNCHANGED), "auto"), *_weights(USUAL_FORMAT)],
                value="auto",
                label=_("Weights"),
                min_width=160,  # "Unchanged" beside its arrow
                elem_id="models-export-quantization",
            )
        with gr.Row():
            start = gr.Button(_("Export"), size="sm", elem_id="models-export")
            cancel = gr.Button(
                _("Cancel"), size="sm", elem_id="models-export-cancel", elem_classes="outlives"
            )
    status = gr.HTML(elem_id="models-export-status")
    tasks = Tasks(Line(at_once=1))

    def export(request: gr.Request, model: str, form: str, quantization: str) -> Task[Any, ModelSpec]:
        """The export that the form asks for, for who may make one."""
        require_training(settings_for(settings, request))
        return _export(exporter, ExportRequest(model, form, quantization), request_locale(request))

    def offer_weights(format_: str | None, chosen: str, request: gr.Request) -> Any:
        """How the weights may be kept in the chosen format."""
        choices = [(tr(_UNCHANGED, request_locale(request)), "auto"), *_weights(format_)]
        stays = chosen if chosen in {value for _label, value in choices} else "auto"
        return gr.update(choices=choices, value=stays)

    format_.change(offer_weights, [format_, quantization], quantization, **AT_ONCE, **UNCHECKED)
    asked = {"model": choice, "form": format_, "quantization": quantization}
    work = tasks.handler(export, [status], asked)
    exported = wire_work([start.click], cancel, tasks.stops, **work, **QUIET, **UNCHECKED)
    return Section([group, format_], [status], exported)


def _export(exporter: Exporter, asked: ExportRequest, locale: str) -> Task[Any, ModelSpec]:
    """One export; cancelled, it ends before its next step, and nothing of it is left."""
    return Task(
        work=lambda report, should_stop: exporter.export(asked, tells_steps(report, should_stop)),
        begun=progress_bar(None, tr("Reading {model} …", locale, model=asked.model)),
        finish=lambda made, _was_stopped: [proof(made, locale)],
        undone=N_("Cancelled: nothing was exported."),
        outlives=True,
    )


def export_formats(spec: ModelSpec | None, locale: str) -> list[Any]:
    """Updates of the form and of the formats in it: those that the chosen model can have."""
    forms = offered(spec, FORMATS) if spec else {}
    choices = [(tr(form.label, locale), key) for key, form in forms.items()]
    return [gr.Group(visible=bool(forms)), gr.Dropdown(choices=choices, value=next(iter(forms), None))]


def _weights(format_: str | None) -> list[tuple[str, str]]:
    """How the weights of a format may be kept; None where the chosen model can have no other form."""
    return [(name, name) for name in FORMATS[format_].quantizations] if format_ else []


def proof(spec: ModelSpec, locale: str) -> Html:
    """How the new form compares with the model."""
    lines: list[Html | None] = [
        loss_note(spec.card.get("capabilities"), locale),
        note(tr("Exported as {model}.", locale, model=spec.id), "good"),
    ]
    compared = spec.card.get("parity") or ()  # each step on the way, and last the model with what was made
    for row in compared[-1:]:
        text = tr(_SAME if row["equal"] else _DIFFERENT, locale, **row)
        lines.append(tag("p", text, class_="subdued"))
    if how := form_of(spec).proof_note:
        lines.append(tag("p", said(how, locale), class_="subdued"))
    return tag("div", lines)
