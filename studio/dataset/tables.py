"""Text to rows: JSON array, JSON lines, CSV, TSV, told apart by what they hold, not by the file's ending."""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from studio.dataset.columns import columns_of
from studio.errors import ManifestError


class Row(NamedTuple):
    """One row as it stands, or why it cannot even be read."""

    line: int
    values: Mapping[str, Any]
    error: ManifestError | None = None


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without a byte order mark.

    Raises:
        ManifestError: if it is missing, empty, or not UTF-8 text.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ManifestError("There is no manifest {path}.", path=path) from error
    except OSError as error:
        raise ManifestError(
            "The manifest {path} cannot be read: {reason}.", path=path, reason=error
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(
            "{path} is not UTF-8 text (line {line}): save it again in UTF-8.", path=path, line=line
        ) from error
    if "\0" in text:
        raise ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=path)
    if not text.strip():
        raise ManifestError("The manifest {path} is empty.", path=path)
    return text


def rows_of(text: str, path: Path) -> tuple[str, Iterator[Row]]:
    """The format of a manifest's text and its rows.

    Raises:
        ManifestError: if the text is none of the formats, or its header lacks a needed column.
    """
    first = text.lstrip()[0]
    if first == "[":
        return "json", iter(_array_rows(text, path))
    if first == "{":
        return "jsonl", _json_line_rows(text, path)
    header = text[: len(text) - len(text.lstrip())].count("\n") + 1
    delimiter = max("\t,;", key=text.lstrip().splitlines()[0].count)
    if delimiter == "\t":
        return "tsv", _tab_rows(text, path)
    return "csv", _csv_rows(text, path, delimiter, header)


def _array_rows(text: str, path: Path) -> list[Row]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise _not_json(path, error) from error
    return [_row(number, value) for number, value in enumerate(values, start=1)]


def _not_json(path: Path, error: ValueError) -> ManifestError:
    line = getattr(error, "lineno", 1)
    return ManifestError(
        "{path} is not valid JSON (line {line}: {reason}).", path=path, line=line, reason=str(error)
    )


def _json_line_rows(text: str, path: Path) -> Iterator[Row]:
    lines = text.split("\n")
    if _is_one_object(text, lines):
        raise ManifestError(
            "{path} is a single JSON object: give an array of rows, or one object a line.", path=path
        )
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            yield Row(number, {}, ManifestError("The line is not valid JSON ({reason}).", reason=str(error)))
            continue
        yield _row(number, value)


def _is_one_object(text: str, lines: list[str]) -> bool:
    first = next(line for line in lines if line.strip())
    try:
        json.loads(first)
    except ValueError:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True
    return False


def _row(number: int, value: Any) -> Row:
    if isinstance(value, dict):
        return Row(number, value)
    return Row(
        number,
        {},
        ManifestError(
            "The row is {value}, where an object with audio and text is needed.", value=repr(value)[:60]
        ),
    )


def _csv_rows(text: str, path: Path, delimiter: str, header_line: int) -> Iterator[Row]:
    reader = csv.reader(text.lstrip().splitlines(keepends=True), delimiter=delimiter, strict=True)
    try:
        names = next(reader)
    except csv.Error as error:
        raise ManifestError("{path} has no readable header: {reason}.", path=path, reason=error) from error
    _check_header(names, path)
    return _records(reader, names, header_line - 1)


def _records(reader: Any, names: list[str], offset: int) -> Iterator[Row]:
    while True:
        line = reader.line_num + 1 + offset
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = ManifestError(
                "The quotation marks do not match, or a field is too long ({reason}).", reason=str(error)
            )
            yield Row(line, {}, problem)
            continue
        if fields:
            yield _fields_row(line, fields, names)


def _tab_rows(text: str, path: Path) -> Iterator[Row]:
    """TSV as speech corpora write it: quotation marks are text, unless the whole field is in them."""
    lines = text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.strip())
    names = _tab_fields(lines[start])
    _check_header(names, path)
    return (
        _fields_row(number, _tab_fields(line), names)
        for number, line in enumerate(lines[start + 1 :], start=start + 2)
        if line.strip()
    )


def _tab_fields(line: str) -> list[str]:
    return [_unquoted(field) for field in line.rstrip("\r").split("\t")]


def _unquoted(field: str) -> str:
    inner = field[1:-1]
    if len(field) >= 2 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return field


def _check_header(names: list[str], path: Path) -> None:
    """A header is wrong for all rows, so it is refused before any of them."""
    try:
        columns_of(tuple(names))
    except ManifestError as error:
        raise ManifestError("{path}, header: {reason}", path=path, reason=str(error)) from error


def _fields_row(line: int, fields: list[str], names: list[str]) -> Row:
    if len(fields) > len(names):
        problem = ManifestError(
            "The line has {found} fields and the header {expected}: put text that has a separator in quotes.",
            found=len(fields),
            expected=len(names),
        )
        return Row(line, {}, problem)
    return Row(line, dict(zip(names, fields, strict=False)))


def number_of(value: Any, name: str) -> float | None:
    """A number from a table's cell; None if the cell is empty.

    Raises:
        ManifestError: if it is not a number, or not a finite one from zero up.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number >= 0):
        raise ManifestError(
            "{name} is {value!r}, where a number of seconds is needed.", name=name, value=str(value)[:40]
        )
    return number
