"""Text to rows: JSON array or object, JSON lines, CSV, TSV, told apart by what they hold, not by the file's
ending.

A file is read a line or a block at a time: the largest needs no more memory than its longest row.
"""

import codecs
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from studio.dataset.audio import SOUND_FILES
from studio.dataset.columns import ALIASES, Wanted
from studio.dataset.delimited import Row, csv_rows, open_bytes, open_text, tab_rows
from studio.dataset.encodings import not_utf8
from studio.errors import ManifestError
from studio.files import files_below
from studio.units import format_bytes

_BLOCK_BYTES = 2**20
_BETWEEN = {"[]": re.compile(r"[\s,]*"), "{}": re.compile(r"[\s,:]*")}
"""What stands between two values of an array, and keys and values of an object."""
_SOUND_ENDINGS = "|".join(map(re.escape, sorted(SOUND_FILES)))
_STRING = r'"(?:[^"\\]|\\.)*"'
_SAID_FIRST = rf'(?:{_STRING}\s*:\s*(?:{_STRING}|[^\s"{{}}\[\],]+)\s*,\s*)*'
_UNBROKEN = re.compile(
    rf'[\ufeff\s]*(\[|\{{\s*"[^"]*(?i:{_SOUND_ENDINGS})"\s*:|\{{\s*{_SAID_FIRST}"audios"\s*:\s*\[\s*\{{)'
)
"""How JSON begins that is read a value at a time, however long its lines are: an array, an object whose
first key is a sound file, or GigaSpeech's, with an array of recordings."""
_ITS_LANGUAGE = re.compile(r'"language"\s*:\s*"([A-Za-z-]+)"')
_BEGINNING_CHARACTERS = 2**14
"""More than the longest path has."""
_NO_JSON = (ValueError, RecursionError)
"""What Python's reader says of text that is no JSON, or is nested without end."""
_SEPARATOR = re.compile(r'"?sep=.?"?\s*')
"""A first line that tells Excel what stands between fields."""
_BLANK_LINE = re.compile(rb"\n[^\S\n]*(?=\n)|\r\r(?!\n)")
"""But `\\r\\r\\n` ends a single line: of a table that was written in Windows without `newline=""`."""
_MOST_BLANK_LINES = 100_000
"""A megabyte that is packed can hold a thousand million."""
_LARGEST_OBJECT_BYTES = 2**26
"""A single JSON object larger than this is not looked for; and a line is no longer, but that of an array."""


def rows_of(path: Path, blank_lines: int, first_line: str, wanted: Wanted) -> tuple[str, Iterator[Row]]:
    """The format of a manifest and its rows, read as they are asked for.

    `blank_lines` and `first_line` are what `check_text` has found.

    Where no text is `wanted`, a table needs no column of it, and a file may be a list of sound files, one a
    line.

    Raises:
        ManifestError: if it is none of the formats, or its header lacks a needed column. A JSON array may
            turn out broken later on.
    """
    if first_line[0] == "[":
        return "json", array_rows(path)
    if begin := _UNBROKEN.match(first_line):
        return "json", _rows_within(path, first_line) if begin[1].endswith("{") else _object_rows(path)
    if first_line[0] == "{":
        return _json_line_rows(path, first_line)
    if not wanted.needs_text and is_sound_list(first_line):
        return "list", _listed_rows(path)
    delimiter = max("\t,;|", key=first_line.count)
    if delimiter == "\t":
        return "tsv", tab_rows(path, first_line, blank_lines, wanted)
    return "csv", csv_rows(path, delimiter, blank_lines, wanted)


def is_sound_list(first_line: str) -> bool:
    """Whether a file that begins so is a list of sound files rather than a table with a header."""
    return Path(first_line.strip()).suffix.lower() in SOUND_FILES


def sound_rows(folder: Path) -> Iterator[Row]:
    """The sound files in a folder and those below it, in the order of their names, as rows without text."""
    for number, path in enumerate(files_below(folder, SOUND_FILES), start=1):
        yield Row(number, {"audio": path.relative_to(folder).as_posix()})


def _listed_rows(path: Path) -> Iterator[Row]:
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield Row(number, {"audio": line.strip()})


def check_text(path: Path) -> tuple[int, str]:
    """Goes through the file once; gives back how many lines are at the top that hold nothing, and the line
    after them.

    Raises:
        ManifestError: if it is missing, empty, or not UTF-8 text (with or without a byte order mark).
    """
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for ever
            raise ManifestError("{path} is not a file.", path=path)
        if path.suffix.lower() in SOUND_FILES:
            raise ManifestError("{path} is a recording: name a list that has it with its text.", path=path)
        with open_bytes(path) as file:
            _check_encoding(path, file)
    except FileNotFoundError as error:
        raise ManifestError("There is no manifest {path}.", path=path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise ManifestError(
            "The manifest {path} cannot be read: {reason}.", path=path, reason=error
        ) from error
    with open_text(path) as lines:
        if found := _UNBROKEN.match(lines.read(_BEGINNING_CHARACTERS)):
            return 0, found[1]
        lines.seek(0)
        for number, line in enumerate(iter(lambda: lines.readline(_LARGEST_OBJECT_BYTES), "")):
            begin = line.lstrip()
            if begin and not _SEPARATOR.fullmatch(begin):
                # A tab before a header is a column without a name: pandas writes its index so.
                first = begin if begin[0] == "{" else line.lstrip(" \r")
                return number, re.split("[\r\n]", first, maxsplit=1)[0]
    raise ManifestError("The manifest {path} is empty.", path=path)


def _check_encoding(path: Path, file: BinaryIO) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, blank_lines, length, is_unbroken = 1, 0, 0, False
    while block := file.read(_BLOCK_BYTES):
        if block.startswith(b"PK\x03\x04") and lines == 1 and length == 0:
            raise ManifestError(
                "{path} is a zip: upload it on the Train tab, or take it in with python -m studio add-data. "
                "Of a spreadsheet, save the table as CSV.",
                path=path,
            )
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            raise not_utf8(path, error.object, lines) from error
        if lines == 1 and length == 0:
            is_unbroken = _UNBROKEN.match(text) is not None
        if "\0" in text:
            raise ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=path)
        lines += block.count(b"\n")
        blank_lines += sum(1 for _ in _BLANK_LINE.finditer(block))
        if blank_lines > _MOST_BLANK_LINES:
            raise ManifestError(
                "{path} has more than {most:,} blank lines, and is no list of clips.",
                path=path,
                most=_MOST_BLANK_LINES,
            )
        length = len(block) - block.rfind(b"\n") - 1 + (length if b"\n" not in block else 0)
        if length > _LARGEST_OBJECT_BYTES and not is_unbroken:
            raise ManifestError(
                "{path} has a line of more than {size} (line {line}), which is no row of a list.",
                path=path,
                size=format_bytes(_LARGEST_OBJECT_BYTES),
                line=lines,
            )
    if decoder.getstate()[0]:
        raise not_utf8(path, b"", lines)


def array_rows(path: Path) -> Iterator[Row]:
    """The values of a JSON array, one at a time.

    Raises:
        ManifestError: where the text stops being JSON.
    """
    for number, value in enumerate(_values(path, "[]"), start=1):
        yield row_of(number, value)


def _rows_within(path: Path, begin: str) -> Iterator[Row]:
    """The values of the array in an object that begins so, with the language that it tells before."""
    language = _ITS_LANGUAGE.search(begin)
    for row in array_rows(path):
        spoken = {"language": language[1].lower()} if language else {}
        yield row._replace(values={**spoken, **row.values})


def _object_rows(path: Path) -> Iterator[Row]:
    """The sounds that a JSON object has for keys, one at a time: with its text each, or all that is known."""
    values = _values(path, "{}")
    for number, (audio, said) in enumerate(zip(values, values, strict=False), start=1):
        yield Row(number, {**(said if isinstance(said, dict) else {"text": said}), "audio": audio})


def _values(path: Path, ends: str) -> Iterator[Any]:
    """What stands between the `ends` of a JSON array or object; what is behind an array within an object is
    not looked at.

    Raises:
        ManifestError: where the text stops being JSON.
    """
    decoder, between = json.JSONDecoder(), _BETWEEN[ends]
    with open_text(path) as file:
        text, place, line = file.read(_BLOCK_BYTES), 0, 1
        begin = _UNBROKEN.match(text)
        is_all = begin is None or begin[1][0] == ends[0]
        place = begin.start(1) + begin[1].rindex("[") if begin and not is_all else text.index(ends[0])
        place += 1
        while True:
            place = between.match(text, place).end()  # type: ignore[union-attr]
            more = file.read(_BLOCK_BYTES) if len(text) - place < _BLOCK_BYTES else ""
            if more:
                line += text.count("\n", 0, place)
                text, place = text[place:] + more, 0
                place = between.match(text, place).end()  # type: ignore[union-attr]
            if text[place : place + 1] == ends[1]:
                if is_all and (text[place + 1 :].strip() or file.read(1).strip()):
                    raise ManifestError(
                        "{path} is not valid JSON (line {line}: extra data after its end).",
                        path=path,
                        line=line + text.count("\n", 0, place),
                    )
                return
            try:
                value, place = decoder.raw_decode(text, place)
            except _NO_JSON as error:
                more = file.read(_BLOCK_BYTES) if len(text) < _LARGEST_OBJECT_BYTES else ""
                if more:  # perhaps only the end of a long row is missing
                    line += text.count("\n", 0, place)
                    text, place = text[place:] + more, 0
                    continue
                line += text.count("\n", 0, getattr(error, "pos", place))
                raise ManifestError(
                    "{path} is not valid JSON (line {line}).", path=path, line=line
                ) from error
            yield value


def _json_line_rows(path: Path, first_line: str) -> tuple[str, Iterator[Row]]:
    """JSON lines; or one object of SpeechBrain, in which each clip has its id for a key."""
    begin, whole = _object_in(first_line), {}
    if (not begin or _has_ids(begin)) and path.stat().st_size <= _LARGEST_OBJECT_BYTES:
        with open_text(path) as file:
            whole = _object_in(file.read())
    if _has_ids(whole):
        return "json", (row_of(number, clip) for number, clip in enumerate(whole.values(), start=1))
    if whole and not begin:
        raise ManifestError(
            "{path} is a single JSON object: give an array of rows, or one object a line.", path=path
        )
    return "jsonl", parsed_lines(path)


def parsed_lines(path: Path) -> Iterator[Row]:
    """The rows of JSON lines; a line that is none is a row with the reason."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except _NO_JSON as error:
                at = getattr(error, "pos", 0) + 1
                yield Row(number, {}, ManifestError("The line is not valid JSON (at character {at}).", at=at))
                continue
            yield row_of(number, value)


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty if it is none."""
    try:
        value = json.loads(text)
    except _NO_JSON:
        return {}
    return value if isinstance(value, dict) else {}


def _has_ids(whole: Mapping[str, Any]) -> bool:
    """Whether an object is no row itself, and has such for values."""
    known = set(ALIASES["audio"])
    rows = [row for row in whole.values() if isinstance(row, dict)]
    return len(rows) == len(whole) and known.isdisjoint(whole) and not all(map(known.isdisjoint, rows))


def row_of(number: int, value: Any) -> Row:
    """A value of a JSON list as a row."""
    if isinstance(value, dict):
        return Row(number, value)
    return Row(
        number,
        {},
        ManifestError(
            "The row is {value}, where an object with audio and text is needed.",
            value=json.dumps(value, ensure_ascii=False)[:60],
        ),
    )


def number_of(value: Any, name: str) -> float | None:
    """A number from a table's cell; None if the cell is empty.

    Raises:
        ManifestError: if it is not a number, or not a finite one from zero up.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number >= 0):
        raise ManifestError(
            "{name} is {value!r}, where a number of seconds is needed.", name=name, value=str(value)[:40]
        )
    return number
