"""Common Voice: a TSV a part (`train.tsv`, `validated.tsv`, …) beside the folder `clips`."""

from pathlib import PurePath

from studio.dataset.delimited import Row

SOUND_FOLDER = "clips"
_COLUMNS = {"client_id", "path", "sentence"}
_ENDING = ".mp3"


def is_header(first_line: str) -> bool:
    """Whether a table that begins so is a part of Common Voice."""
    return set(first_line.rstrip("\r").split("\t")) >= _COLUMNS


def with_ending(row: Row) -> Row:
    """The row with the ending of its file, which some releases leave out."""
    path = row.values.get("path")
    if not path or PurePath(path).suffix:
        return row
    return row._replace(values={**row.values, "path": path + _ENDING})
