"""Values of the studio as JSON has them, for the interface for programs."""

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from studio.evaluation.reading_short import cost_of
from studio.messages import Message
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelSpec
from studio.runs.status import RunStatus
from studio.services import Services
from studio.transcription.engine import TranscribeOptions

SCHEMA_VERSION = 1


def plain(value: Any) -> Any:
    """Dataclasses, enums, paths and tuples as JSON has them."""
    if isinstance(value, TrainingConfig):
        return config_to_dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Message):
        return str(value)
    return str(value) if isinstance(value, Path) else value


def run_row(status: RunStatus) -> dict[str, Any]:
    """A run and what can be done with it."""
    row = {**plain(status), "error": str(status.error or "")}
    return {**row, "can_stop": status.can_stop, "can_resume": status.can_resume}


def model_row(spec: ModelSpec) -> dict[str, Any]:
    """A row of the registry; its `path` as `folder`, since Gradio's clients fetch whatever has a `path`."""
    row: dict[str, Any] = {**plain(spec), "problem": str(spec.problem or "")}
    return {("folder" if name == "path" else name): value for name, value in row.items()}


def notes_on(services: Services, models: Sequence[str], options: TranscribeOptions) -> list[str]:
    """What whoever transcribes with `models` now is to know, as the page and the command line say it: that a
    run is at work on the machine, and that a model is read otherwise than it was trained.

    Raises:
        ModelNotFoundError: if there is no such model.
    """
    notice = services.engines.notice()
    cautions = [cost_of(services.registry.get(model).card, options.audio_context) for model in models]
    return [str(sentence) for sentence in (notice, *cautions) if sentence is not None]
