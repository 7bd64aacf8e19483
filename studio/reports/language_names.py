"""Names of Whisper's languages, as visitors call them."""

from collections.abc import Mapping
from functools import cache

from studio.registry.languages import LANGUAGES
from studio.translation import DEFAULT_LOCALE, tr

_BABEL_LOCALES = {"zh-CN": "zh-Hans", "zh-TW": "zh-Hant"}
"""What Babel calls a language of the page, where that is not the same."""
_BABEL_CODES = {"jw": "jv"}
"""Whisper has kept a code that was withdrawn in 2001."""


def language_name(code: str, locale: str) -> str:
    """`zh` → `Chinese` or `中文`; a code nobody knows stays as it is."""
    return _names(locale).get(code, code)


def language_choices(locale: str) -> list[tuple[str, str]]:
    """Every language of Whisper for a dropdown, after `auto`: by name; in Chinese, where names have no order
    that everybody knows, by how much of each Whisper has heard."""
    named = [(f"{name} ({code})", code) for code, name in _names(locale).items()]
    return [(tr("Automatic", locale), "auto"), *(named if locale.startswith("zh") else sorted(named))]


@cache
def _names(locale: str) -> Mapping[str, str]:
    english = {code: name.title() for code, name in LANGUAGES.items()}
    if locale == DEFAULT_LOCALE:
        return english
    from babel import Locale

    known = Locale.parse(_BABEL_LOCALES.get(locale, locale), sep="-").languages
    return {code: known.get(_BABEL_CODES.get(code, code), name) for code, name in english.items()}
