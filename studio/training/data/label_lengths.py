"""How long the labels of a run would be, told before its model is loaded."""

from collections.abc import Callable
from pathlib import Path

from studio.dataset.example import Example
from studio.lazy_imports import transformers_library
from studio.options.training import TrainingConfig
from studio.training.data.clips import clip_maker
from studio.training.data.sources import require_teachable
from studio.transcription.languages import resolve_language
from studio.transcription.special_tokens import SpecialTokens


def tokens_of_labels(
    config: TrainingConfig, folder: Path, *, is_multilingual: bool
) -> Callable[[Example], int]:
    """Counts the tokens of the label that a row gets, as the tokenizer in `folder` makes them.

    Raises:
        ConfigError: if the model lacks the run's language; what comes back raises it for a row's.
        ModelBrokenError: if the tokenizer is none of a Whisper.
    """
    tokenizer = transformers_library().WhisperTokenizer.from_pretrained(folder, local_files_only=True)
    tokens = SpecialTokens.of(tokenizer, is_multilingual=is_multilingual)

    def encode(text: str) -> list[int]:
        """Text tokens of a text."""
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return [token for token in ids if token < tokens.end]

    any_language = next(iter(tokens.languages), None)
    make = clip_maker(config, tokens, encode, any_language)

    def count(example: Example) -> int:
        require_teachable(example, config)
        return make(example, with_times=config.timestamps).most_tokens

    return count


def characters_of_labels(config: TrainingConfig) -> Callable[[Example], int]:
    """Counts the characters of a row's text, where no model is chosen.

    Raises:
        ConfigError: if the run's language is none of Whisper's; what comes back raises it for a row's.
    """
    resolve_language(config.language)

    def count(example: Example) -> int:
        require_teachable(example, config)
        return len(example.text)

    return count
