"""The one file that whisper.cpp plays: on phones, in browsers, on small boards, in desktop programs."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from studio.errors import ModelBrokenError
from studio.files import storage_errors
from studio.messages import Message
from studio.publishing.companions import COMPANIONS
from studio.publishing.formats.export_format import ExportFormat
from studio.publishing.whisper_cpp import WhisperCpp
from studio.registry.spec import ModelKind, ModelSpec
from studio.transcription.engines.transformers import TransformersModel
from studio.whisper.constants import ENGLISH_VOCABULARY, MULTILINGUAL_VOCABULARY, V3_VOCABULARY

_FILE = "ggml-model.bin"
_MAGIC = b"lmgg"
_VOCABULARIES = (ENGLISH_VOCABULARY, MULTILINGUAL_VOCABULARY, V3_VOCABULARY)
"""Of Whisper's English, multilingual and large-v3 models: whisper.cpp has their special tokens built in."""
_KINDS = {"float16": (1, 1), "q8_0": (8, 2007)}
"""ggml's number of the type of a matrix, and of a file of such (`ggml_type`, `ggml_ftype` in ggml.h; 2000 is
the version of the blocks' layout)."""
_FLOAT32, _FLOAT16 = 0, 1
_NAMES = (
    (r"^model\.", ""),
    (r"embed_tokens", "token_embedding"),
    (r"embed_positions\.weight", "positional_embedding"),
    (r"encoder\.layer_norm", "encoder.ln_post"),
    (r"decoder\.layer_norm", "decoder.ln"),
    (r"layers", "blocks"),
    (r"encoder_attn_layer_norm", "cross_attn_ln"),
    (r"encoder_attn", "cross_attn"),
    (r"self_attn_layer_norm", "attn_ln"),
    (r"self_attn", "attn"),
    (r"final_layer_norm", "mlp_ln"),
    (r"fc1", "mlp.0"),
    (r"fc2", "mlp.2"),
    (r"q_proj", "query"),
    (r"k_proj", "key"),
    (r"v_proj", "value"),
    (r"out_proj", "out"),
)
"""From transformers' names of tensors to OpenAI's, which whisper.cpp has, one after the other."""


class Ggml(ExportFormat):
    """`ggml-model.bin`; matrices in float16 unless told, all else in float32 as whisper.cpp wants it."""

    key = "ggml"
    label = "For whisper.cpp (ggml)"
    kind = ModelKind.FOREIGN
    title = "for whisper.cpp"
    ending = "ggml"
    weights = _FILE
    quantizations = ("float16", "q8_0")
    doing = Message("Writing the file for whisper.cpp …")
    what = "A model for whisper.cpp (ggml)"
    library = "whisper.cpp"
    files = (weights,)
    use = (
        "whisper.cpp",
        "bash",
        f"hf download {{name}} {_FILE} --local-dir .\n"
        f"whisper-cli --model {_FILE} --no-flash-attn --language auto speech.wav",
    )
    proof_note = Message(
        "Compared without flash attention, which whisper.cpp uses unless told --no-flash-attn: of 100 clips "
        "with whisper-tiny, 11 texts in float16 differ with it, 4 without it, and 19 in q8_0."
    )
    server = (
        "whisper.cpp",
        Message("Its own server takes this file."),
        "whisper-server --model {place} --no-flash-attn --inference-path /v1/audio/transcriptions",
    )

    def problem(self, spec: ModelSpec) -> Message | None:
        """Its vocabulary or its shape is not Whisper's, or it reads shorter windows than the file can say."""
        size = spec.dimensions.vocab_size if spec.dimensions else _VOCABULARIES[0]
        if size not in _VOCABULARIES:
            return Message(
                "{model} has a vocabulary of its own ({size} tokens), and whisper.cpp knows Whisper's alone "
                "({known}): export it for faster-whisper.",
                model=spec.id,
                size=size,
                known=", ".join(map(str, _VOCABULARIES)),
            )
        if (shape := spec.dimensions) and {shape.encoder_ffn_dim, shape.decoder_ffn_dim} != {
            4 * shape.d_model
        }:
            return Message(
                "{model} has feed-forward layers of {size}, and whisper.cpp reads those of {known} alone: "
                "export it for faster-whisper.",
                model=spec.id,
                size=f"{shape.encoder_ffn_dim}, {shape.decoder_ffn_dim}",
                known=4 * shape.d_model,
            )
        if spec.audio_context == "short":
            return Message(
                "{model} was trained in short-audio mode, which a file for whisper.cpp cannot tell: export "
                "it for faster-whisper.",
                model=spec.id,
            )
        return None

    def stored(self, dtype: str) -> str:
        """whisper.cpp has no convolution in float32."""
        return "float16"

    def write(self, decoder: TransformersModel, target: Path, quantization: str, source: Path) -> None:
        """Raises:
        StorageError: if it cannot be written.
        """
        with storage_errors(target):
            for name in COMPANIONS:  # all of it is in the file
                (target / name).unlink(missing_ok=True)
            with (target / _FILE).open("wb") as file:
                _write_header(file, decoder, quantization)
                for name, tensor in decoder.model.state_dict().items():
                    if name != "proj_out.weight":  # the embedding of the tokens once more
                        _write_tensor(file, tensor_name(name), tensor.float().numpy(), quantization)

    def peak_bytes(self, played: WhisperCpp) -> int | None:
        """Of its process."""
        return played.peak_bytes()

    @contextmanager
    def reopened(self, folder: Path) -> Iterator[WhisperCpp]:
        """As whisper.cpp plays it, with features of its own."""
        model = WhisperCpp(folder / _FILE)
        try:
            yield model
        finally:
            model.close()


def tensor_name(name: str) -> str:
    """What whisper.cpp calls a tensor of transformers' Whisper."""
    for pattern, replacement in _NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _write_header(file: IO[bytes], decoder: TransformersModel, quantization: str) -> None:
    """Magic, shape, mel filters and the bytes of each text token, as `models/convert-h5-to-ggml.py` of
    whisper.cpp has them."""
    shape = decoder.model.config
    numbers = (
        shape.vocab_size,
        shape.max_source_positions,
        shape.d_model,
        shape.encoder_attention_heads,
        shape.encoder_layers,
        shape.max_target_positions,
        shape.d_model,
        shape.decoder_attention_heads,
        shape.decoder_layers,
        shape.num_mel_bins,
        _KINDS[quantization][1],
    )
    file.write(_MAGIC + struct.pack("<11i", *numbers))
    filters = np.asarray(decoder.extractor.mel_filters, dtype="<f4").T
    file.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
    texts = _text_tokens(decoder)
    file.write(struct.pack("<i", len(texts)))
    for text in texts:
        file.write(struct.pack("<i", len(text)) + text)


def _text_tokens(decoder: TransformersModel) -> list[bytes]:
    """What each token below the special ones writes, by id."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = bytes_to_unicode()  # type: ignore[no-untyped-call]
    byte_of = {letter: byte for byte, letter in letters.items()}
    words = decoder.tokenizer.convert_ids_to_tokens(range(decoder.tokens.end))
    try:
        return [bytes(byte_of[letter] for letter in word) for word in words]
    except (KeyError, TypeError) as error:
        raise ModelBrokenError(
            "The tokenizer has no text for some of its tokens: copy the tokenizer's files from the model "
            "that this one was trained from."
        ) from error


def _write_tensor(file: IO[bytes], name: str, values: NDArray[np.float32], quantization: str) -> None:
    kind = _KINDS[quantization][0]
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        values = values.reshape(-1, 1)
        kind = _FLOAT32
    elif values.ndim < 2 or name.endswith("positional_embedding"):
        kind = _FLOAT32
    elif values.ndim > 2:
        kind = min(kind, _FLOAT16)  # what a convolution takes
    encoded = name.encode()
    file.write(struct.pack("<3i", values.ndim, len(encoded), kind))
    file.write(struct.pack(f"<{values.ndim}i", *reversed(values.shape)) + encoded)
    file.write(_packed(values, kind).tobytes())


def _packed(values: NDArray[np.float32], kind: int) -> NDArray[Any]:
    if kind in (_FLOAT32, _FLOAT16):
        return values.astype("<f4" if kind == _FLOAT32 else "<f2")
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    packed: NDArray[Any] = quantize(values, GGMLQuantizationType(kind))
    return packed
