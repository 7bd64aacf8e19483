"""The boxes of "Serve this model" fit every kind of model."""

import gradio as gr
import pytest
from starlette.requests import Request

from studio.registry.spec import ModelKind, ModelSource, ModelSpec
from studio.settings import Settings
from studio.ui.models.serving import serving_commands, serving_parts


@pytest.mark.parametrize("kind", ModelKind)
def test_each_box_has_the_commands_of_its_server_or_is_hidden(settings: Settings, kind: ModelKind) -> None:
    asked = gr.Request(Request({"type": "http", "headers": [(b"host", b"studio.lab:7860")]}))
    spec = ModelSpec(
        id="mine", kind=kind, source=ModelSource.LOCAL, title="Mine", path=settings.models / "mine"
    )
    frame, *boxes = serving_commands(spec, settings.models, settings, asked)
    with gr.Blocks():
        assert len(boxes) == len(serving_parts()) - 1
    assert frame["visible"] is True
    shown = [box for box in boxes if box["visible"]]
    servers = ["whisper.cpp"] if kind is ModelKind.GGML else ["Whisper Studio", "vLLM", "speaches"]
    assert [box["label"] for box in shown] == servers
    assert ("studio.lab:7860" in shown[0]["value"]) is (kind is not ModelKind.GGML)
