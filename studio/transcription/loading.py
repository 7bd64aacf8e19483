"""Which engine plays a model, and how its files come into memory."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from studio.errors import ConfigError
from studio.registry.spec import ModelKind, ModelSpec
from studio.transcription.engine import FASTER_WHISPER, TRANSFORMERS, EngineChoice
from studio.transcription.options import check_engine

if TYPE_CHECKING:
    from studio.transcription.loaded_base import LoadedBase
    from studio.transcription.loaded_export import LoadedExport

Load = Callable[[Path, str, str, str], "LoadedBase | LoadedExport"]
"""Folder, engine, precision and device → the model in memory."""


def engine_of(spec: ModelSpec, choice: EngineChoice) -> str:
    """The engine that plays a model: the one asked for, else the one that its files are for.

    Raises:
        ConfigError: if the engine asked for cannot, or has no such precision.
    """
    if not spec.is_played:
        raise ConfigError(
            "{model} is for another program ({form}), and the studio does not run it: choose the model it "
            "was made from.",
            model=spec.id,
            form=spec.form,
        )
    is_export = spec.kind is ModelKind.EXPORT
    check_engine(choice)
    if choice.engine == TRANSFORMERS and is_export:
        raise ConfigError(
            "{model} is an export, which only faster-whisper runs: choose the engine "
            "faster-whisper, or the model it was made from.",
            model=spec.id,
        )
    kind = (FASTER_WHISPER if is_export else TRANSFORMERS) if choice.engine == "auto" else choice.engine
    check_engine(EngineChoice(kind, choice.precision))
    return kind


def loader(threads: int) -> Load:
    """What loads a model with so many threads of a CPU; 0: the libraries decide."""

    def load(folder: Path, engine: str, precision: str, device: str) -> "LoadedBase | LoadedExport":
        """Raises what `load_export` and `load_base` raise."""
        if engine == FASTER_WHISPER:
            from studio.transcription.loaded_export import load_export

            return load_export(folder, device=device, precision=precision, threads=threads)
        from studio.transcription.loaded_base import load_base

        return load_base(folder, device=device, precision=precision, threads=threads)

    return load
