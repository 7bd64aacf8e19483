"""VoxPopuli: a table a part (`asr_train.tsv`, …) that names its sounds without an ending; they lie beside it,
or in a folder a year.
"""

import json
import os
import re
from contextlib import suppress
from pathlib import Path, PurePath

from studio.dataset.columns import ALIASES
from studio.dataset.delimited import Row
from studio.errors import ConfigError
from studio.files import files_below

_NAMES = ("audio_id", "id")
_TEXTS = {"raw_text", "normalized_text"}
_ENDINGS = (".ogg", ".wav", ".flac")


def name_column(first_line: str) -> str:
    """The column that names the sounds of a table, or JSON lines, that begin so; empty if it is another's."""
    try:
        row = json.loads(first_line)
    except (ValueError, RecursionError):
        row = re.split("[\t,]", first_line.rstrip("\r"))
    columns = {name for name in row if isinstance(name, str)} if isinstance(row, (dict, list)) else set()
    if not columns & _TEXTS or columns.intersection(ALIASES["audio"]):
        return ""
    return next((name for name in _NAMES if name in columns), "")


def ending_in(folder: Path) -> str:
    """What the sounds are that a folder has, perhaps in folders of its own (`train_part_0` on the Hub)."""
    found: set[str] = set()
    with suppress(ConfigError):  # it lies where all the files of a disk do
        found = {path.suffix for path in files_below(folder, _ENDINGS)}
    return next((ending for ending in _ENDINGS if ending in found), _ENDINGS[0])


def with_sound(folder: Path, column: str, ending: str, row: Row) -> Row:
    """The row with the file that its column means, beside the list or in the folder of its year; else with
    this ending, as which it is looked for elsewhere.
    """
    if row.error:
        return row
    name = str(row.values.get(column) or "").strip()
    year = name[:4]
    files = [f"{place}{name}{ending}" for place in ("", f"{year}/") for ending in _ENDINGS] if name else [""]
    is_plain = PurePath(name).name == name  # what leads elsewhere is looked for as all other files are
    other = f"{name}{ending}" if name else ""
    found = next((file for file in files if is_plain and os.path.isfile(folder / file)), other)  # noqa: PTH113
    return row._replace(values={**row.values, "audio": found})
