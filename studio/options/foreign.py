"""A flag of another program that does nothing here: what is said of it, and when nothing need be."""

from dataclasses import dataclass
from typing import Any

_NOTHING = {"none", "null", ""}
_OFF = {*_NOTHING, "false"}


@dataclass(frozen=True)
class Foreign:
    """Made by `switch`, `value` and `refused`."""

    reason: str
    """Why it does nothing, or what to do instead: the end of a sentence."""
    usual: frozenset[str]
    """Values, in lower case, of which nothing is said: its own program's default, and what is so anyway."""
    is_switch: bool = False
    is_refused: bool = False
    """Whether a run that went on without it would be another than was asked for."""

    def is_usual(self, value: Any) -> bool:
        """Whether the value says nothing that is not so anyway."""
        words = value if isinstance(value, (list, tuple)) else [value]
        return all(_plain(word) in self.usual for word in words)


def switch(reason: str, *, usual: bool | None = False) -> Foreign:
    """A boolean that asks for nothing special where it is `usual`; None: what is done is said of both."""
    return Foreign(reason, frozenset({*_NOTHING, str(usual).lower()}), is_switch=True)


def value(reason: str, *usual: str) -> Foreign:
    """What takes a value; those in `usual` ask for nothing special."""
    return Foreign(reason, frozenset({*_OFF, *usual}))


def refused(reason: str, *usual: str, is_switch: bool = False) -> Foreign:
    """What a run cannot do without and still be what was asked for."""
    return Foreign(reason, frozenset({*_OFF, *usual}), is_switch=is_switch, is_refused=True)


def not_off(reason: str) -> Foreign:
    """A boolean that is on here whatever a run asks for, and without which it would be another."""
    return Foreign(reason, frozenset({*_NOTHING, "true"}), is_switch=True, is_refused=True)


def _plain(value: Any) -> str:
    """`4.0` and `4` are one number, `True` and `true` one word."""
    text = str(value).strip().lower()
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
