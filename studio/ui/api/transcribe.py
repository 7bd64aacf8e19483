"""Transcribing for programs: `/transcribe`."""

import html
import inspect
import json
from pathlib import Path
from typing import Any, ClassVar

import gradio as gr
from gradio.blocks import Block
from gradio.data_classes import FileData

from studio.errors import AudioError, StudioError
from studio.options.values import of_kind
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.serving.work import in_own_thread, named
from studio.transcription.options import USUAL
from studio.ui.api.json_values import notes_on
from studio.ui.api.mcp import documented
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.search_options import chosen

_MOST_SHOWN = 100
_USUAL: dict[str, Any] = {"model": DEMO_ID, **USUAL}
"""Argument but the sound → the value that null stands for, whose kind any other one has."""
_FIRST = (
    *("audio", "model", "language", "task", "timestamps", "initial_prompt", "num_beams"),
    *("audio_context", "chinese_script", "engine", "precision"),
)
"""Arguments in the place that they have had from the beginning: programs may give them by place."""
_ARGUMENTS = (*_FIRST, *(name for name in USUAL if name not in (*_FIRST, "truncate_prompt")))


class _Upload(FileData):
    """A file that was uploaded: what POST /gradio_api/upload or gradio_client's handle_file gives."""

    # Of anything else Gradio would not even say that it is refused.

    model_config: ClassVar[Any] = {"title": FileData.__name__}

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> "_Upload":
        """Raises gr.Error: if it is none."""
        try:
            return super().model_validate(obj, **how)
        except ValueError as error:  # pydantic's are such
            given = json.dumps(obj, default=str)[:_MOST_SHOWN]
            raise gr.Error(
                f"{html.escape(given, quote=False)} is no uploaded file: send what POST /gradio_api/upload "
                "or gradio_client's handle_file gives.",
                print_exception=False,
            ) from error


def transcribe_endpoint(services: Services) -> None:
    """`/transcribe`. Its components check that the file is an upload and none of the server's own."""

    def transcribe(*values: Any) -> dict[str, Any]:
        """Transcribes a recording, with times; a row of `python -m studio transcribe --json`.

        `notes` has what is to be known of it, such as that a training run shares the machine.
        """
        asked = dict(zip(_ARGUMENTS, values, strict=False))  # behind them Gradio says who asks
        audio = asked.pop("audio")
        if not audio:
            raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
        given = {
            name: of_kind(type(usual), name, usual if asked[name] is None else asked[name])
            for name, usual in _USUAL.items()
            if name in asked
        }
        options, choice = chosen(given)
        path = Path(audio)
        try:
            heard = in_own_thread(
                lambda: services.engines.transcribe(given["model"], path, options, choice=choice)
            )
        except StudioError as error:
            raise named(error, path) from error
        notes = [*notes_on(services, [given["model"]], options), *(str(note) for note in heard.notes)]
        return {**heard.to_json(), "audio_path": path.name, "notes": notes}

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, kind) for name in (*_ARGUMENTS, "request")]
    transcribe.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    transcribe.__annotations__["request"] = gr.Request
    with gr.Group(visible=False):
        inputs = {name: _field(name) for name in _ARGUMENTS}
        answer_json = gr.JSON()
    gr.on(
        [],
        shows_errors(documented(transcribe)),
        inputs_kwargs=inputs,
        outputs=answer_json,
        api_name="transcribe",
        concurrency_limit=2,
    )


def _field(name: str) -> Block:
    """The component of an argument, at its usual value."""
    if name == "audio":
        audio = gr.Audio(type="filepath")
        audio.data_model = _Upload
        return audio
    usual = _USUAL[name]
    kind: Any = (
        gr.Checkbox if isinstance(usual, bool) else gr.Textbox if isinstance(usual, str) else gr.Number
    )
    field = kind(usual)
    field.preprocess = lambda given: given  # of another kind Gradio would not say that it is refused
    return field  # type: ignore[no-any-return]
