"""The interface for programs as tools of the Model Context Protocol (MCP), for assistants that call them.

Gradio serves every public endpoint as a tool at `/gradio_api/mcp/`; its docstring says what it does. Here is
what Gradio leaves open: words for each argument, answers in JSON, a sentence where the package is missing.
"""

import html
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import OK
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import processing_utils

from studio.actions import fit
from studio.errors import ConfigError
from studio.methods import METHODS
from studio.options.choices import ENGINES, NORMALIZERS
from studio.options.option import explanation
from studio.options.training import FIELDS
from studio.publishing.formats import FORMATS
from studio.transcription import engine


def _choices(option: str) -> list[str]:
    return list(FIELDS[option].metadata["choices"])


def _listed(choices: Mapping[str, Sequence[str]]) -> str:
    """Each value once, whichever of the keys has it."""
    return ", ".join(dict.fromkeys(value for values in choices.values() for value in values))


ARGUMENTS = {
    "audio": "The recording: an address that everybody can reach, or data:audio/flac;base64,….",
    "base_model": "A model's id as `models` lists it, a short name such as small, a folder or a Hub id.",
    "config": "Options of `python -m studio train` by name, such as base_model, train_data and method.",
    "limit": "How many runs are listed, the newest and all at work.",
    "max_rows": "Check at most this many rows; 0: all.",
    "method": f"{', '.join(METHODS)}; where auto is the default, the data decide.",
    "max_samples": "Use at most this many clips; 0: all.",
    "models": "Models with commas between them: ids as `models` lists them, folders or Hub ids.",
    "model": "A model's id as `models` lists it, a folder or a Hub id.",
    "normalizer": f"How texts are normalized: {', '.join(NORMALIZERS)}.",
    "non_speech": "Whether to measure, too, what the models write where nobody speaks.",
    "num_beams": "Beam size; 0 in transcribing: 5.",
    "num_gpus": "GPUs that train together.",
    "per_device_train_batch_size": "Clips per step and GPU; in transcribing, windows of 30 seconds at once.",
    "precision": f"Data type of the computation: {', '.join(_choices('precision'))}; in transcribing auto, "
    f"{_listed(ENGINES)}.",
    "quantization": f"Quantization of the frozen weights: {', '.join(_choices('quantization'))}; of an "
    f"export auto, {_listed({key: form.quantizations for key, form in FORMATS.items()})}.",
    "run_id": "Id of a run, as `runs` lists it.",
    "short_audio": "on: encoder input as long as the batch's audio; auto and off count 30 seconds.",
    "max_audio_len": "Longest clip, in seconds; counts with short_audio on.",
    "test_data": "Manifest, audio folder or Hub dataset for evaluation; of check_data, empty: none.",
    "text": "The error, or the end of the log.",
    "transcribe": "Number of clips to transcribe, to find texts that do not match; 0: none.",
    "use": "What the memory is for: train or transcribe.",
    "format": "; ".join(f"{key}: {form.label}" for key, form in FORMATS.items()) + ".",
    "name": "Name of the result; empty: chosen automatically.",
}
"""Argument of an endpoint → what it is; the same word means the same everywhere. What is not here is one
of `_OPTIONS`."""
_OPTIONS = {**FIELDS, **fit.FIELDS, **engine.FIELDS}
"""Options of a run, of a question for one that fits, and of a transcription; their help explains them."""

_MOST_SHOWN = 100
_FETCH = processing_utils.async_ssrf_protected_get


def explained(name: str) -> str:
    """What an argument is; empty if nobody says."""
    f = _OPTIONS.get(name)
    if name in ARGUMENTS or f is None:
        return ARGUMENTS.get(name, "")
    choices = f" One of {', '.join(f.metadata['choices'])}." if f.metadata["choices"] else ""
    return (f.metadata["help"] if f is FIELDS.get(name) else explanation(f)) + choices


def documented(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments explained in its docstring, where Gradio looks for that."""
    said = {name: explained(name) for name in inspect.signature(function).parameters}
    lines = [f"    {name}: {words}" for name, words in said.items() if words]
    if lines:
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Args:", *lines])
    return function


def require_mcp() -> None:
    """Asks for the package before anything is started.

    Raises:
        ConfigError: if it is missing.
    """
    if find_spec("mcp") is None:
        raise ConfigError(
            'STUDIO_MCP=1 needs a package that is not installed: run pip install "{package}".',
            package="gradio[mcp]",
        )


def answer_in_json(server: Any) -> None:
    """Lets Gradio's MCP server write an answer as JSON, where it would write Python's own spelling."""
    write = server.postprocess_output_data

    def in_json(data: Any, root_url: str) -> Any:
        """The answer of a tool, each value as JSON."""
        return write([_json(value) for value in data], root_url)

    server.postprocess_output_data = in_json


def name_arguments(server: Any) -> None:
    """Has Gradio's MCP server answer a word that is no argument of a tool with those that are."""
    handlers, types = server.mcp_server.request_handlers, server.types
    answer = handlers[types.CallToolRequest]

    async def answered(request: Any) -> Any:
        """What the tool answers, or which of the words it does not know."""
        tool, given = request.params.name, request.params.arguments or {}
        known = server.get_input_schema(tool)[0]["properties"] if tool in server.tool_to_endpoint else given
        unknown = next((name for name in given if name not in known), None)
        if unknown is None:
            return await answer(request)
        problem = ConfigError(
            "{tool} has no argument {name!r}: it takes {known}.",
            tool=tool,
            name=unknown[:_MOST_SHOWN],
            known=", ".join(known) or "none",
        )
        content = types.TextContent(type="text", text=str(problem))
        return types.ServerResult(types.CallToolResult(content=[content], isError=True))

    handlers[types.CallToolRequest] = answered


def keep_files_in(folder: Path) -> None:
    """Has Gradio's MCP server keep sounds that come with a question there; it decided where when imported."""
    import gradio.mcp

    gradio.mcp.DEFAULT_TEMP_DIR = str(folder)


def answer_for_addresses(*, are_fetched: bool) -> None:
    """Has Gradio say why it took no file from an address that a program names instead. It would read whatever
    lies there whole into memory, and keep it past all limits of uploads: strangers have none fetched."""

    async def get(url: str) -> Any:
        """What lies there. Raises gr.Error: if it is not fetched, or nothing is there."""
        said = "is an address, and this studio fetches none: upload the file itself."
        if are_fetched:
            said = "cannot be fetched: give an address that everybody can reach, or the file itself."
            with suppress(Exception):  # what httpx raises, and what keeps it out of this network
                answer = await _FETCH(url)
                if answer.status_code == OK:
                    return answer
        raise gr.Error(f"{html.escape(url[:_MOST_SHOWN], quote=False)} {said}", print_exception=False)

    processing_utils.async_ssrf_protected_get = get


def log_in(server: Any, users: Mapping[str, str]) -> None:
    """Gives Gradio's MCP server a login: it asks the interface, as any other program does."""
    from gradio_client import Client

    server._client_instance = Client(
        server.local_url,
        auth=next(iter(users.items())),
        headers={"x-gradio-user": "mcp"},
        download_files=False,
        verbose=False,
        analytics_enabled=False,
        _skip_components=False,
    )


def _json(value: Any) -> Any:
    """Files stay what they are: Gradio makes links of them."""
    is_file = isinstance(value, dict) and "path" in value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) and not is_file else value
