"""Sound in, text out: with any model."""

import gradio as gr

from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.transcription.model_cache import ModelCache
from studio.ui.shared.i18n import _
from studio.ui.shared.waiting import Line
from studio.ui.transcribe.compare import build_compare
from studio.ui.transcribe.live import build_live
from studio.ui.transcribe.many import build_many
from studio.ui.transcribe.recording import build_recording

AT_ONCE = 2
"""Visitors for whom a model works at the same time; the others wait in line."""


def build_playground_tab(
    settings: Settings, registry: ModelRegistry, engines: ModelCache, tab: gr.Tab
) -> None:
    """The tab's content."""
    gr.Markdown(
        _("Upload a recording or speak, choose a model, and read what it heard."), elem_classes="lead"
    )
    line = Line(AT_ONCE)
    with gr.Tabs(elem_id="transcribe-sections"):
        with gr.Tab(_("A recording"), id="recording"):
            build_recording(registry, engines, line, tab)
        with gr.Tab(_("Many files"), id="many") as section:
            build_many(settings, registry, engines, line, section)
        with gr.Tab(_("Live"), id="live") as section:
            build_live(registry, engines, section)
        with gr.Tab(_("Side by side"), id="compare") as section:
            build_compare(registry, engines, line, section)
