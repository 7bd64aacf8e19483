"""Text normalisers by name: differences that do not count as errors.

| name | what it does |
|---|---|
| `none` | nothing but trim |
| `lowercase` | lower case, and nothing else |
| `basic` | lower case, no punctuation, no symbols, nothing in brackets; whole words in every script |
| `whisper_basic` | Whisper's own for all languages, to compare with published figures; it splits words |
| `english` | Whisper's for English: contractions, numbers, titles, filler words, spelling |
| `chinese` | simplified characters, full-width forms to plain, lower case, no punctuation, no spaces |
| `no_punctuation` | no punctuation but within words (`it's`, `well-known`); letters stay as they are |

Whisper's own takes vowel signs and other marks (Devanagari, Bengali, Tamil, Thai, Khmer, Arabic …) for
symbols, and puts a space in the place of each.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice

from studio.chinese import SIMPLIFIED, converted
from studio.errors import ConfigError
from studio.lazy_imports import transformers_library
from studio.options.checks import check_choice
from studio.options.choices import NORMALIZERS
from studio.settings import ASSETS
from studio.transcription.languages import WITHOUT_SPACES, resolve_language

_SPACELESS = (
    r"\u0e00-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\uff10-\uff9f"
    r"\U00020000-\U0003ffff"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, kana, ideographs, and letters as wide as those."""
_OUTER_MARKS = re.compile(
    rf"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)|(?<=[{_SPACELESS}])[^\w\s]+|"
    r"[^\w\s]{2,}|[,;:!?\"()\[\]،؛؟।॥…—]+"
)
"""Marks at the edge of a word, several in a row, between letters of languages without spaces, or such as
stand in no word."""
_BRACKETS = re.compile(r"[<\[][^>\]]*[>\]]|\([^)]+?\)")


def normalize(text: str, name: str) -> str:
    """`text` in the normal form `name` (one of `NORMALIZERS`).

    Raises:
        ConfigError: if there is no normaliser of that name.
    """
    check_choice("normalizer", name, NORMALIZERS)
    if name == "none":
        return text.strip()
    if name == "lowercase":
        return text.lower().strip()
    if name == "basic":
        return _basic(text)
    if name == "whisper_basic":
        return _whisper_basic()(text).strip()
    if name == "english":
        return _english()(text).strip()
    if name == "chinese":
        return _chinese(text)
    return " ".join(_OUTER_MARKS.sub(_spaced, text).split())


def normalization_examples(texts: Iterable[str], name: str) -> list[tuple[str, str]]:
    """The first five texts that the normal form changes, each before and after.

    Raises:
        ConfigError: if there is no normaliser of that name.
    """
    pairs = ((text, normalize(text, name)) for text in texts)
    return list(islice((pair for pair in pairs if pair[0] != pair[1]), 5))


def writes_without_spaces(language: str) -> bool:
    """Whether a language (code or English name) is written without spaces between words; no, if unknown."""
    try:
        return resolve_language(language) in WITHOUT_SPACES
    except ConfigError:
        return False


def _basic(text: str) -> str:
    """As Whisper's, but a mark stays with its letter, and what nobody sees (joiners, directions) goes."""
    text = "".join(char for char in _BRACKETS.sub("", text.lower()) if unicodedata.category(char) != "Cf")
    shown = ""
    for char in unicodedata.normalize("NFKC", text).lower():
        shown += " " if unicodedata.category(char)[0] in "PS" or _is_stray(char, shown) else char
    return " ".join(shown.split())


def _spaced(found: re.Match[str]) -> str:
    """Spaces for what was found, but marks and joiners, which Python's patterns take for no letters, stay."""
    before = shown = found.string[: found.start()][-1:]
    for char in found[0]:
        is_of_word = unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") and shown[-1:].strip()
        shown += char if is_of_word else " "
    return shown[len(before) :]


def _is_stray(char: str, before: str) -> bool:
    """Whether a mark has lost its letter, as that of an emoji has."""
    return unicodedata.category(char)[0] == "M" and not before[-1:].strip()


@lru_cache(maxsize=1)
def _whisper_basic() -> Callable[[str], str]:
    transformers_library()
    from transformers.models.whisper.english_normalizer import BasicTextNormalizer

    normalizer: Callable[[str], str] = BasicTextNormalizer()
    return normalizer


@lru_cache(maxsize=1)
def _english() -> Callable[[str], str]:
    """With OpenAI's table from British to American spelling, which transformers leaves to the caller."""
    transformers_library()
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    make: Callable[[dict[str, str]], Callable[[str], str]] = EnglishTextNormalizer
    return make(json.loads((ASSETS / "whisper_normalizer" / "english.json").read_text(encoding="utf-8")))


def _chinese(text: str) -> str:
    simplified = converted(unicodedata.normalize("NFKC", text), SIMPLIFIED)
    return "".join(char for char in simplified.lower() if unicodedata.category(char)[0] in "LNM")
