"""LJSpeech: `metadata.csv` with `ID|text|normalized text`, without a header, beside the folder `wavs`."""

import re
from collections.abc import Iterator
from pathlib import Path

from studio.dataset.audio import SOUND_FILES
from studio.dataset.columns import ALIASES
from studio.dataset.delimited import Row, open_text
from studio.errors import ManifestError

SOUND_FOLDER = "wavs"
_SEPARATOR = "|"


def is_one(path: Path, first_line: str) -> bool:
    """Whether a file that begins so is such a list."""
    fields = {field.strip().lower() for field in re.split("[|,\t]", first_line)}
    is_other = first_line[0] in "[{" or not fields.isdisjoint(ALIASES["audio"])  # JSON, or a header
    return _SEPARATOR in first_line and not is_other and (path.parent / SOUND_FOLDER).is_dir()


def rows(path: Path) -> Iterator[Row]:
    """A row a line; where the text is empty, the normalized one counts."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _row(number, [field.strip() for field in line.split(_SEPARATOR)])


def _row(number: int, fields: list[str]) -> Row:
    if len(fields) not in (2, 3):
        problem = ManifestError(
            "The line has {count} fields between |, where ID|text or ID|text|normalized text is needed.",
            count=len(fields),
        )
        return Row(number, {}, problem)
    name = fields[0]
    audio = name if Path(name).suffix.lower() in SOUND_FILES else f"{name}.wav"
    return Row(number, {"audio": audio if name else "", "text": fields[1], "normalized_text": fields[-1]})
