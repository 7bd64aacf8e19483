"""VoxPopuli: a table a part (`asr_train.tsv`, …) that names its sounds without an ending; they lie beside it,
or in a folder a year.
"""

import json
import os
import re
from pathlib import Path, PurePath

from studio.dataset.columns import ALIASES
from studio.dataset.delimited import Row

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


def with_sound(folder: Path, column: str, row: Row) -> Row:
    """The row with the file that its column means, beside the list or in the folder of its year."""
    if row.error:
        return row
    name = str(row.values.get(column) or "").strip()
    year = name[:4]
    files = [f"{place}{name}{ending}" for place in ("", f"{year}/") for ending in _ENDINGS] if name else [""]
    is_plain = PurePath(name).name == name  # what leads elsewhere is looked for as all other files are
    found = next((file for file in files if is_plain and os.path.isfile(folder / file)), files[0])  # noqa: PTH113
    return row._replace(values={**row.values, "audio": found})
