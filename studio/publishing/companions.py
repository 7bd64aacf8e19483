"""What lies beside the weights of a model: the tokenizer's files and the settings of the features."""

import shutil
from pathlib import Path

from studio.files import storage_errors
from studio.transcription.engines.transformers import TransformersModel

COMPANIONS = (
    "added_tokens.json",
    "merges.txt",
    "normalizer.json",
    "preprocessor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)


def copy_companions(source: Path, target: Path, decoder: TransformersModel) -> None:
    """Copies them; what is missing is made anew."""
    with storage_errors(target):
        for name in COMPANIONS:
            if (source / name).is_file():
                shutil.copy2(source / name, target / name)
        if not (target / "tokenizer.json").is_file():
            decoder.tokenizer.save_pretrained(target)
        if not (target / "preprocessor_config.json").is_file():
            decoder.extractor.save_pretrained(target)
