"""Texts in three languages. The English text itself is the key of its translations."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from studio.messages import Joined, Message, filled_in, from_plain

LOCALES: Mapping[str, str] = {"en": "English", "zh-CN": "简体中文", "zh-TW": "繁體中文"}
"""Locale and its name for people. These spellings are the ones that Gradio's front end knows."""
DEFAULT_LOCALE = "en"

_MARKS = "（）「」《》“”，。：；！？、"
_SIGN = re.compile(f"[\u4e00-\u9fff{_MARKS}]")
_FOLDER = Path(__file__).parent / "locales"


@lru_cache
def catalogue(locale: str) -> Mapping[str, str]:
    """English text → text in `locale`; empty for English."""
    path = _FOLDER / f"{locale}.json"
    if locale not in LOCALES or not path.is_file():
        return {}
    translations: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return translations


class OurName(str):
    """What the studio itself calls a thing, in the visitor's language already."""


def tr(text: str, locale: str, /, **values: object) -> str:
    """`text` in `locale` with its `{fields}` filled in; English where there is no translation."""
    template = catalogue(locale).get(text, text)
    if not values:
        return template
    shown = {name: _said(value, locale) for name, value in values.items()}
    if locale.startswith("zh"):
        for name, value in shown.items():
            is_ours = isinstance(values[name], (Message, OurName))
            template = _closed_up(template, f"{{{name}}}", str(value), is_ours)
    return filled_in(template, shown)


def _closed_up(template: str, field: str, value: str, is_ours: bool) -> str:
    """Without a space where a value begins or ends with a full-width mark, which brings its own, or where
    words of ours meet other signs; what people call things stands apart."""
    before, field, after = template.partition(field)
    first, last = value[:1], value[-1:]
    if (first and first in _MARKS) or (is_ours and _SIGN.match(first) and _SIGN.match(before[-2:-1])):
        before = before.removesuffix(" ")
    if (last and last in _MARKS) or (is_ours and _SIGN.match(last) and _SIGN.match(after[1:2])):
        after = after.removeprefix(" ")
    return before + field + after


def _said(value: object, locale: str) -> object:
    """A value of a sentence; one that is a sentence itself in the same language."""
    if isinstance(value, Message):
        return said(value, locale)
    if isinstance(value, Joined):
        return tr(", ", locale).join(str(_said(item, locale)) for item in value.items)
    return value


def said(message: Message, locale: str) -> str:
    """A message or an error in the visitor's language."""
    return tr(message.template, locale, **message.values)


def message_from(template: object, values: Any, text: object) -> Message:
    """A message as a file has it: its template and values as `to_plain` wrote them, if they are ours and fit
    each other, else its text alone: a template of another make may ask for a terabyte of blanks.
    """
    known = catalogue("zh-CN")
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        if isinstance(template, str) and template in known:
            message = Message(template, **from_plain(values or {}, known))
            str(message)
            return message
    return Message("{text}", text=str(text))


def paragraph(sentences: Iterable[str], locale: str) -> str:
    """Sentences one after another; Chinese has no space between them."""
    return ("" if locale.startswith("zh") else " ").join(sentences)


def N_(text: str) -> str:
    """Marks an English text that is translated elsewhere, where it is a variable; gives it back as it is."""
    return text
