"""The Models tab's way out: the commands that serve the chosen model, here and elsewhere."""

from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.registry.spec import ModelSpec
from studio.serving.commands import LOCAL_ADDRESS, ways_to_serve
from studio.settings import Settings
from studio.translation import said
from studio.ui.shared.following import copyable
from studio.ui.shared.i18n import _, request_locale

_SERVERS = {"Whisper Studio": ("own", 4), "vLLM": ("vllm", 3), "speaches": ("speaches", 7)}
"""Name → id of its box, and its lines: one in a frame that is closed does not grow."""


def serving_parts() -> list[Block]:
    """A frame, hidden until a model is chosen that can be served, and in it a box for each server."""
    with gr.Accordion(_("Serve this model"), open=False, visible=False) as frame:
        boxes = [copyable(server, f"models-serve-{key}", lines) for server, (key, lines) in _SERVERS.items()]
    return [frame, *boxes]


def serving_commands(
    spec: ModelSpec | None, models: Path, settings: Settings, request: gr.Request
) -> list[Any]:
    """Updates of the frame and its boxes; the page's own endpoint is asked, where it answers."""
    if spec is None or spec.problem:
        return [gr.update(visible=False), *[gr.skip()] * len(_SERVERS)]
    ways = ways_to_serve(
        spec,
        models,
        address=_address(request) if settings.has_endpoint else LOCAL_ADDRESS,
        has_key=bool(settings.api_key),
        is_public=settings.is_public,
    )
    locale = request_locale(request)
    boxes = [
        gr.update(label=way.server, value="\n".join(way.commands), info=said(way.note, locale), visible=True)
        for way in ways
    ]
    unused = [gr.update(visible=False)] * (len(_SERVERS) - len(ways))  # of what another program plays
    return [gr.update(visible=bool(ways)), *boxes, *unused]


def _address(request: gr.Request) -> str:
    """Where the visitor's browser found this page."""
    scheme = request.headers.get("x-forwarded-proto", "http").split(",")[0].strip()
    return f"{scheme}://{request.headers.get('host', '')}"
