"""An export of CTranslate2 in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.errors import ConfigError, ModelBrokenError, first_line
from studio.messages import Message
from studio.options.choices import FASTER_WHISPER
from studio.registry.tensors import read_json_object
from studio.transcription.devices import ctranslate2_device, without_cublas
from studio.transcription.engines.ctranslate2 import CTranslate2Model
from studio.transcription.special_tokens import SpecialTokens

_SEED = 0
"""Of what is drawn where a text is looked for by chance, at temperatures above zero."""


class LoadedExport:
    """A `CTranslate2Model` that is lent. Safe to share by threads."""

    is_spoiled = False
    engine = FASTER_WHISPER

    def __init__(self, model: CTranslate2Model, notes: tuple[Message, ...] = ()) -> None:
        """Made by `load_export`; `notes` go with whatever is heard."""
        self.model = model
        self.notes = notes

    @contextmanager
    def using(self, _adapter_id: str | None = None) -> Iterator[CTranslate2Model]:
        """The model; nobody waits for another."""
        yield self.model


def load_export(
    folder: Path, *, device: str = "auto", precision: str = "auto", threads: int = 0
) -> LoadedExport:
    """Loads an export: in float32 on a CPU and in float16 on a GPU, unless told another compute type.

    Raises:
        ConfigError: if the device is not there, or cannot compute so.
        ModelBrokenError: if the folder cannot be loaded.
    """
    place, index = ctranslate2_device(device)
    compute_type = compute_type_of(precision, device)
    config = read_json_object(folder / "config.json")
    import ctranslate2
    from faster_whisper import WhisperModel

    # Each loaded model draws from a source of its own: the same calls find the same text another time.
    ctranslate2.set_random_seed(_SEED)

    try:
        model = WhisperModel(
            str(folder),
            device=place,
            device_index=index,
            compute_type=compute_type,
            cpu_threads=threads,
            local_files_only=True,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelBrokenError(
            "The export in {folder} cannot be loaded ({reason}): export the model again.",
            folder=folder,
            reason=first_line(error),
        ) from error
    decoder = model.hf_tokenizer.get_added_tokens_decoder()
    ids = {token.content: int(id_) for id_, token in decoder.items()}
    tokens = SpecialTokens.from_ids(ids, is_multilingual=bool(model.model.is_multilingual))
    suppressed = tuple(int(token) for token in config.get("suppress_ids") or ())
    return LoadedExport(CTranslate2Model(model, tokens, suppressed), without_cublas(device))


def compute_types(device: str = "auto") -> tuple[str, ...]:
    """What faster-whisper can compute in on a `device` (see `devices`) of this machine."""
    import ctranslate2

    return tuple(sorted(ctranslate2.get_supported_compute_types(ctranslate2_device(device)[0])))


def compute_type_of(precision: str, device: str = "auto") -> str:
    """What an export is computed in for a `precision`, `auto` among them.

    Raises:
        ConfigError: if the device is not there, or cannot compute so.
    """
    known, place = compute_types(device), ctranslate2_device(device)[0]
    if precision == "auto":
        return "float16" if place == "cuda" and "float16" in known else "float32"
    if precision not in known:
        raise ConfigError(
            "{engine} cannot compute in {given} on this {device}: choose one of {known}.",
            engine=FASTER_WHISPER,
            given=precision,
            device="GPU" if place == "cuda" else "CPU",
            known=", ".join(known),
        )
    return precision
