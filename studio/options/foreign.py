"""A flag of another program that does nothing here: what is said of it, and when nothing need be."""

from dataclasses import dataclass
from typing import Any

_NOTHING = {"none", "null", ""}
_OFF = {*_NOTHING, "false"}


@dataclass(frozen=True)
class Foreign:
    """Made by `switch`, `value` and `refused`."""

    reason: str
    """Why it does nothing, or what to do instead: the end of a sentence, as a template of a `Message`."""
    usual: frozenset[str]
    """Values, in lower case, of which nothing is said: its own program's default, and what is so anyway."""
    is_switch: bool = False
    is_refused: bool = False
    """Whether the run is refused, because it would be a different one without it."""

    def is_usual(self, value: Any) -> bool:
        """Whether the value changes nothing: it is the default, or what is done anyway."""
        words = value if isinstance(value, (list, tuple)) else [value]
        return all(_plain(word) in self.usual for word in words)


def switch(reason: str, *, usual: bool | None = False) -> Foreign:
    """A boolean that needs no remark if it is `usual`; None: either value gets one."""
    return Foreign(reason, frozenset({*_NOTHING, str(usual).lower()}), is_switch=True)


def value(reason: str, *usual: str) -> Foreign:
    """A flag with a value; those in `usual` need no remark."""
    return Foreign(reason, frozenset({*_OFF, *usual}))


def refused(reason: str, *usual: str, is_switch: bool = False) -> Foreign:
    """A flag that is refused, because the run would be a different one without it."""
    return Foreign(reason, frozenset({*_OFF, *usual}), is_switch=is_switch, is_refused=True)


def not_off(reason: str) -> Foreign:
    """A boolean that is always on here; off is refused, because the run would be a different one."""
    return Foreign(reason, frozenset({*_NOTHING, "true"}), is_switch=True, is_refused=True)


def _plain(value: Any) -> str:
    """`4.0` and `4` are one number, `True` and `true` one word."""
    text = str(value).strip().lower()
    try:
        return f"{float(text):g}"
    except ValueError:
        return text
