"""An option of a run: a field that documents itself."""

from dataclasses import field
from typing import Any


def option(
    default: Any,
    group: str,
    text: str,
    *,
    choices: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with what form, command line and documentation need to know about it."""
    metadata = {"group": group, "help": text, "choices": choices, "aliases": aliases}
    if isinstance(default, (list, tuple)):
        return field(default=tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)
