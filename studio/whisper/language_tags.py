"""Which language a tag means (BCP 47)."""

from babel.core import get_global


def language_of_tag(tag: str) -> str:
    """The language alone, as Unicode's CLDR writes it: `de-AT`, `DE_at`, `deu` and `ger` → `de`.

    Codes of three letters (ISO 639-2 and 639-3) and old ones have another there; what has none stays.
    """
    language = _first_subtag(tag.lower())
    return _first_subtag(get_global("language_aliases").get(language, language))


def _first_subtag(tag: str) -> str:
    return tag.replace("_", "-").split("-")[0]
