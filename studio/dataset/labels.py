"""How many tokens a text takes in a model's decoder."""

from collections.abc import Callable
from pathlib import Path

from studio.lazy_imports import transformers_library

_AROUND = 4
"""Tokens of a label beside its text: language, task, no timestamps, end."""


def label_counter(model_folder: Path) -> Callable[[str], int]:
    """Counts the tokens of a text's label as training writes it, with the tokenizer in `model_folder`."""
    tokenizer = transformers_library().WhisperTokenizer.from_pretrained(model_folder, local_files_only=True)
    return lambda text: len(tokenizer(f" {text}", add_special_tokens=False)["input_ids"]) + _AROUND
