"""How a model is served: by this studio, by vLLM and by speaches, as commands to copy."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from studio.messages import Message
from studio.publishing.export import ExportRequest, export_name
from studio.publishing.formats import form_of
from studio.publishing.formats.ctranslate2 import CTranslate2
from studio.publishing.formats.merged import Merged
from studio.registry.spec import ModelKind, ModelSource, ModelSpec

LOCAL_ADDRESS = "http://127.0.0.1:8000"
"""Where `python -m studio serve` listens unless told."""
_HUB_ID = "OWNER/{name}"
"""What the user puts their own name into."""


@dataclass(frozen=True)
class WayToServe:
    """One server, and what it takes to have it serve a model."""

    server: str
    note: Message
    """Which form it takes."""
    commands: tuple[str, ...]
    """One after the other; none if it cannot."""


def ways_to_serve(
    spec: ModelSpec,
    models: Path,
    *,
    address: str = LOCAL_ADDRESS,
    has_key: bool = False,
    is_public: bool = False,
) -> tuple[WayToServe, ...]:
    """The studio itself, vLLM and speaches.

    `models` is where exports are kept, `address` where the endpoint answers, with a key if `has_key`;
    strangers (`is_public`) are not told where anything lies.
    """
    if not spec.is_played:
        return _its_own(spec, models, is_public)
    return (
        WayToServe("Whisper Studio", _ours(spec), _our_commands(spec, address, has_key)),
        _vllm(spec, models, is_public),
        _speaches(spec, models, is_public),
    )


def _its_own(spec: ModelSpec, models: Path, is_public: bool) -> tuple[WayToServe, ...]:
    """The only server that takes a model of another program; none where this studio knows of none."""
    form = form_of(spec)
    if form.server is None:
        return ()
    server, note, command = form.server
    place = _place((spec.path or models) / form.weights, is_public)
    return (WayToServe(server, note, (command.format(place=place),)),)


def _ours(spec: ModelSpec) -> Message:
    if spec.audio_context == "short":
        return Message(
            "Takes every model as it is. The two others read windows of 30 seconds, and this model was "
            "trained on clips as long as they are: expect more errors there."
        )
    return Message("Takes every model as it is: base, adapter or export.")


def _our_commands(spec: ModelSpec, address: str, has_key: bool) -> tuple[str, ...]:
    key = ' -H "Authorization: Bearer $STUDIO_API_KEY"' if has_key else ""
    asked = f"{address}/v1/audio/transcriptions{key} -F file=@speech.wav -F {_quoted(f'model={spec.id}')}"
    serve, ask = f"python -m studio serve --model {_quoted(spec.id)}", f"curl {asked}"
    # A page that runs answers as it is: who pastes both is answered before the second one serves without it.
    return (serve, ask) if address == LOCAL_ADDRESS else (ask, serve)


def _vllm(spec: ModelSpec, models: Path, is_public: bool) -> WayToServe:
    if spec.kind is ModelKind.EXPORT:
        note = Message("Takes weights of transformers, not exports: serve the model that this was made of.")
        return WayToServe("vLLM", note, ())
    if spec.kind is ModelKind.ADAPTER:
        note = Message("Takes whole weights of transformers: the adapter is merged first.")
        merged = export_name(ExportRequest(spec.id, Merged.key), spec)
        first = f"python -m studio export {_quoted(spec.id)} --format {Merged.key}"
        return WayToServe("vLLM", note, (first, _vllm_serve(_place(models / merged, is_public), spec.id)))
    note = Message("Takes whole weights of transformers.")
    if spec.source in (ModelSource.RELEASED, ModelSource.DOWNLOADED) or spec.path is None:
        return WayToServe("vLLM", note, (f"vllm serve {_quoted(spec.id)}",))
    return WayToServe("vLLM", note, (_vllm_serve(_place(spec.path, is_public), spec.id),))


def _vllm_serve(place: str, name: str) -> str:
    return f"vllm serve {place} --served-model-name {_quoted(name)}"


def _speaches(spec: ModelSpec, models: Path, is_public: bool) -> WayToServe:
    note = Message(
        "Takes exports for faster-whisper from the Hub, whose card says library_name: ctranslate2 and "
        "pipeline_tag: automatic-speech-recognition."
    )
    export = [f"python -m studio export {_quoted(spec.id)}"]
    folder = models / export_name(ExportRequest(spec.id, CTranslate2.key), spec)
    if spec.kind is ModelKind.EXPORT and spec.path is not None:
        export, folder = [], spec.path
    repository = _HUB_ID.format(name=folder.name)
    return WayToServe(
        "speaches",
        note,
        (
            *export,
            f"python -m studio publish {_quoted(folder.name)} {repository} --public",
            "docker run -p 8000:8000 ghcr.io/speaches-ai/speaches:latest-cpu",
            f"curl -X POST http://127.0.0.1:8000/v1/models/{repository}",
        ),
    )


def _place(folder: Path, is_public: bool) -> str:
    return _quoted(folder.name if is_public else str(folder))


def _quoted(text: str) -> str:
    return shlex.quote(text)
