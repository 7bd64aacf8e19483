"""Which engine plays a model, and how its files come into memory."""

from collections.abc import Callable
from pathlib import Path

from studio.errors import ConfigError
from studio.options.choices import FASTER_WHISPER, TRANSFORMERS
from studio.registry.spec import ModelKind, ModelSpec
from studio.transcription.devices import memory_for_a_model
from studio.transcription.engine import EngineChoice
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.transcription.loaded_export import LoadedExport, load_export
from studio.transcription.options import check_engine

LOADERS: dict[str, Callable[..., LoadedBase | LoadedExport]] = {
    TRANSFORMERS: load_base,
    FASTER_WHISPER: load_export,
}
Load = Callable[[Path, str, str, str], LoadedBase | LoadedExport]
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
    if choice.engine not in ("auto", FASTER_WHISPER) and is_export:
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

    def load(folder: Path, engine: str, precision: str, device: str) -> LoadedBase | LoadedExport:
        """Raises what the loader of the engine raises, and RunError where memory does not hold the model."""
        with memory_for_a_model():
            return LOADERS[engine](folder, device=device, precision=precision, threads=threads)

    return load
