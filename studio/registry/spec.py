"""What a model is, as every tab and command sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from studio.errors import ModelBrokenError
from studio.messages import Message
from studio.registry.languages import LANGUAGES
from studio.whisper.constants import TEXT_POSITIONS

CARD_FILE = "model.json"
"""The studio's own card beside the ecosystem's files in a model folder."""
CARD_VERSION = 1


class ModelKind(StrEnum):
    """What the folder holds."""

    BASE = "base"
    ADAPTER = "adapter"
    MERGED = "merged"
    EXPORT = "export"
    """Of CTranslate2, which faster-whisper plays."""
    FOREIGN = "foreign"
    """An export that another program plays, and nothing of the studio does."""


class ModelSource(StrEnum):
    """Where it came from."""

    DEMO = "demo"
    RELEASED = "released"
    """Known from the catalogue, not on this disk."""
    DOWNLOADED = "downloaded"
    """In the Hugging Face cache."""
    TRAINED = "trained"
    LOCAL = "local"


@dataclass(frozen=True)
class ModelDimensions:
    """The shape of a Whisper, under the names of its `config.json` on the Hub."""

    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    vocab_size: int
    num_mel_bins: int = 80
    max_source_positions: int = 1500
    max_target_positions: int = TEXT_POSITIONS

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ModelDimensions":
        """Dimensions from the content of a `config.json`.

        Raises:
            ModelBrokenError: if a name is missing or its value is not a positive whole number.
        """
        values = {f.name: config.get(f.name, f.default) for f in fields(cls)}
        for name, value in values.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelBrokenError(
                    "config.json has {name}={value!r}, where a Whisper has a positive whole number.",
                    name=name,
                    value=None if not isinstance(value, (int, str, float)) else value,
                )
        return cls(**values)


@dataclass(frozen=True)
class ModelSpec:
    """One row of the registry."""

    id: str
    """Unique in this studio: `demo`, a Hub id, the folder's name for a trained model, or a path."""
    kind: ModelKind
    source: ModelSource
    title: str
    """For people."""
    dimensions: ModelDimensions | None = None
    """None only if `problem` says why or nothing is known before a download. An adapter has its base's."""
    path: Path | None = None
    """The model's folder on this disk; None if it would have to be downloaded."""
    base_model: str | None = None
    """For an adapter: the registry id or Hub id of its base."""
    is_multilingual: bool = True
    size_bytes: int = 0
    """Of the files on this disk."""
    created: str = ""
    """ISO 8601, in UTC; empty if unknown."""
    problem: Message | None = None
    """What is wrong with the folder, as a sentence; empty if nothing is."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """`model.json`: configuration, data, metrics, how it was made."""

    @property
    def audio_context(self) -> str:
        """`short` if its encoder was trained to see the audio's own length, else `full`: 30 seconds."""
        return "short" if self.card.get("audio_context") == "short" else "full"

    @property
    def clip_seconds(self) -> tuple[float, float] | None:
        """Mean and greatest length of the clips that a model with `audio_context` short was trained on.

        None for other models, and where its card does not say.
        """
        row = self.card.get("clip_seconds")
        if self.audio_context != "short" or not isinstance(row, Mapping):
            return None
        mean, longest = row.get("mean"), row.get("longest")
        if not all(isinstance(length, int | float) and length > 0 for length in (mean, longest)):
            return None
        return float(mean), float(longest)  # type: ignore[arg-type]

    @property
    def short_seconds(self) -> float | None:
        """How long a sound may be that a model with `audio_context` short reads as long as it is; None: any,
        as models of earlier versions do, whose long recordings are cut into clips.
        """
        lengths = self.clip_seconds
        return lengths[1] if lengths and self.card.get("long_recordings") == "full" else None

    @property
    def form(self) -> str:
        """What its card calls the form that it was exported to; empty if it was to none."""
        said = self.card.get("format")
        return said if isinstance(said, str) else ""

    @property
    def languages(self) -> list[str]:
        """Codes of those that it was tuned to, by its card."""
        said = self.card.get("languages")
        return [str(code) for code in said if str(code) in LANGUAGES] if isinstance(said, list) else []

    @property
    def is_played(self) -> bool:
        """Whether an engine of the studio plays it."""
        return self.kind is not ModelKind.FOREIGN

    @property
    def is_export(self) -> bool:
        """Whether it was made for a program that computes it in its own way."""
        return self.kind in (ModelKind.EXPORT, ModelKind.FOREIGN)

    @property
    def is_local(self) -> bool:
        """Whether it can be loaded without a download."""
        return self.path is not None and not self.problem


def require_whole(spec: ModelSpec) -> None:
    """Refuses a model whose files cannot be used.

    Raises:
        ModelBrokenError: with what is wrong.
    """
    if spec.problem:
        raise ModelBrokenError("{model} cannot be used: {problem}", model=spec.id, problem=spec.problem)
