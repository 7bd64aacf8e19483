"""Transcribing on ZeroGPU: a Space whose process has no GPU, but is lent one for some seconds at a time.

The package `spaces` of Hugging Face then carries a function out in a process that it forks from this one,
where nothing may have touched CUDA before. So this process computes on its processor, and the other loads the
model anew. What goes there and comes back is pickled: progress is not told, and Cancel waits.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from studio.dataset.audio import audio_duration
from studio.errors import AudioError, StudioError
from studio.services import Services
from studio.settings import Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache

_LOADING_SECONDS = 30
_SHARE_OF_CLIP = 0.1
"""Large models in whole windows take less of a recording's length on such a GPU."""


def open_services(settings: Settings) -> Services:
    """The services of a studio; on ZeroGPU its recordings are transcribed on a GPU that is lent.

    Call it before anything imports torch: `spaces` changes it.

    Raises:
        StorageError: if the studio's folder cannot be written.
    """
    if not settings.zero_gpu or find_spec("spaces") is None:
        return Services.open(settings)
    spaces = import_module("spaces")

    there = cache(lambda: Services.open(settings))
    """Of the process that is forked: the locks of this one may be held while it is."""

    def hear(model: str, path: Path, options: TranscribeOptions, choice: EngineChoice | None) -> Any:
        """The transcript, or the error that says why there is none."""
        try:
            return there().engines.transcribe(model, path, options, choice=choice)
        except StudioError as error:  # all others come back as Gradio's own
            return error

    services = Services.open(settings, device="cpu")
    lent = spaces.GPU(duration=lambda _model, path, *_rest: gpu_seconds(path))(hear)
    return replace(services, engines=_Lent(services.engines, lent))


def gpu_seconds(path: Path) -> int:
    """How long a GPU is asked for to transcribe a recording: whoever asks for less is served sooner."""
    try:
        return math.ceil(_LOADING_SECONDS + _SHARE_OF_CLIP * audio_duration(path))
    except AudioError:  # it is refused there
        return _LOADING_SECONDS


class _Lent(ModelCache):
    """The models of this process, but whole recordings are heard on the GPU that is lent."""

    def __init__(self, own: ModelCache, hear: Callable[..., Transcript | StudioError]) -> None:
        vars(self).update(vars(own))
        self._hear = hear

    def transcribe(
        self,
        model_id: str,
        audio_path: Path,
        options: TranscribeOptions,
        *_progress: Any,
        choice: EngineChoice | None = None,
        **_steps: Any,
    ) -> Transcript:
        """Transcribes there; nobody is told how far it is."""
        heard = self._hear(model_id, audio_path, options, choice)
        if isinstance(heard, StudioError):
            raise heard
        return heard
