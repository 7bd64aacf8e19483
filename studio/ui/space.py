"""What a Space says of itself: its limits before they bite, its owner's login, the way to a copy of it."""

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.i18n import I18nData

from studio.runs.confinement import (
    LARGEST_DOWNLOAD_OF_STRANGERS,
    LONGEST_RECORDING_OF_STRANGERS,
    MOST_ROWS_OF_STRANGERS,
)
from studio.serving.uploads import UPLOADS_KEPT_SECONDS
from studio.serving.waiting import AT_ONCE, MOST_OF_A_VISITOR
from studio.settings import Settings
from studio.translation import tr
from studio.ui.shared.following import QUIET
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.visitors import can_log_in, is_owner
from studio.units import GIB, MIB


def owner_login(settings: Settings) -> gr.LoginButton | None:
    """The button with which the owner logs in, where one can; Gradio's, which brings the login with it.

    Call it before the page is begun: within one, the button gets a script that knows its English text alone.
    """
    if not can_log_in(settings):
        return None
    return gr.LoginButton(
        _("Owner: log in"),  # type: ignore[arg-type]
        link="/login/huggingface",
        link_target="_self",
        size="sm",
        elem_id="studio-owner",
        scale=0,
        min_width=180,
    )


def build_space_line(app: gr.Blocks, settings: Settings, login: gr.LoginButton | None) -> None:
    """One line under the header: what strangers may, or, where visitors train, what one may take of all."""
    with gr.Row(elem_id="studio-space", equal_height=True):
        gr.HTML(_limits(settings), elem_id="studio-limits", scale=1)
        if login is not None:
            login.render()  # type: ignore[no-untyped-call]
            app.load(_shown_login(settings), None, login, **QUIET)
        gr.DuplicateButton(_("Duplicate this Space"))  # type: ignore[arg-type]


def _limits(settings: Settings) -> I18nData:
    if not settings.is_public:
        return _(
            "A shared Space: files of up to {size:g} MB. Uploads are deleted after {kept:.0f} min; those of "
            "all visitors together may take {all:.0f} MB. {count} visitors are served at a time; a visitor "
            "may have {most} requests waiting.",
            size=settings.max_upload_mb,
            all=settings.most_upload_bytes / MIB,
            kept=UPLOADS_KEPT_SECONDS / 60,
            count=AT_ONCE,
            most=MOST_OF_A_VISITOR,
        )
    return _(
        "A shared Space: recordings of up to {minutes:.0f} min and {size:g} MB, models of up to "
        "{model:.0f} GiB, {rows} rows of a dataset. {count} visitors are served at a time, "
        "uploads are deleted after {kept:.0f} min, and training is off.",
        minutes=LONGEST_RECORDING_OF_STRANGERS / 60,
        size=settings.max_upload_mb,
        model=LARGEST_DOWNLOAD_OF_STRANGERS / GIB,
        rows=MOST_ROWS_OF_STRANGERS,
        count=AT_ONCE,
        kept=UPLOADS_KEPT_SECONDS / 60,
    )


def _shown_login(settings: Settings) -> Callable[[gr.Request], Any]:
    def show(request: gr.Request) -> Any:
        """The way out for the owner, once logged in."""
        if not is_owner(settings, request):
            return gr.skip()
        text = tr("Log out {owner}", request_locale(request), owner=settings.owner)
        return gr.update(value=text, link="/logout")

    return show
