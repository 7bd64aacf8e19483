"""Sentences for people that are put together where no language is known yet.

A sentence is a template and its values, as an error is (`studio.errors`): its English template is the key of
its translation. `str(sentence)` is the English one.
"""

from collections.abc import Mapping


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
