"""What a dataset's card may name: files of the dataset, and nothing else.

The library `datasets` opens whatever a card calls its data: files of this machine, and any address.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from studio.errors import ManifestError
from studio.files import parse_yaml
from studio.units import MIB, format_bytes

CARDS = ("README.md", ".huggingface.yaml")
"""Files of a dataset that say where its data are."""
MOST_BYTES = MIB
"""Of a card."""
_PLACES = ("data_files", "data_dir")


def require_own_files(card: Path, called: str) -> None:
    """Refuses a card, which is `called` so, if it leads out of its dataset.

    Raises:
        ManifestError: if one of its configurations does, or it is too long.
        ValueError: if it cannot be read.
    """
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    with card.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise too_long(called)
    text = content.decode("utf-8")
    if card.suffix == ".md":
        block = REGEX_YAML_BLOCK.search(text)
        text = block[2] if block else ""
    told = parse_yaml(text)
    configs = told.get("configs") if isinstance(told, dict) else None
    for config in configs if isinstance(configs, list) else ():
        places = [config.get(name) for name in _PLACES] if isinstance(config, dict) else ()
        if any(map(_leads_away, _texts(places))):
            raise files_elsewhere(called)


def too_long(card: str) -> ManifestError:
    """What to say of a card of more than `MOST_BYTES`."""
    return ManifestError(
        "{card} is longer than {most}, which no card needs.", card=card, most=format_bytes(MOST_BYTES)
    )


def files_elsewhere(card: str) -> ManifestError:
    """What to say of a file that leads out of the dataset that it is a part of."""
    return ManifestError(
        "{card} names files that are not in its dataset, and no others are opened: put them there.", card=card
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def _leads_away(place: str) -> bool:
    try:
        has_scheme = bool(urlsplit(place).scheme)
    except ValueError:
        return True
    steps = re.split(r"[\\/]", place)
    return has_scheme or "::" in place or "://" in place or ".." in steps or Path(place).is_absolute()
