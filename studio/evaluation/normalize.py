"""Text normalisers by name: what two texts may differ in without being different.

| name | what it does |
|---|---|
| `none` | nothing but trim |
| `basic` | Whisper's for all languages: lower case, no punctuation, no symbols |
| `english` | Whisper's for English: contractions, numbers, titles, filler words, spelling |
| `chinese` | simplified characters, full-width forms to plain, lower case, no punctuation, no spaces |
"""

import json
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from studio.errors import ConfigError

NORMALIZERS = ("none", "basic", "english", "chinese")

_WITHOUT_SPACES = {
    "zh": ("chinese", "mandarin"),
    "yue": ("cantonese",),
    "ja": ("japanese",),
    "th": ("thai",),
    "lo": ("lao",),
    "my": ("myanmar", "burmese"),
    "km": ("khmer",),
    "bo": ("tibetan",),
}


def normalize(text: str, name: str, *, spelling: Mapping[str, str] | None = None) -> str:
    """`text` in the normal form `name` (one of `NORMALIZERS`).

    `spelling` maps British to American words for `english`; the table is part of a model's tokenizer folder
    (see `read_spelling`) and not of any library, so without it both spellings stay as they are.

    Raises:
        ConfigError: if there is no normaliser of that name.
    """
    if name == "none":
        return text.strip()
    if name == "basic":
        return _basic()(text).strip()
    if name == "english":
        return _english(tuple(spelling.items()) if spelling else ())(text).strip()
    if name == "chinese":
        return _chinese(text)
    raise ConfigError(
        "There is no normalizer {name!r}: choose one of {known}.", name=name, known=", ".join(NORMALIZERS)
    )


def read_spelling(model_folder: Path) -> dict[str, str]:
    """British to American spelling from the `normalizer.json` of a Whisper folder; empty if it has none."""
    path = model_folder / "normalizer.json"
    if not path.is_file():
        return {}
    table = json.loads(path.read_text(encoding="utf-8"))
    return {str(british): str(american) for british, american in table.items()}


def writes_without_spaces(language: str) -> bool:
    """Whether a language (code or English name) is written without spaces between words."""
    spoken = language.strip().lower()
    code = spoken.replace("_", "-").split("-")[0]
    return code in _WITHOUT_SPACES or any(spoken in names for names in _WITHOUT_SPACES.values())


@lru_cache(maxsize=1)
def _basic() -> Callable[[str], str]:
    from transformers.models.whisper.english_normalizer import BasicTextNormalizer

    normalizer: Callable[[str], str] = BasicTextNormalizer()
    return normalizer


@lru_cache(maxsize=4)
def _english(spelling: tuple[tuple[str, str], ...]) -> Callable[[str], str]:
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    make: Callable[[dict[str, str]], Callable[[str], str]] = EnglishTextNormalizer
    return make(dict(spelling))


def _chinese(text: str) -> str:
    import zhconv

    simplified: str = zhconv.convert(unicodedata.normalize("NFKC", text), "zh-hans")
    return "".join(char for char in simplified.lower() if unicodedata.category(char)[0] in "LNM")
