"""The Models tab's way onto the Hugging Face Hub: what would be sent, and sending it."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.publishing.card import model_card
from studio.publishing.publish import Publication, Publisher, PublishRequest, prepare
from studio.registry.spec import ModelSource, ModelSpec
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html, join, table, tag
from studio.reports.pieces import folded, progress_bar
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.translation import N_, tr
from studio.ui.models.section import Section
from studio.ui.shared.access import require_own_models
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET, UNCHECKED, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.tasks import Task, Tasks, tells_steps
from studio.ui.shared.visitors import settings_for
from studio.units import format_bytes

_PRIVATE, _PUBLIC = N_("{name}, private"), N_("{name}, public")


def build_publish(choice: Block, settings: Settings, registry: ModelRegistry) -> Section:
    """The form, hidden until a model is chosen that can be published. At one button, what would be sent is
    shown; at the other it is shown, too, and sent.
    """
    with gr.Accordion(_("Publish on the Hugging Face Hub"), open=False, visible=False) as section:
        repo_id = gr.Textbox(
            label=_("Name on the Hub"), placeholder="owner/name", max_lines=1, elem_id="models-publish-name"
        )
        token = gr.Textbox(
            label=_("Token"),
            info=_("One of yours that may write. It is used once and kept nowhere."),
            type="password",
            max_lines=1,
            html_attributes=gr.InputHTMLAttributes(autocomplete="off"),
            elem_id="models-publish-token",
        )
        license_ = gr.Textbox(
            label=_("License"),
            placeholder="apache-2.0",
            info=_("Empty: that of the base, where it is known."),
            max_lines=1,
            elem_id="models-publish-license",
        )
        public = gr.Checkbox(False, label=_("Everybody may see and load it"), elem_id="models-publish-public")
        replace = gr.Checkbox(
            False, label=_("Replace what is there under that name"), elem_id="models-publish-replace"
        )
        space = gr.Checkbox(
            False,
            label=_("As a Space: a page where others try it"),
            elem_id="models-publish-space",
        )
        with gr.Row():
            show_first = gr.Button(_("Show what is sent"), size="sm", elem_id="models-publish-show")
            start = gr.Button(_("Publish"), size="sm", elem_id="models-publish")
            cancel = gr.Button(
                _("Cancel"), size="sm", elem_id="models-publish-cancel", elem_classes="outlives"
            )
        status = gr.HTML(elem_id="models-publish-status")
        # What would be sent, or is: apart from the status, so that it stays while that changes.
        sent = gr.HTML(elem_id="models-publish-sent")
    tasks = Tasks(Line(at_once=1))
    form = {
        "model": choice,
        "repo_id": repo_id,
        "public": public,
        "replace": replace,
        "license": license_,
        "space": space,
    }

    def prepared(request: gr.Request, **asked: Any) -> Publication:
        """What would be sent of the form's model, if who asks may send it."""
        require_own_models(settings_for(settings, request))
        wish = PublishRequest(
            asked["model"] or "",
            asked["repo_id"] or "",
            bool(asked["public"]),
            bool(asked["replace"]),
            asked["license"] or "",
            bool(asked["space"]),
        )
        return prepare(registry, wish)

    def show(request: gr.Request, **asked: Any) -> list[Any]:
        """What would be sent."""
        return ["", publication_view(prepared(request, **asked), request_locale(request))]

    def publish(request: gr.Request, token: str, **asked: Any) -> Task[Any, str]:
        """The sending of it."""
        return _publish(prepared(request, **asked), token or "", request_locale(request))

    told = [status, sent]
    show_first.click(**told_in(status, show, told, form), inputs_kwargs=form, **QUIET, **UNCHECKED)
    work = tasks.handler(publish, [*told, token], {**form, "token": token})
    wire_work([start.click], cancel, tasks.stops, **work, **QUIET, **UNCHECKED)
    return Section([section], told)


def _publish(publication: Publication, token: str, locale: str) -> Task[Any, str]:
    """Cancelled, it ends at once, and nothing of it is to be seen on the Hub."""

    def finish(address: str, _was_stopped: bool) -> list[Any]:
        """Where it is published; the token has served."""
        link = tag("a", address, href=address, target="_blank", rel="noopener")
        return [
            tag("div", tr("Published:", locale), " ", link, class_="note note-good", role="status"),
            gr.skip(),
            "",
        ]

    name = publication.request.repo_id
    return Task(
        work=lambda report, should_stop: Publisher().send(
            publication, token, tells_steps(report, should_stop)
        ),
        begun=progress_bar(None, tr("Asking the Hub for {name} …", locale, name=name)),
        finish=finish,
        undone=N_("Cancelled: nothing was published."),
        others=2,
        filled=[publication_view(publication, locale)],
        outlives=True,
    )


def publication_view(publication: Publication, locale: str) -> Html:
    """Every file with its size, and the card as it is sent."""
    request = publication.request
    rows = [[file.name, format_bytes(file.size_bytes)] for file in publication.files]
    rows.append([tr("Total", locale), format_bytes(publication.size_bytes)])
    title = tr(_PUBLIC if request.is_public else _PRIVATE, locale, name=request.repo_id)
    files = table([tr("File", locale), tr("Size", locale)], rows, numeric=[1], caption=title)
    return join([files, _as_text(publication.card)])


def card_view(spec: ModelSpec, locale: str) -> Html | None:
    """The card of a model that was made here, folded away."""
    if not is_publishable(spec):
        return None
    return folded(tr("Model card (README.md)", locale), _as_text(model_card(spec)))


def _as_text(card: str) -> Html:
    return tag("pre", card, class_="model-card", tabindex="0")


def is_publishable(spec: ModelSpec | None) -> bool:
    """Whether a model was made here: the page says of it what else is in the way."""
    ours = (ModelSource.TRAINED, ModelSource.LOCAL)
    return spec is not None and spec.source in ours and not spec.problem
