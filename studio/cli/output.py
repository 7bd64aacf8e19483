"""Where things are printed: results on standard output, everything else on standard error."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from studio.errors import ConfigError, StorageError
from studio.files import is_folder, storage_errors, user_path
from studio.messages import Message
from studio.options.sources import LIST_ENDINGS, folder_and_splits, sources_of, split_of

if TYPE_CHECKING:
    # It leads to half of the studio, which `--help` and completion do not need.
    from studio.transcription.model_cache import ModelCache

_QUIET_SECONDS = 10.0
"""A log file gets a line of progress so often; a terminal sees each change in place."""
_COMMANDS = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
"""Characters that steer a terminal: texts of data sets and names of files may have them."""
_SHOWN = dict.fromkeys(_COMMANDS, "\N{REPLACEMENT CHARACTER}")
_ESCAPED = {code: f"\\u{code:04x}" for code in _COMMANDS}


def speak_utf8() -> None:
    """Transcripts are in any script, whatever the terminal's locale says."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def show(text: str = "") -> None:
    """A result, for people."""
    print(text.translate(_SHOWN), flush=True)


def show_json(value: object) -> None:
    """A result, for machines."""
    show(json.dumps(value, ensure_ascii=False, indent=2).translate(_ESCAPED))


def say(text: str) -> None:
    """What happens meanwhile."""
    print(text.translate(_SHOWN), file=sys.stderr, flush=True)


def give(as_json: bool, value: object, text: Callable[[], str]) -> None:
    """A result: `value` for machines, `text` for people, made only for them."""
    show_json(value) if as_json else show(text())


def done(sentence: str, as_json: bool, **facts: object) -> None:
    """Says what was done; for machines, tells it as the result, too."""
    say(sentence)
    if as_json:
        show_json({"schema_version": 1, **facts})


def say_shared(engines: "ModelCache") -> None:
    """Says so if a run is at work, which transcribing shares the machine with."""
    notice = engines.notice()
    if notice:
        say(str(notice))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, two spaces apart; numbers to the right."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    is_number = [
        bool(rows) and all(row[column][:1].isdigit() or row[column] in ("", "–") for row in rows)
        for column in range(len(header))
    ]
    padded = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def require_place(path: Path, option: str = "", read: Iterable[str | Path | None] = ()) -> Path:
    """Makes sure before long work that a file can be written at `path`, and is none of those that are `read`:
    paths, or data as a command names them.

    Raises:
        ConfigError: if `option` would replace what is read.
        StorageError: if `path` is a folder, or its folder cannot be made.
    """
    if path.is_dir():
        raise StorageError("{path} is a folder: name a file in it.", path=path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
    for given in read:
        sources = sources_of(given) if isinstance(given, str) else [given] if given else []
        if not is_new and any(_is_of(path, source) for source in sources):
            raise ConfigError(
                "{path} is read here, and {name} would replace it: name another place.",
                path=path,
                name=option,
            )
    return path


def require_places(
    given: argparse.Namespace, options: Sequence[str], read: Iterable[str | Path | None]
) -> None:
    """Makes sure of the file that each of the `options` names, if it is given: see `require_place`.

    Raises:
        ConfigError: if it would replace what is read, or two of them name one file.
        StorageError: if it cannot be written.
    """
    places: dict[Path, str] = {}
    for name in options:
        if place := getattr(given, name):
            require_place(place, f"--{name}", read)
            other = places.setdefault(place.resolve(), name)
            if other != name:
                raise ConfigError(
                    "--{one} and --{other} name one file, {path}: name two.",
                    one=other,
                    other=name,
                    path=place,
                )


def _is_of(path: Path, source: str | Path) -> bool:
    """Whether a file that is there is this one, or the list of a folder of data."""
    folder, splits = folder_and_splits(str(source))
    place = user_path(folder)
    with suppress(OSError):  # what may not be looked at is refused where it is read
        if isinstance(source, Path) or not is_folder(place):
            return path.samefile(place)
        if path.suffix.lower() in LIST_ENDINGS and path.parent.samefile(place):
            # Beside metadata no other list is read but those of splits; without, every one.
            is_split = path.stem in splits.split("+") or split_of(path.stem) != ""
            return is_split or path.stem == "metadata" or not any(place.glob("metadata.*"))
    return False


class ProgressLine:
    """One line that is overwritten in a terminal, and written now and then into a log; `with` ends it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._width = 0
        self._last = self._written = ""
        self._next_seconds = 0.0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def update(self, text: str) -> None:
        """Shows `text` instead of what was shown before."""
        text = text.translate(_SHOWN)
        if text == self._last:
            return
        if self._stream.isatty():
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif time.monotonic() >= self._next_seconds:
            self._stream.write(text + "\n")
            self._written = text
            self._next_seconds = time.monotonic() + _QUIET_SECONDS
        self._last = text
        self._stream.flush()

    def step(self, doing: Message, share: float) -> None:
        """Shows what is being done, and how far the work is."""
        self.update(f"{doing} ({share:.0%})")

    def end(self) -> None:
        """Leaves the line, so that what follows begins on its own."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0
        elif self._written not in ("", self._last):  # a log that went on ends with how far it came
            self._stream.write(self._last + "\n")
            self._stream.flush()
            self._written = self._last
