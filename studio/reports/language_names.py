"""Names of Whisper's languages, as visitors call them."""

from collections.abc import Mapping
from functools import cache

from studio.registry.languages import LANGUAGES
from studio.translation import tr

_BABEL_LOCALES = {"zh-CN": "zh_Hans", "zh-TW": "zh_Hant"}
_BABEL_CODES = {"jw": "jv"}
"""Whisper has kept a code that was withdrawn in 2001."""


def language_name(code: str, locale: str) -> str:
    """`zh` → `Chinese` or `中文`; a code nobody knows stays as it is."""
    return _names(locale).get(code, code)


def language_choices(locale: str) -> list[tuple[str, str]]:
    """Every language of Whisper for a dropdown, after `auto`: in English by name; elsewhere, where names have
    no order that everybody knows, by how much of each Whisper has heard."""
    named = [(f"{name} ({code})", code) for code, name in _names(locale).items()]
    return [(tr("Automatic", locale), "auto"), *(named if locale in _BABEL_LOCALES else sorted(named))]


@cache
def _names(locale: str) -> Mapping[str, str]:
    english = {code: name.title() for code, name in LANGUAGES.items()}
    if locale not in _BABEL_LOCALES:
        return english
    from babel import Locale

    known = Locale.parse(_BABEL_LOCALES[locale]).languages
    return {code: known.get(_BABEL_CODES.get(code, code), name) for code, name in english.items()}
