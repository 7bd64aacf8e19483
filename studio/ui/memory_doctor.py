"""This machine: the doctor's report."""

import json
from typing import Any

import gradio as gr

from studio.doctor.examine import examine
from studio.settings import Settings
from studio.ui.i18n import _, request_locale
from studio.ui.memory_views import doctor_view
from studio.ui.transcript_views import download_links


def build_doctor(settings: Settings, tab: gr.Tab) -> None:
    """The section's content; it looks when it is opened, and again at a press of the button."""
    gr.Markdown(
        _("GPU, driver, libraries, memory, disk, audio, hub: what works here, and what to do about the rest.")
    )
    again = gr.Button(_("Look again"), size="sm", elem_id="doctor-again")
    report = gr.HTML(elem_id="doctor-report")
    links = gr.HTML(elem_id="doctor-links")

    def look(request: gr.Request) -> list[Any]:
        locale = request_locale(request)
        found = examine(settings)
        text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
        return [doctor_view(found, locale), download_links({"json": text}, "whisper-doctor", locale)]

    gr.on(
        [tab.select, again.click],
        look,
        None,
        [report, links],
        api_visibility="private",
        show_progress="minimal",
        concurrency_limit=1,
    )
