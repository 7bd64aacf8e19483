"""Transcribing for programs: `/transcribe`."""

import html
import inspect
import json
from collections.abc import Sequence
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
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.ui.api.json_values import notes_on
from studio.ui.api.mcp import documented
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.search_options import chosen

_MOST_SHOWN = 100
_OPTIONS = TranscribeOptions()
_USUAL: dict[str, str | float] = {
    "model": DEMO_ID,
    **vars(_OPTIONS),
    "temperature": ", ".join(f"{value:g}" for value in _OPTIONS.temperature),
    "suppress_tokens": "-1",
    **vars(EngineChoice()),
}
"""Argument but the sound → the value that null stands for, whose kind any other one has."""


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

    def transcribe(
        audio: str | None,
        model: str,
        language: str,
        task: str,
        timestamps: str,
        initial_prompt: str,
        num_beams: float,
        audio_context: str,
        chinese_script: str,
        engine: str,
        precision: str,
        temperature: str,
        hotwords: str,
        condition_on_prev_tokens: bool,
        no_speech_threshold: float,
        compression_ratio_threshold: float,
        logprob_threshold: float,
        suppress_tokens: str,
        max_new_tokens: float,
        vad: bool,
        batch_size: float,
        request: gr.Request,
    ) -> dict[str, Any]:
        """Transcribes a recording, with times; a row of `python -m studio transcribe --json`.

        `notes` has what is to be known of it, such as that a training run shares the machine.
        """
        asked = locals()
        if not audio:
            raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
        given = {
            name: of_kind(type(usual), name, usual if asked[name] is None else asked[name])
            for name, usual in _USUAL.items()
            if name in inputs
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

    with gr.Group(visible=False):
        inputs = _inputs([name for name in inspect.signature(transcribe).parameters if name != "request"])
        answer_json = gr.JSON()
    gr.on(
        [],
        shows_errors(documented(transcribe)),
        inputs_kwargs=inputs,
        outputs=answer_json,
        api_name="transcribe",
        concurrency_limit=2,
    )


def _inputs(names: Sequence[str]) -> dict[str, Block]:
    """Components under the names of the arguments; what is an option is at its usual value."""
    audio = gr.Audio(type="filepath")
    audio.data_model = _Upload
    return {name: audio if name == "audio" else _field(_USUAL[name]) for name in names}


def _field(value: str | float) -> Block:
    kind: Any = (
        gr.Checkbox if isinstance(value, bool) else gr.Textbox if isinstance(value, str) else gr.Number
    )
    field = kind(value)
    field.preprocess = lambda given: given  # of another kind Gradio would not say that it is refused
    return field  # type: ignore[no-any-return]
