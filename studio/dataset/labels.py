"""How many tokens a text takes in a model's decoder."""

from collections.abc import Callable
from pathlib import Path


def label_counter(model_folder: Path) -> Callable[[str], int]:
    """Counts a text's tokens, special tokens included, as the tokenizer in `model_folder` writes it."""
    import transformers

    tokenizer = transformers.WhisperTokenizerFast.from_pretrained(model_folder, local_files_only=True)
    return lambda text: len(tokenizer(text)["input_ids"])
