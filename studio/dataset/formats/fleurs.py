"""FLEURS: a TSV a part (`train.tsv`, `dev.tsv`, `test.tsv`) without a header; the sounds are beside it, in a
folder of the part's name, or in that within the folder `audio`.

A line is ID, file, text as it is written, text in small letters without marks, its letters, samples, gender.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from studio.dataset.audio import SOUND_FILES
from studio.dataset.delimited import Row, open_text
from studio.errors import ManifestError

_FIELDS = 7
_SAMPLES = 5


def is_one(first_line: str) -> bool:
    """Whether a file that begins so is such a list."""
    fields = first_line.rstrip("\r").split("\t")
    return (
        len(fields) == _FIELDS
        and PurePosixPath(fields[1]).suffix.lower() in SOUND_FILES
        and fields[0].isdecimal()
        and fields[_SAMPLES].isdecimal()
    )


def places(path: Path) -> tuple[Path, ...]:
    """Where the sounds of a list are looked for."""
    beside, part = path.absolute().parent, path.name.partition(".")[0]
    return beside, beside / part, beside / "audio" / part, beside / "audio"


def rows(path: Path) -> Iterator[Row]:
    """A row a line, its texts called as on the hub, too; the one with capitals and marks counts."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _row(number, line.rstrip("\r\n").split("\t"))


def _row(number: int, fields: list[str]) -> Row:
    if len(fields) != _FIELDS:
        problem = ManifestError(
            "The line has {count} fields between tabs, where the {expected} of FLEURS are needed.",
            count=len(fields),
            expected=_FIELDS,
        )
        return Row(number, {}, problem)
    _sentence, file, written, plain = fields[:4]
    texts = {"text": written, "raw_transcription": written, "transcription": plain}
    return Row(number, {"audio": file, **texts})
