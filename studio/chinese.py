"""Chinese in its two scripts: which one a text is of, and the same text in the other.

OpenCC converts, phrase by phrase: 里 is 里 in 公里, and 裡 in 這裡.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opencc import OpenCC

LANGUAGES = ("zh", "yue")
"""What is spoken where Chinese is written."""
SIMPLIFIED, TRADITIONAL, TAIWAN = "simplified", "traditional", "taiwan"
"""`traditional` has Taiwan's characters; `taiwan` has its words, too (軟體 for 软件)."""
_CONVERSIONS = {SIMPLIFIED: "t2s", TRADITIONAL: "s2tw", TAIWAN: "s2twp"}
_KANA = re.compile(r"[\u3040-\u30ff]")
_USUAL = {
    TRADITIONAL: ("big5", range(0xA440, 0xC67F)),
    SIMPLIFIED: ("gb2312", range(0xB0A1, 0xD7FA)),
}
"""Script → an encoding of it, and where that has the characters of everyday use."""


def converted(text: str, script: str) -> str:
    """The text in `SIMPLIFIED`, `TRADITIONAL` or `TAIWAN`. What is traditional already is left alone: 范 is a
    name there, and stands for 範 elsewhere."""
    if script == TRADITIONAL and _is_traditional(text):
        return text
    other: str = _converter(script).convert(text)
    return other


def counts(text: str) -> tuple[int, int]:
    """How many characters of a text are simplified ones, and traditional ones; those of both do not count."""
    scripts = [script_of(character) for character in text if not character.isascii()]
    return scripts.count(SIMPLIFIED), scripts.count(TRADITIONAL)


def has_kana(text: str) -> bool:
    """Whether it is Japanese, whose kanji are of neither script."""
    return bool(_KANA.search(text))


def main_script(text: str) -> str:
    """The script of which a text has more characters, simplified if as many; empty if it has of neither."""
    return prevailing(*counts(text))


def prevailing(simplified: int, traditional: int) -> str:
    """The script with the larger count."""
    if simplified == traditional == 0:
        return ""
    return SIMPLIFIED if simplified >= traditional else TRADITIONAL


@lru_cache(maxsize=20_000)
def script_of(character: str) -> str:
    """The only script that a character is usual in, else ""."""
    if _converter(SIMPLIFIED).convert(character) != character and not _is_usual(character, SIMPLIFIED):
        return TRADITIONAL
    if _converter(TRADITIONAL).convert(character) != character and not _is_usual(character, TRADITIONAL):
        return SIMPLIFIED
    return ""


def _is_traditional(text: str) -> bool:
    simplified, traditional = counts(text)
    return traditional > 0 == simplified


def _is_usual(character: str, script: str) -> bool:
    encoding, usual = _USUAL[script]
    try:
        return int.from_bytes(character.encode(encoding)) in usual
    except UnicodeEncodeError:
        return False


@lru_cache
def _converter(script: str) -> "OpenCC":
    from opencc import OpenCC

    return OpenCC(_CONVERSIONS[script])
