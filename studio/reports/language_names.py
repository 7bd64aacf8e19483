"""Names of Whisper's languages, as visitors call them."""

from collections.abc import Iterable, Mapping
from functools import cache

from studio.registry.languages import LANGUAGES
from studio.registry.listing import few_languages
from studio.registry.spec import ModelSpec
from studio.translation import DEFAULT_LOCALE, tr

_BABEL_LOCALES = {"zh-CN": "zh-Hans", "zh-TW": "zh-Hant"}
"""What Babel calls a language of the page, where that is not the same."""
_BABEL_CODES = {"jw": "jv"}
"""Whisper has kept a code that was withdrawn in 2001."""


def language_name(code: str, locale: str) -> str:
    """`zh` → `Chinese` or `中文`; a code nobody knows stays as it is."""
    return _names(locale).get(code, code)


def languages_of(spec: ModelSpec, locale: str) -> str:
    """What a model hears: by name where it knows a few, or was tuned to some."""
    if not spec.is_multilingual:
        return tr("English only", locale)
    if few := few_languages(spec):
        return _in_a_row(few, locale)
    if spec.languages:
        return tr("many, tuned to {names}", locale, names=_in_a_row(spec.languages, locale))
    return tr("many", locale)


def language_choices(locale: str) -> list[tuple[str, str]]:
    """Every language of Whisper for a dropdown, after `auto`: by name; in Chinese, where names have no order
    that everybody knows, by how much of each Whisper has heard."""
    named = [(f"{name} ({code})", code) for code, name in _names(locale).items()]
    return [(tr("Automatic", locale), "auto"), *(named if locale.startswith("zh") else sorted(named))]


def _in_a_row(codes: Iterable[str], locale: str) -> str:
    return tr(", ", locale).join(language_name(code, locale) for code in codes)


@cache
def _names(locale: str) -> Mapping[str, str]:
    english = {code: name.title() for code, name in LANGUAGES.items()}
    if locale == DEFAULT_LOCALE:
        return english
    from babel import Locale

    known = Locale.parse(_BABEL_LOCALES.get(locale, locale), sep="-").languages
    return {code: known.get(_BABEL_CODES.get(code, code), name) for code, name in english.items()}
