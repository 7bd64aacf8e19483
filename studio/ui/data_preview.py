"""A look at the training data before a run: first rows, rows that cannot be used, and what a check finds."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.manifest import read_manifest
from studio.settings import Settings
from studio.ui.access import require_public_data
from studio.ui.data_views import manifest_preview
from studio.ui.errors import shows_errors
from studio.ui.i18n import _, request_locale
from studio.ui.markup import Html


def build_data_preview(settings: Settings, source: Block) -> None:
    """A button under the data's name, and what it shows."""
    button = gr.Button(_("Preview and check the data"), size="sm", elem_id="data-check")
    shown = gr.HTML(elem_id="data-preview")

    @shows_errors
    def preview(name: str, request: gr.Request) -> Html:
        require_public_data(settings, name)
        return manifest_preview(read_manifest(name, cache_dir=settings.cache), request_locale(request))

    quiet: dict[str, Any] = {"api_visibility": "private", "concurrency_limit": 2}
    button.click(preview, source, shown, **quiet)
    # In the browser, at once: an answer of the server might come after the preview and take it away.
    source.change(None, None, shown, js="() => ''", api_visibility="private")  # type: ignore[attr-defined]
