"""What a form is that a model can be exported to."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from studio.lazy_imports import transformers_library
from studio.messages import Message
from studio.publishing.formats.model_form import ModelForm
from studio.publishing.parity import Writer
from studio.registry.spec import ModelSpec
from studio.transcription.engines.transformers import TransformersModel


class ExportFormat(ModelForm, ABC):
    """A form that is made here: who can have it, how it is written and how it is played."""

    key: str
    """The value of the option `format`."""
    ending: str
    """Of the new model's name."""
    quantizations: tuple[str, ...]
    """How its weights may be kept; asked for by nobody, they are kept as they are."""
    doing: Message
    """What is told while it is written."""

    def problem(self, spec: ModelSpec) -> Message | None:
        """Why this model cannot have it; None if it can."""
        return None

    def stored(self, dtype: str) -> str:
        """How weights are kept that the model has in `dtype`, unless told: as they are, if it can be."""
        return dtype

    @abstractmethod
    def write(self, decoder: TransformersModel, target: Path, quantization: str, source: Path) -> None:
        """Writes the weights into the folder `target`, in which the tokenizer's files are; `source` is the
        model's folder, or the adapter's.
        """

    def peak_bytes(self, played: Any) -> int | None:
        """The memory that what `reopened` gave has taken at the most; None where that is not known."""
        return None

    @abstractmethod
    def reopened(self, folder: Path) -> AbstractContextManager[Writer]:
        """The new form as it comes from the disk, to be compared with the model."""


def offered(spec: ModelSpec, formats: dict[str, ExportFormat]) -> dict[str, ExportFormat]:
    """The forms that a model can have: an export none."""
    if spec.is_export or spec.problem:
        return {}
    return {key: row for key, row in formats.items() if row.problem(spec) is None}


def generation_config(decoder: TransformersModel) -> Any:
    """What the model said, with the tokenizer's languages: a config that was made anew has lost them."""
    make = transformers_library().GenerationConfig
    said = {name: value for name, value in decoder.settings.items() if name != "_from_model_config"}
    tokens = decoder.tokens
    if tokens.languages:
        said["lang_to_id"] = {f"<|{code}|>": id_ for code, id_ in tokens.languages.items()}
        said["task_to_id"] = dict(tokens.tasks)
    said["is_multilingual"] = bool(tokens.languages)
    said["no_timestamps_token_id"] = tokens.no_timestamps
    said["decoder_start_token_id"] = tokens.start
    return make.from_dict(said)
