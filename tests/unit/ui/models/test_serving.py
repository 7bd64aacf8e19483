"""The boxes with commands: as many as there are are filled, whatever plays the model."""

from pathlib import Path

import gradio as gr
import pytest
from starlette.requests import Request

from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.settings import Settings
from studio.ui.models.serving import serving_commands


@pytest.mark.parametrize(
    ("form", "shown"),
    [("ggml", ["whisper.cpp"]), ("unheard-of", []), ("", ["Whisper Studio", "vLLM", "speaches"])],
)
def test_each_box_is_filled_or_hidden(settings: Settings, form: str, shown: list[str]) -> None:
    kind = ModelKind.FOREIGN if form else ModelKind.BASE
    spec = ModelSpec("mine", kind, ModelSource.TRAINED, "Mine", path=Path("/mine"), card={"format": form})
    asked = gr.Request(Request({"type": "http", "headers": [(b"host", b"studio.lab:7860")]}))
    frame, *boxes = serving_commands(spec, Path("/models"), settings, asked)
    assert frame["visible"] is bool(shown) and len(boxes) == 3
    used = [box for box in boxes if box["visible"]]
    assert [box["label"] for box in used] == shown
    assert any("studio.lab:7860" in box["value"] for box in used) is (not form), "the page's own endpoint"
