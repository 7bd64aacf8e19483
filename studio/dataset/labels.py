"""How many tokens a text takes in a model's decoder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

_AROUND = 4
"""Tokens of a label beside its text: language, task, no timestamps, end."""


def label_counter(model_folder: Path) -> Callable[[str], int]:
    """Counts the tokens of a text's label as training writes it, with the tokenizer in `model_folder`."""
    import transformers as typed_transformers

    transformers: Any = typed_transformers  # its lazy module hides the class from mypy
    tokenizer = transformers.WhisperTokenizer.from_pretrained(model_folder, local_files_only=True)
    return lambda text: len(tokenizer(f" {text}", add_special_tokens=False)["input_ids"]) + _AROUND
