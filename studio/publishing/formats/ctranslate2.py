"""CTranslate2, which faster-whisper plays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.errors import ModelBrokenError
from studio.files import storage_errors
from studio.messages import Message
from studio.publishing.companions import COMPANIONS
from studio.publishing.formats.export_format import ExportFormat, generation_config
from studio.registry.spec import ModelKind
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.loaded_export import load_export
from studio.transcription.window_model import WindowModel

_PLAYED = ("tokenizer.json", "preprocessor_config.json")
"""What faster-whisper reads beside the weights."""


class CTranslate2(ExportFormat):
    """`model.bin`, `vocabulary.json` and `config.json`."""

    key = "ctranslate2"
    label = "For faster-whisper (CTranslate2)"
    kind = ModelKind.EXPORT
    title = "for faster-whisper"
    ending = "ct2"
    quantizations = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16")
    doing = Message("Converting to CTranslate2 …")

    def write(self, decoder: TransformersModel, target: Path, quantization: str, source: Path) -> int | None:
        """Gives the size of `model.bin`.

        Raises:
            ModelBrokenError: if CTranslate2 does not know how.
            StorageError: if the files cannot be written.
        """
        from ctranslate2.converters.transformers import WhisperLoader

        model = decoder.model
        model.generation_config = generation_config(decoder)
        try:
            spec = WhisperLoader()(model, decoder.tokenizer)
            spec.validate()
            spec.optimize(quantization=quantization)
        except (ValueError, KeyError, AttributeError, NotImplementedError, RuntimeError) as error:
            raise ModelBrokenError(
                "CTranslate2 cannot convert this model ({reason}): run it with transformers.",
                reason=str(error),
            ) from error
        with storage_errors(target):
            spec.save(str(target))
            for path in target.iterdir():
                if path.name in COMPANIONS and path.name not in _PLAYED:
                    path.unlink()
        return (target / "model.bin").stat().st_size

    @contextmanager
    def reopened(self, folder: Path) -> Iterator[WindowModel]:
        """As faster-whisper plays it."""
        yield load_export(folder, device="cpu").model
