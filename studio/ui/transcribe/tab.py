"""Sound in, text out: with any model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from studio.registry.store import ModelRegistry
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.transcription.model_cache import ModelCache
from studio.ui.shared.following import Held
from studio.ui.shared.i18n import _
from studio.ui.transcribe.compare import build_compare
from studio.ui.transcribe.form import ModelChoice, model_choice
from studio.ui.transcribe.live import build_live
from studio.ui.transcribe.many import build_many
from studio.ui.transcribe.recording import RecordingSection, build_recording
from studio.ui.transcribe.results import held

RECORDING = "recording"
"""The section that opens first."""


@dataclass(frozen=True)
class TranscribeTab:
    """What the page wires to its other parts."""

    sections: gr.Tabs
    model: ModelChoice
    recording: RecordingSection
    held: tuple[Held, ...]
    """What the server holds of each section."""

    def wire_again(self, event: Callable[..., Any]) -> None:
        """After `event`, what the visitor had transcribed is shown once more."""
        for section in self.held:
            section.wire_again(event)


def build_playground_tab(
    settings: Settings, registry: ModelRegistry, engines: ModelCache, line: Line, tab: gr.Tab
) -> TranscribeTab:
    """The tab's content, whose visitors wait in `line`; returns what other parts of the page fill."""
    gr.Markdown(_("Upload a recording or record one, choose a model, transcribe."), elem_classes="lead")
    model = model_choice(registry, tab)
    with gr.Tabs(elem_id="transcribe-sections") as sections:
        with gr.Tab(_("A recording"), id=RECORDING):
            recording = build_recording(registry, engines, line, model.field, tab)
        with gr.Tab(_("Many files"), id="many") as section:
            many = build_many(settings, registry, engines, line, model.field, section)
        with gr.Tab(_("Live"), id="live") as section:
            live = build_live(engines, line, model.field, section)
        with gr.Tab(_("Side by side"), id="compare") as section:
            compare = build_compare(registry, engines, line, section)
    heard = held(recording.layout, recording.results)
    return TranscribeTab(sections, model, recording, (heard, many, live, compare))
