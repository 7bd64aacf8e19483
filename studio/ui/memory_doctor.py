"""This machine: the doctor's report."""

import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from studio.doctor.examine import examine
from studio.settings import Settings
from studio.ui.errors import shows_errors
from studio.ui.i18n import _, request_locale, tr
from studio.ui.memory_views import doctor_view
from studio.ui.transcript_views import download_links
from studio.ui.views import note


def build_doctor(settings: Settings, tab: gr.Tab) -> None:
    """The section's content; it looks when it is opened, and again at a press of the button."""
    gr.Markdown(
        _("GPU, driver, libraries, memory, disk, audio, hub: what works here, and what to do about the rest.")
    )
    again = gr.Button(_("Look again"), size="sm", elem_id="doctor-again")
    report = gr.HTML(elem_id="doctor-report")
    links = gr.HTML(elem_id="doctor-links")

    @shows_errors
    def look(request: gr.Request) -> Iterator[list[Any]]:
        locale = request_locale(request)
        yield [note(tr("Looking at this machine: it takes some seconds …", locale)), ""]
        found = examine(settings)
        text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
        yield [doctor_view(found, locale), download_links({"json": text}, "whisper-doctor", locale)]

    gr.on(
        [tab.select, again.click],
        look,
        None,
        [report, links],
        api_visibility="private",
        show_progress="hidden",
        concurrency_limit=2,
    )
