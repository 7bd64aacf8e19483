"""A row of a manifest, and the rows of CSV and TSV, each read as it is written."""

import csv
import gzip
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from studio.dataset.audio import SOUND_FILES
from studio.dataset.columns import Wanted, columns_of
from studio.errors import ManifestError, in_brief
from studio.files import UTF16_MARKS

_GZIP = b"\x1f\x8b"
"""What files packed with gzip begin with."""
UNNAMED = ["audio_path", "text"]
"""The columns of a list without a header."""
_MOST_BREAKS = 50
"""Of lines within one field."""
_MOST_UTF16_BYTES = 2**28
"""A million rows of a spreadsheet, which is where such lists come from, have less."""


class Row(NamedTuple):
    """One row as it stands, or why it cannot even be read."""

    line: int
    values: Mapping[str, Any]
    error: ManifestError | None = None


def open_text(path: Path, newline: str = "\n") -> TextIO:
    """A manifest as text, with no byte order mark."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline=newline)


def open_bytes(path: Path) -> BinaryIO:
    """A manifest as bytes of UTF-8, unpacked if it was packed with gzip.

    Raises:
        ManifestError: if it begins as UTF-16 does, and is none, or more than fits into the memory.
    """
    file = path.open("rb")
    begin = file.peek(2)[:2]
    if begin in UTF16_MARKS:
        with file:
            return io.BytesIO(_from_utf16(path, file.read(_MOST_UTF16_BYTES + 1)))
    if begin != _GZIP:
        return file
    file.close()
    return cast(BinaryIO, gzip.open(path, "rb"))


def _from_utf16(path: Path, data: bytes) -> bytes:
    """The text in UTF-8."""
    try:
        if len(data) <= _MOST_UTF16_BYTES:
            return data.decode("utf-16").encode()
    except ValueError:
        pass
    raise ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=path)


def csv_rows(path: Path, delimiter: str, blank_lines: int, wanted: Wanted) -> Iterator[Row]:
    """Rows of a table whose fields may be in quotation marks; `blank_lines` are those above its header.

    Raises:
        ManifestError: if the header cannot be read or lacks a needed column.
    """
    lines = _from_header(path, blank_lines, newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        names = next(filter(None, reader))  # lines that end as in old spreadsheets are told apart only here
    except csv.Error as error:
        raise ManifestError("{path} has no readable header: {reason}.", path=path, reason=error) from error
    if _is_clip(names, wanted):
        return headerless_rows(path, delimiter, blank_lines)
    _check_header(names, path, wanted)
    return _records(lines, delimiter, names, blank_lines + reader.line_num + 1)


def headerless_rows(path: Path, separator: str, blank_lines: int) -> Iterator[Row]:
    """Rows of a list without a header: a sound, and behind a tab, white space (" ") or the separator of a CSV
    its text."""
    if separator == "\t":
        yield from _tab_records(
            chain(["-"], _from_header(path, blank_lines, "\n")), UNNAMED, blank_lines, False
        )
    elif separator == " ":
        for number, line in enumerate(_from_header(path, blank_lines, "\n"), start=blank_lines + 1):
            if line.strip():
                yield _fields_row(number, line.split(maxsplit=1), UNNAMED)
    else:
        yield from _records(_from_header(path, blank_lines, newline=""), separator, UNNAMED, blank_lines + 1)


def _is_clip(fields: Sequence[str], wanted: Wanted) -> bool:
    """Whether what stands where a header would is a sound file and its text: the list has none then."""
    return (
        len(fields) == len(UNNAMED)
        and not wanted.named
        and PurePath(fields[0].strip()).suffix.lower() in SOUND_FILES
    )


def _from_header(path: Path, blank_lines: int, newline: str) -> Iterator[str]:
    """The lines from the header on, which may be indented."""
    with open_text(path, newline) as file:
        lines = islice(file, blank_lines, None)
        yield next(lines).lstrip()
        yield from lines


def _records(lines: Iterator[str], delimiter: str, names: list[str], line: int) -> Iterator[Row]:
    """The rows below the header, the first of which begins in `line`; a mark that nobody closes takes no row
    with it but its own."""
    again: deque[str] = deque()
    taken: list[str] = []

    def following() -> Iterator[str]:
        """The next lines, noted: how many belong to the row is known only behind it."""
        while text := again.popleft() if again else next(lines, ""):
            taken.append(text)
            yield text

    reader = csv.reader(following(), delimiter=delimiter, strict=True)
    while True:
        taken.clear()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = ManifestError(
                "The quotation marks do not match, or a field is too long ({reason}).", reason=in_brief(error)
            )
            yield Row(line, {}, problem)
            again.extendleft(reversed(taken[1:]))
            reader = csv.reader(following(), delimiter=delimiter, strict=True)
            line += 1
            continue
        if fields:
            yield _fields_row(line, fields, names)
        line += len(taken)


def tab_rows(
    path: Path, first_line: str, blank_lines: int, wanted: Wanted, *, marks_are_text: bool = False
) -> Iterator[Row]:
    """TSV as speech corpora write it: quotation marks are text, unless they enclose the whole field.

    Where `marks_are_text`, even those are, unless the field has a quotation mark or a line break
    within them: only then was there a reason to enclose it.

    Raises:
        ManifestError: if the header, which is `first_line`, lacks a needed column.
    """
    names = [_unquoted(field) for field in _tab_fields(first_line)]
    has_header = not _is_clip(names, wanted)
    names = names if has_header else UNNAMED
    _check_header(names, path, wanted)
    header = next(_from_header(path, blank_lines, newline="\n"))
    newline = "\r" if "\r" in header.rstrip("\r\n") else "\n"  # of old spreadsheets
    lines = _from_header(path, blank_lines, newline)
    if not has_header:
        return _tab_records(chain(["-"], lines), names, blank_lines, marks_are_text)
    return _tab_records(lines, names, blank_lines + 1, marks_are_text)


def _tab_records(lines: Iterator[str], names: list[str], line: int, marks_are_text: bool) -> Iterator[Row]:
    """The rows below the header, which is in `line`."""
    while not next(lines).strip():  # lines that end as in old spreadsheets are told apart only here
        line += 1
    ahead: deque[str] = deque()
    while text := ahead.popleft() if ahead else next(lines, ""):
        line += 1
        if not text.strip():
            continue
        fields, begin = _tab_fields(text), line
        while _is_open(fields[-1]):
            ahead.extend(islice(lines, _MOST_BREAKS - len(ahead)))
            taken = _lines_of_field(fields, ahead, len(names))
            for _ in range(taken):
                first, *others = _tab_fields(ahead.popleft())
                fields[-1:] = [f"{fields[-1]}\n{first}", *others]
            line += taken
            if not taken:
                break
        yield _fields_row(begin, [_unquoted(field, marks_are_text) for field in fields], names)


def _lines_of_field(fields: list[str], ahead: Iterable[str], most: int) -> int:
    """How many of the next lines belong to the last field, whose mark is closed in the last of them; 0 if it
    is a character of the text."""
    quoted = fields[-1]
    for number, text in enumerate(ahead, start=1):
        first, *others = _tab_fields(text)
        quoted += first
        if not _is_open(quoted):
            return number if first.endswith('"') and len(fields) + len(others) <= most else 0
        if others:
            return 0
    return 0


def _is_open(field: str) -> bool:
    """Whether a field begins with a mark that is not closed in it."""
    return field.startswith('"') and field.count('"') % 2 == 1


def _tab_fields(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _unquoted(field: str, marks_are_text: bool = False) -> str:
    if len(field) < 2 or not field[0] == field[-1] == '"':
        return field
    inner = field[1:-1]
    called_for = not marks_are_text or '"' in inner or "\n" in inner
    return inner.replace('""', '"') if called_for and '"' not in inner.replace('""', "") else field


def _check_header(names: list[str], path: Path, wanted: Wanted) -> None:
    """A header is wrong for all rows, so it is refused before any of them."""
    try:
        columns_of(tuple(names), wanted)
    except ManifestError as error:
        if any(PurePath(word).suffix.lower() in SOUND_FILES for name in names for word in name.split()):
            raise ManifestError(
                "{path} begins with a clip, where the names of its columns are needed: put a line such as "
                "audio_path,text above it.",
                path=path,
            ) from error
        raise ManifestError("{path}, header: {reason}", path=path, reason=in_brief(error)) from error


def _fields_row(line: int, fields: list[str], names: list[str]) -> Row:
    if len(fields) > len(names):
        problem = ManifestError(
            "The line has {found} fields and the header {expected}: put text that has a separator in quotes.",
            found=len(fields),
            expected=len(names),
        )
        return Row(line, {}, problem)
    return Row(line, dict(zip(names, fields, strict=False)))


_FORMULA = re.compile(r"[=+@\t\r-]")
"""What a spreadsheet takes for the beginning of a formula, which may send data or start programs."""


def for_spreadsheets(value: object) -> object:
    """A text that a spreadsheet shows, and does not carry out: an apostrophe before what looks like a formula
    (OWASP, CSV injection); anything else as it is."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def from_spreadsheet(text: str) -> str:
    """The text as it was before `for_spreadsheets`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text
