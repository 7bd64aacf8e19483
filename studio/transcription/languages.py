"""What people call a language → the code that Whisper uses."""

import difflib
import re
from collections.abc import Collection

from studio.dataset.written import IDEOGRAPH, in_one
from studio.errors import ConfigError
from studio.messages import Message
from studio.registry.languages import LANGUAGES
from studio.whisper.language_tags import language_of_tag

AUTO = "auto"
_NAMED_LANGUAGES = 8
_OTHER_NAMES = {
    "burmese": "my",
    "cantonese chinese": "yue",
    "castilian": "es",
    "farsi": "fa",
    "fil": "tl",
    "filipino": "tl",
    "flemish": "nl",
    "haitian": "ht",
    "javanese": "jw",
    "jv": "jw",
    "letzeburgesch": "lb",
    "mandarin": "zh",
    "mandarin chinese": "zh",
    "moldavian": "ro",
    "moldovan": "ro",
    "nb": "no",
    "norwegian bokmål": "no",
    "panjabi": "pa",
    "pushto": "ps",
    "simplified chinese": "zh",
    "sinhalese": "si",
    "traditional chinese": "zh",
    "valencian": "ca",
}
_BY_NAME = {name: code for code, name in LANGUAGES.items()} | _OTHER_NAMES


def resolve_language(text: str, available: Collection[str] | None = None) -> str:
    """The code for a language's name or code: `Chinese`, `mandarin`, `zh`, `zh-TW`, `cmn`, `<|zh|>` → `zh`.

    `auto` (or nothing) stays `auto`. `available` are the codes that a model knows; all of Whisper's if None,
    and an English-only model has none, which leaves English and `auto`, both as `en`.

    Raises:
        ConfigError: if there is no such language, or the model lacks it.
    """
    code = _code(text)
    if available is None or (code in available) or (code == AUTO and available):
        return code
    if not available:
        if code in (AUTO, "en"):
            return "en"
        raise ConfigError(
            "The language {language!r} was asked for, and this model knows English only: choose English, "
            "or a multilingual model.",
            language=text,
        )
    raise ConfigError(
        "This model does not know the language {language!r}: choose one of {known}, or auto.",
        language=text,
        known=_some_of(available),
    )


def _some_of(codes: Collection[str]) -> str:
    """The first of a model's languages, and how many there are if those are not all."""
    named = [f"{code} ({LANGUAGES.get(code, code)})" for code in codes]
    more = f" … ({len(named)})" if len(named) > _NAMED_LANGUAGES else ""
    return ", ".join(named[:_NAMED_LANGUAGES]) + more


def _code(text: str) -> str:
    spoken = text.strip().lower().removeprefix("<|").removesuffix("|>")
    if spoken in ("", AUTO, "none", "null"):  # as scripts write that none is given
        return AUTO
    for candidate in (spoken, language_of_tag(spoken)):
        if candidate in LANGUAGES:
            return candidate
        if candidate in _BY_NAME:
            return _BY_NAME[candidate]
    near = difflib.get_close_matches(spoken, _BY_NAME, n=1)
    raise ConfigError(
        "{language!r} is no language of Whisper: give a name or a code, such as {near}, or auto.",
        language=text,
        near=f"{near[0].title()} ({_BY_NAME[near[0]]})" if near else Message("Chinese or zh"),
    )


UNDIVIDED = {"th", "lo", "my", "km", "bo"}
"""Languages whose words are of several characters, without spaces between them."""
WITHOUT_SPACES = {"zh", "ja", "yue", *UNDIVIDED}
_IDEOGRAPH_OR_MARK = re.compile(rf"[{IDEOGRAPH}\u3005-\u303f]")


def join_texts(texts: list[str], language: str) -> str:
    """Texts of successive segments to one, with a space between them where the script has spaces."""
    return in_one(texts, tight=language in WITHOUT_SPACES)


def is_ideograph(char: str) -> bool:
    """Chinese characters, kana and their marks: each stands for itself, in whatever language."""
    return _IDEOGRAPH_OR_MARK.match(char) is not None
