"""CTranslate2, which faster-whisper plays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.errors import ModelBrokenError, in_brief
from studio.files import storage_errors
from studio.messages import Message
from studio.options.choices import ENGINES, FASTER_WHISPER
from studio.publishing.companions import COMPANIONS
from studio.publishing.formats.export_format import ExportFormat, generation_config
from studio.registry.spec import ModelKind
from studio.transcription.engines.transformers import TransformersModel
from studio.transcription.loaded_export import load_export
from studio.transcription.window_model import WindowModel

_PLAYED = ("tokenizer.json", "preprocessor_config.json")
"""What faster-whisper reads beside the weights."""
_SPACE_APP = '''\
"""Speak, or choose a recording, and read what the model hears."""

from pathlib import Path

import av
import gradio as gr
from faster_whisper import WhisperModel, decode_audio

model = WhisperModel(str(Path(__file__).with_name("model")))


def transcribe(audio):
    if audio is None:
        return ""
    try:
        samples = decode_audio(audio)
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise gr.Error("This file has no sound that can be read: choose a recording.") from error
    segments, _ = model.transcribe(samples)
    return "".join(segment.text for segment in segments).strip()
'''


class CTranslate2(ExportFormat):
    """`model.bin`, `vocabulary.json` and `config.json`."""

    key = "ctranslate2"
    label = "For faster-whisper (CTranslate2)"
    kind = ModelKind.EXPORT
    title = "for faster-whisper"
    ending = "ct2"
    weights = "model.bin"
    quantizations = ENGINES[FASTER_WHISPER]
    doing = Message("Converting to CTranslate2 …")
    what = "A model for faster-whisper (CTranslate2)"
    library = "ctranslate2"
    files = (weights, "config.json", "vocabulary.json", "vocabulary.txt", *COMPANIONS)
    use = (
        "faster-whisper",
        "python",
        """\
from faster_whisper import WhisperModel

segments, _ = WhisperModel("{name}").transcribe("speech.wav")
print("".join(segment.text for segment in segments))""",
    )
    space_libraries = ("faster-whisper",)
    space_app = _SPACE_APP

    def write(self, decoder: TransformersModel, target: Path, quantization: str, source: Path) -> None:
        """Raises:
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
                reason=in_brief(error),
            ) from error
        with storage_errors(target):
            spec.save(str(target))
            for path in target.iterdir():
                if path.name in COMPANIONS and path.name not in _PLAYED:
                    path.unlink()

    @contextmanager
    def reopened(self, folder: Path) -> Iterator[WindowModel]:
        """As faster-whisper plays it."""
        yield load_export(folder, device="cpu").model
