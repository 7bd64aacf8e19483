"""Messages for people that are put together where no language is known yet.

A message is a template and its values: its English template is the key of its translation. `str(message)` is
the English one. A value may be a message, or several of them in a row (`Joined`): it is then said in the same
language. An error is a message that is raised (`studio.errors`).
"""

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

Plain = str | int | float | list["Plain"] | dict[str, "Plain"]
"""What of a message goes into JSON: texts and numbers, and messages that are values of it."""


_COUNTED = re.compile(
    r"(?<!the )((?:\{(\w+)[^{}]*\} of )?\{(\w+)[^{}]*\} (?:(?:corrected|evaluation|older|other) )?(?:"
    r"character|clip|evaluation|field|file|language|machine|model|process|recording|reference|request|row|run|"
    r"segment|sentence|source|text|time|token|visitor|window|word))(e?s)\b(?! from)"
    r"(?:((?: of [\w ]+?| that|, \{\w+\},)?) (are|have|need|wait|were)\b)?"
)
_OF_ONE = {"are": "is", "have": "has", "need": "needs", "wait": "waits", "were": "was"}


def filled_in(template: str, values: Mapping[str, object]) -> str:
    """A template with its values, in English with the singular where what it counts is one."""

    def counted(found: re.Match[str]) -> str:
        """How many there are, perhaps of how many, what of, and what they do."""
        things, part, name, plural, link, verb = found.groups("")
        things += "" if values.get(name) == 1 else plural
        does = _OF_ONE[verb] if verb and values.get(part or name) == 1 else verb
        return f"{things}{link} {does}" if verb else things

    return _COUNTED.sub(counted, template).format(**values)


class Message:
    """`Message("{size} are free.", size="3 GiB")`; compares by what it says."""

    def __init__(self, template: str, /, **values: object) -> None:
        """`template` is a `str.format` template in English, `values` what its fields stand for."""
        self.template = template
        self.values: Mapping[str, object] = values

    def __str__(self) -> str:
        return filled_in(self.template, self.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.template, self.values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.template, self.values) == (other.template, other.values)

    def __hash__(self) -> int:
        return hash(self.template)


def _rebuild(kind: type[Message], template: str, values: Mapping[str, object]) -> Message:
    """Messages cross the borders of processes, and keyword arguments need help to be copied."""
    return kind(template, **values)


@dataclass(frozen=True)
class Joined:
    """Several values in a row, as in "times, silence"."""

    items: tuple[object, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.items))


def to_plain(values: Mapping[str, object]) -> dict[str, Plain]:
    """The values of a message or an error for JSON; `from_plain` reads them."""
    return {name: _to_plain(value) for name, value in values.items()}


def message_to_plain(message: Message) -> dict[str, Plain]:
    """A sentence for JSON: its text for programs, template and values for whoever tells it in another
    language (`translation.message_from`)."""
    return {"text": str(message), "template": message.template, "values": to_plain(message.values)}


def from_plain(values: Mapping[str, Plain], known: Container[object] | None = None) -> dict[str, object]:
    """Values as `to_plain` wrote them.

    Raises:
        ValueError: if one is a message whose template is not `known`, where that is given.
    """
    return {name: _from_plain(value, known) for name, value in values.items()}


def _to_plain(value: object) -> Plain:
    if isinstance(value, Message):
        return {"template": value.template, "values": to_plain(value.values)}
    if isinstance(value, Joined):
        return [_to_plain(item) for item in value.items]
    # A template may want a number to be one; JSON has none that is not finite.
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _from_plain(value: Plain, known: Container[object] | None) -> object:
    if isinstance(value, list):
        return Joined(tuple(_from_plain(item, known) for item in value))
    if isinstance(value, dict):
        template, inner = value["template"], value["values"]
        if known is not None and template not in known:
            raise ValueError("a sentence of another make")
        return Message(str(template), **from_plain(inner if isinstance(inner, dict) else {}, known))
    return value
