"""LJSpeech: `metadata.csv` with `ID|text|normalized text`, without a header; the sounds are beside it, or in
the folder `wavs` there. Lists of VITS have `a.wav|speaker|text`, those of GPT-SoVITS
`a.wav|speaker|language|text`.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from studio.dataset.audio import SOUND_FILES
from studio.dataset.columns import ALIASES
from studio.dataset.delimited import Row, open_text
from studio.dataset.places import without_root
from studio.errors import ManifestError

SOUND_FOLDER = "wavs"
_SEPARATOR = "|"
_FIRST_LINES = 1000
"""Enough to see what the second field is."""
_SECONDS = re.compile(r"\d+\.\d+")
"""CSS10 has the length of a sound behind its texts."""
_LANGUAGE = re.compile("[A-Za-z]{2,3}")


def is_one(path: Path, first_line: str) -> bool:
    """Whether a file that begins so is such a list."""
    fields = {field.strip().lower() for field in re.split("[|,\t]", first_line)}
    is_other = first_line[0] in "[{" or not fields.isdisjoint(ALIASES["audio"])  # JSON, or a header
    if is_other or _SEPARATOR not in first_line:
        return False
    return (path.parent / SOUND_FOLDER).is_dir() or _is_in(path.parent, first_line.partition(_SEPARATOR)[0])


def _is_in(folder: Path, name: str) -> bool:
    """Whether the sound that a line names is in the folder of its list: where it says, or loose."""
    place = PurePosixPath(without_root(_file_of(name.strip())))
    is_inside = bool(place.name) and ".." not in place.parts
    return is_inside and any(os.path.isfile(folder / each) for each in (place, place.name))  # noqa: PTH113


def rows(path: Path) -> Iterator[Row]:
    """A row a line; where the text is empty, the normalized one counts."""
    with open_text(path) as lines:
        first = [fields for line in islice(lines, _FIRST_LINES) if len(fields := line.split(_SEPARATOR)) == 3]
        seconds, thirds = ({fields[number].strip() for fields in first} for number in (1, 2))
        are_numbers = (
            any(seconds) and all(map(str.isdecimal, seconds)) and not any(map(str.isdecimal, thirds))
        )
        few_say_many = are_numbers or 2 * len(seconds) <= len(thirds)
        names = {
            2: ("audio", "text"),
            3: ("audio", "speaker", "text") if few_say_many else ("audio", "text", "normalized_text"),
            4: ("audio", "speaker", "language", "text"),
            6: ("audio", "text", "normalized_text"),  # what follows in KSS is the same once more
        }
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                fields = [field.strip() for field in line.split(_SEPARATOR)]
                count = 6 if _SECONDS.fullmatch(fields[-1]) else len(fields)
                yield _row(number, fields, names.get(count, ()))


def _row(number: int, fields: list[str], names: tuple[str, ...]) -> Row:
    values = dict(zip(names, fields, strict=False))
    if not values or not _LANGUAGE.fullmatch(values.get("language", "en")):
        problem = ManifestError(
            "The line has {count} fields between |, where ID|text or ID|text|normalized text is needed.",
            count=len(fields),
        )
        return Row(number, {}, problem)
    if "language" in values:
        values["language"] = values["language"].lower().replace("jp", "ja")
    return Row(number, {**values, "audio": _file_of(fields[0])})


def _file_of(name: str) -> str:
    """The file of an ID; empty if there is none."""
    return name if not name or Path(name).suffix.lower() in SOUND_FILES else f"{name}.wav"
