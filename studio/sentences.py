"""Sentences for people that are put together where no language is known yet.

A sentence is a template and its values, as an error is (`studio.errors`): its English template is the key of
its translation. `str(sentence)` is the English one. A value may be a sentence, an error, or a `Listing` of
such: it is then said in the same language.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from studio.errors import StudioError

Plain = str | list["Plain"] | dict[str, "Plain"]
"""What of a sentence goes into JSON: texts, and sentences that are values of it."""


class Sentence:
    """`Sentence("{size} are free.", size="3 GiB")`; compares by what it says."""

    def __init__(self, template: str, /, **values: object) -> None:
        """`template` is a `str.format` template in English, `values` what its fields stand for."""
        self.template = template
        self.values: Mapping[str, object] = values

    def __str__(self) -> str:
        return self.template.format(**self.values)

    def __repr__(self) -> str:
        return f"Sentence({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentence) and (self.template, self.values) == (other.template, other.values)

    def __hash__(self) -> int:
        return hash(self.template)


@dataclass(frozen=True)
class Listing:
    """Several values in a row, as in "times, silence"."""

    items: tuple[object, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.items))


def to_plain(values: Mapping[str, object]) -> dict[str, Plain]:
    """The values of a sentence or an error for JSON; `from_plain` reads them."""
    return {name: _to_plain(value) for name, value in values.items()}


def from_plain(values: Mapping[str, Plain]) -> dict[str, object]:
    """Values as `to_plain` wrote them."""
    return {name: _from_plain(value) for name, value in values.items()}


def _to_plain(value: object) -> Plain:
    if isinstance(value, Sentence | StudioError):
        return {"template": value.template, "values": to_plain(value.values)}
    return [_to_plain(item) for item in value.items] if isinstance(value, Listing) else str(value)


def _from_plain(value: Plain) -> object:
    if isinstance(value, list):
        return Listing(tuple(map(_from_plain, value)))
    if isinstance(value, dict):
        inner = value["values"]
        return Sentence(str(value["template"]), **from_plain(inner if isinstance(inner, dict) else {}))
    return value
