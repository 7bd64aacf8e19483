"""All models: a table, what is known about each, and what can be done with those made here."""

from dataclasses import dataclass

import gradio as gr
from gradio.blocks import Block

from studio.publishing.formats import exports_of
from studio.registry.spec import ModelSource
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html, join
from studio.reports.pieces import note
from studio.services import Services
from studio.settings import Settings
from studio.translation import tr
from studio.ui.models.export import build_export, export_formats
from studio.ui.models.forms import build_forms, offers_forms
from studio.ui.models.publish import build_publish, card_view, is_publishable
from studio.ui.models.section import Section
from studio.ui.models.serving import serving_commands, serving_parts
from studio.ui.shared.access import has_foreign_models, require_own_models
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import AT_ONCE, LATEST, QUIET, UNCHECKED, offered
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.picking import picking_table
from studio.ui.shared.views import model_choices, model_details, models_table
from studio.ui.shared.visitors import models_for, settings_for


@dataclass(frozen=True)
class _Parts:
    """Components that the handlers fill."""

    table: gr.HTML
    choice: gr.Dropdown
    details: gr.HTML
    change: gr.Group
    new_name: gr.Textbox
    confirm: gr.Group
    refused: gr.HTML
    """Why it was not renamed or deleted."""
    shown: gr.State
    """The model of which all this speaks."""
    serving: list[Block]
    sections: tuple[Section, ...]

    def all(self) -> list[Block]:
        """In the order in which `_show` fills them."""
        *own, serving, sections = vars(self).values()
        return [*own, *serving, *(block for section in sections for block in section.shown)]


def build_models_tab(services: Services, tab: gr.Tab) -> gr.Dropdown:
    """The tab's content; returns the field with the chosen model."""
    settings, registry = services.settings, services.registry
    gr.Markdown(
        _("Every model this studio knows. What you train appears here and in the Transcribe tab by itself."),
        elem_classes="lead",
    )
    with gr.Row():
        with gr.Column(scale=3, min_width=600):
            table = picking_table(elem_id="models-table")
        with gr.Column(scale=2, min_width=300):
            choice = gr.Dropdown([], label=_("Model"), interactive=True, elem_id="models-choice")
            details = gr.HTML(elem_id="models-details", elem_classes="panel")
            serving = serving_parts()
            sections = (
                build_export(choice, settings, services.exporter),
                build_forms(choice, services),
                build_publish(choice, settings, registry),
            )
            with gr.Group(visible=False) as change:
                new_name = gr.Textbox(label=_("New name"), max_lines=1, elem_id="models-new-name")
                with gr.Row():
                    rename = gr.Button(_("Rename"), size="sm", elem_id="models-rename")
                    ask = gr.Button(_("Delete …"), size="sm", elem_id="models-ask")
            with gr.Group(visible=False, elem_classes="confirm") as confirm:
                question = _("Delete this model from the disk? This cannot be undone.")
                gr.Markdown(question, elem_id="models-question")
                with gr.Row():
                    delete = gr.Button(_("Delete"), variant="stop", size="sm", elem_id="models-delete")
                    keep = gr.Button(_("Keep it"), size="sm")
            refused = gr.HTML(elem_id="models-refused")
    parts = _Parts(table, choice, details, change, new_name, confirm, refused, gr.State(), serving, sections)
    _wire(settings, registry, tab, parts, rename, ask, delete, keep)
    return choice


def _wire(
    settings: Settings,
    registry: ModelRegistry,
    tab: gr.Tab,
    parts: _Parts,
    rename: gr.Button,
    ask: gr.Button,
    delete: gr.Button,
    keep: gr.Button,
) -> None:
    everything = parts.all()

    def show(chosen: str | None, before: str | None, name: str, request: gr.Request) -> list[object]:
        """All there is now of the chosen model; what is being written or asked of it stays if it was shown
        `before`. `name` is in the field for a new one."""
        shown = _show(settings, registry, chosen, request, chosen)
        is_back = before is None and name and not registry.has(name)  # with a page that is loaded again
        if chosen and (chosen == before or is_back):
            for field in (parts.new_name, parts.confirm):
                shown[everything.index(field)] = gr.skip()
        return shown

    def rename_model(chosen: str, new_name: str, request: gr.Request) -> list[object]:
        """Gives the chosen model its new name."""
        require_own_models(settings_for(settings, request))
        return _show(settings, registry, registry.rename(chosen, new_name).id, request)

    def delete_model(chosen: str, request: gr.Request) -> list[object]:
        """Removes the chosen model."""
        require_own_models(settings_for(settings, request))
        registry.remove(chosen)
        return _show(settings, registry, None, request)

    told = [block for section in parts.sections for block in section.told]
    parts.choice.change(lambda: [""] * len(told), None, told, **AT_ONCE)
    private = {"api_visibility": "private", "show_progress": "hidden", **UNCHECKED}
    reading = {**private, "concurrency_limit": None}
    asked = [parts.choice, parts.shown, parts.new_name]
    # One handler for all that is shown: of two, the model of one could stand beside the name of the other's.
    gr.on([tab.select, parts.choice.change], show, asked, everything, **LATEST, **UNCHECKED)
    parts.table.pick(None, None, parts.choice, js="() => window.picked", **QUIET)
    renamed = told_in(parts.refused, rename_model, everything)
    rename.click(**renamed, inputs=[parts.choice, parts.new_name], **private)
    delete.click(**told_in(parts.refused, delete_model, everything), inputs=parts.choice, **private)
    ask.click(lambda: gr.Group(visible=True), None, parts.confirm, **reading)
    keep.click(lambda: gr.Group(visible=False), None, parts.confirm, **reading)
    for section in parts.sections:
        if section.done is not None:
            section.done.success(show, asked, everything, **QUIET, **UNCHECKED)


def _show(
    settings: Settings,
    registry: ModelRegistry,
    chosen: str | None,
    request: gr.Request,
    stands: str | None = "",
) -> list[object]:
    """The table, and the chosen model if it is still there; `stands` is what the page shows as chosen."""
    locale = request_locale(request)
    is_fixed = has_foreign_models(settings_for(settings, request))
    specs = models_for(registry, request)
    spec = next((spec for spec in specs if spec.id == chosen), None)
    made = exports_of(spec.id, specs) if spec else []
    details: Html = (
        join([model_details(spec, locale, exports=made, is_public=is_fixed), card_view(spec, locale)])
        if spec
        else note(tr("Choose a model to see what is known about it.", locale))
    )
    ours = not is_fixed and spec is not None and spec.source in (ModelSource.TRAINED, ModelSource.LOCAL)
    return [
        models_table(specs, locale),
        offered(model_choices(specs, locale, to_run=False), spec.id if spec else None, stands),
        details,
        gr.Group(visible=ours),
        spec.id if spec and ours else "",
        gr.Group(visible=False),
        "",
        spec.id if spec else None,
        *serving_commands(spec, registry.models, settings, request),
        *export_formats(spec, locale),
        gr.Accordion(visible=not is_fixed and offers_forms(spec)),
        gr.Accordion(visible=ours and is_publishable(spec)),
    ]
