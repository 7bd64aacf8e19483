"""From a model in memory to files: CTranslate2, or a whole model with its adapter merged in."""

import shutil
from pathlib import Path
from typing import Any

from studio.errors import ModelBrokenError
from studio.files import read_json, storage_errors, write_json
from studio.lazy_imports import transformers_library
from studio.transcription.engines.transformers import TransformersModel

QUANTIZATIONS = {
    "ctranslate2": ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16"),
    "merged": ("float32", "float16", "bfloat16"),
}
"""Format → how its weights may be kept."""
_COMPANIONS = (
    "added_tokens.json",
    "merges.txt",
    "normalizer.json",
    "preprocessor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)
_PLAYED = ("tokenizer.json", "preprocessor_config.json")
"""What faster-whisper reads beside the weights."""


def stored_dtype(folder: Path) -> str:
    """How the weights of a folder are kept: `float32`, `float16` or `bfloat16`, by most of its tensors."""
    from safetensors import safe_open

    names = {"F16": "float16", "BF16": "bfloat16"}
    kinds: list[str] = []
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, framework="np") as tensors:
            kinds += [tensors.get_slice(name).get_dtype() for name in tensors.keys()]  # noqa: SIM118
    return names.get(max(set(kinds), key=kinds.count), "float32") if kinds else "float32"


def copy_companions(source: Path, target: Path, decoder: TransformersModel) -> None:
    """Copies the tokenizer's files and the features' settings; what is missing is made anew."""
    with storage_errors(target):
        for name in _COMPANIONS:
            if (source / name).is_file():
                shutil.copy2(source / name, target / name)
        if not (target / "tokenizer.json").is_file():
            decoder.tokenizer.save_pretrained(target)
        if not (target / "preprocessor_config.json").is_file():
            decoder.extractor.save_pretrained(target)


def save_merged(decoder: TransformersModel, target: Path, dtype: str, adapter: Path) -> None:
    """Writes a whole model as safetensors, with the generation config of base and adapter."""
    import torch

    model = decoder.model.to(getattr(torch, dtype))
    model.generation_config = generation_config(decoder)
    with storage_errors(target):
        model.save_pretrained(target)
    own = adapter / "generation_config.json"
    if own.is_file():
        said = read_json(own)
        kept = {name: said[name] for name in ("language", "task") if said.get(name)}
        merged = read_json(target / "generation_config.json")
        write_json(target / "generation_config.json", {**merged, **kept})


def convert(decoder: TransformersModel, target: Path, quantization: str) -> None:
    """Writes `model.bin`, `vocabulary.json` and `config.json` of CTranslate2 into the folder `target`.

    Raises:
        ModelBrokenError: if CTranslate2 does not know how.
        StorageError: if they cannot be written.
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
            "CTranslate2 cannot convert this model ({reason}): play it with transformers.", reason=str(error)
        ) from error
    with storage_errors(target):
        spec.save(str(target))
        for path in target.iterdir():
            if path.name in _COMPANIONS and path.name not in _PLAYED:
                path.unlink()


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
