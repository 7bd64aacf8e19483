"""Files that other processes read: replaced whole, or appended to a line at a time."""

import codecs
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from studio.errors import ConfigError, StorageError
from studio.messages import Message
from studio.units import format_bytes

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first two bytes of a text in UTF-16, as Excel, Praat and Notepad write it."""
_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Bytes that file systems give a name, and all names of a path together."""
_ASIDE_BYTES = 40
"""So many of a name begin that of what lies aside until it is whole."""
_REMOVED = ".removed-"
_MOST_BELOW = 1_000_000
"""Nobody has so many clips in one folder; a whole disk has."""
_DEEPEST_YAML, _LONGEST_YAML_WORD = 50, 1000
"""Brackets and indents within one another, and characters of a word that could be a number."""
_TOO_DEEP = Message("it is nested too deeply")


class InFolder:
    """A file or folder of a fixed name, as an attribute of what knows the folder that it lies in."""

    def __init__(self, name: str, folder: str = "path") -> None:
        """`folder` is the attribute that has that folder."""
        self._name, self._folder = name, folder

    def __get__(self, owner: object, _kind: type) -> Path:
        return Path(getattr(owner, self._folder), self._name)


def user_path(text: str) -> Path:
    """A path as somebody has written it, `~` for their own folder included.

    Raises:
        ConfigError: if no file can have that name.
    """
    path = Path(text)
    with suppress(RuntimeError, ValueError):  # the folder of somebody who is not known, or cannot be
        path = path.expanduser()
    try:
        lengths = [len(os.fsencode(part)) for part in path.parts]
        is_short = max(lengths, default=0) <= _LONGEST_NAME and sum(lengths) + len(lengths) <= _LONGEST_PATH
        is_possible = is_short and "\0" not in text
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ConfigError(
            "{start} … can be no path: a name has at most {most} bytes, a path {most_together}, of "
            "characters that can be written.",
            start=ascii(text[:40])[1:-1] if not text.isprintable() else text[:40],
            most=_LONGEST_NAME,
            most_together=_LONGEST_PATH,
        )
    return path


def is_unicode(text: str) -> bool:
    """Whether it can be written in UTF-8; names of files can be any bytes, and JSON has lone surrogates."""
    return text.isascii() or re.search(r"[\ud800-\udfff]", text) is None


def in_unicode(text: object) -> str:
    """`text` as it can be written in UTF-8: what is no Unicode in it is escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(name: str, most_bytes: int) -> str:
    """The beginning of a file's name: disks count its bytes, of which a letter has up to four."""
    return name.encode("utf-8", "ignore")[:most_bytes].decode("utf-8", "ignore")


def is_listed(name: str) -> bool:
    """Whether a file or folder of this name is shown: it is not hidden, and can be written."""
    return not name.startswith(".") and is_unicode(name)


def is_folder(path: Path) -> bool:
    """Whether there is one that this user may look at: before Python 3.14, `Path.is_dir` raises if not."""
    return os.path.isdir(path)  # noqa: PTH112


def encoding_of(path: Path) -> str:
    """The encoding of a text that a person has saved: UTF-16, if it begins so; anything else is taken
    for UTF-8, with or without a mark.
    """
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in UTF16_MARKS else "utf-8-sig"


def files_below(folder: Path, endings: Collection[str]) -> list[Path]:
    """The files in a folder and below it whose names end in one of `endings` (".wav"), sorted.

    Folders that vanish meanwhile or cannot be opened are left out, and `._` files, in which macOS keeps what
    other disks cannot.

    Raises:
        ConfigError: if the folder holds more than a million files and folders.
    """
    found: list[Path] = []
    seen = 0
    for parent, folders, files in os.walk(folder):
        named = (name for name in files if not name.startswith("._"))
        found += [Path(parent, name) for name in named if Path(name).suffix.lower() in endings]
        seen += len(folders) + len(files)
        if seen > _MOST_BELOW:
            raise ConfigError(
                "{folder} holds more than {most:,} files and folders: name the one that has the recordings.",
                folder=folder,
                most=_MOST_BELOW,
            )
    return sorted(found)


def write_json(path: Path, value: object) -> None:
    """Replaces `path` with `value` as JSON, whole or not at all (write aside, flush, rename).

    Raises:
        StorageError: if the disk is full or the folder cannot be written.
    """
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replaces `path` with `text` in UTF-8, whole or not at all; what is no Unicode in it is escaped, as JSON
    does.

    Raises:
        StorageError: if the disk is full or the folder cannot be written.
    """
    with _written_aside(path, text) as aside:
        aside.replace(path)


def write_new(path: Path, text: str) -> None:
    """The same where nothing may be yet.

    Raises:
        ConfigError: if there is something.
        StorageError: if the disk is full or the folder cannot be written.
    """
    with _written_aside(path, text) as aside:
        try:
            path.hardlink_to(aside)
        except OSError as error:  # or the disk has no links
            if os.path.lexists(path):
                raise ConfigError("{path} is there already: name a new file.", path=path) from error
            aside.replace(path)


@contextmanager
def _written_aside(path: Path, text: str) -> Iterator[Path]:
    """A hidden file beside `path` that has `text` and is flushed; it goes at the end, unless it was moved."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{shortened(path.name, _ASIDE_BYTES)}.", suffix=".tmp"
        )
        aside = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            yield aside
        finally:
            aside.unlink(missing_ok=True)


def take_away(folder: Path) -> None:
    """Takes a folder, or a link to one, out of the list of its parent in one step; `sweep` deletes it.

    Raises:
        StorageError: if it cannot be moved.
    """
    with storage_errors(folder):
        folder.rename(folder.with_name(f"{_REMOVED}{uuid.uuid4().hex[:8]}"))


def sweep(parent: Path) -> None:
    """Deletes the folders that were taken away from here: also what a studio that was killed has left."""
    for leftover in parent.glob(f"{_REMOVED}*"):
        if leftover.is_symlink():
            with suppress(OSError):
                leftover.unlink()  # only the link: the folder it points to belongs to somebody
        else:
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def replaced_folder(path: Path, mark: str) -> Iterator[Path]:
    """A folder to be made aside, which then takes the place of `path`: there is the old one, or all of the
    new one. Of who has the same `mark`, what was left aside when it was killed goes, and nothing else.

    Raises:
        StorageError: if the disk is full or the folder cannot be written.
    """
    aside = path.with_name(f".{shortened(path.name, _ASIDE_BYTES)}.{mark}")
    new, old = aside / "new", aside / "old"
    with storage_errors(path):
        shutil.rmtree(aside, ignore_errors=True)
        try:
            yield new
            if path.exists():
                path.rename(old)
            new.rename(path)
        finally:
            if old.exists() and not path.exists():  # better than none
                old.rename(path)
            shutil.rmtree(aside, ignore_errors=True)


def file_digest(path: Path) -> bytes:
    """Sixteen bytes of what a file holds: once it is changed, it has others. Raises what `open` raises."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()


def read_json(path: Path) -> Any:
    """The JSON value in `path`; raises what `open` and `parse_json` raise."""
    return parse_json(path.read_text(encoding="utf-8"))


def noted(path: Path, name: str) -> str:
    """The text of that name in a JSON file; empty where there is no such file or name."""
    try:
        return str(read_json(path)[name])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def parse_json(text: str | bytes) -> Any:
    """The value of a text that somebody else has written.

    Raises:
        ValueError: if it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def parse_yaml(text: str) -> Any:
    """The value of a text that somebody else has written.

    Without aliases, tags, deep nesting and endless numbers: a few lines of those can stand for gigabytes, or
    for hours.

    Raises:
        ValueError: if it has such, or is no YAML of plain values.
    """
    import yaml

    begins = (
        *(yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken),
        *(yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken),
    )
    ends = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a sixth of the time, where it was built
    depth = 0
    try:
        for token in yaml.scan(text, Loader=loader):
            depth += isinstance(token, begins) - isinstance(token, ends)
            if isinstance(token, yaml.AliasToken):
                raise ValueError(Message("aliases (*name) are not taken: write the value out"))
            if isinstance(token, yaml.TagToken):
                raise ValueError(Message("tags (!name) are not taken: write the plain value"))
            if depth > _DEEPEST_YAML:
                raise ValueError(_TOO_DEEP)
            if isinstance(token, yaml.ScalarToken) and token.plain:
                word: str = token.value
                if word == "<<":
                    raise ValueError(Message("merged maps (<<) are not taken: write the values out"))
                if len(word) > _LONGEST_YAML_WORD and " " not in word and word.isascii():
                    raise ValueError(
                        Message("a word has more than {most} characters", most=_LONGEST_YAML_WORD)
                    )
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def append_json_line(path: Path, value: object) -> None:
    """Appends one line; a single `write` of a line keeps readers from seeing half of one for long.

    Half a line that is there already, of a process that was killed or a disk that was full, is ended first.
    """
    line = (json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    with storage_errors(path), path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.write(line)


def read_json_lines(path: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The complete lines from byte `offset` on, and the offset after them.

    A last line without its end (the writer is at work, or was killed) is left for the next call;
    a line that is not JSON (torn by a crash) is passed over.
    """
    if not path.exists():
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    end = data.rfind(b"\n") + 1
    rows = []
    for line in data[:end].splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows, offset + end


def forget_old(folder: Path, pattern: str, seconds: float) -> None:
    """Deletes the files of such a name that nobody has written to for so long."""
    for path in folder.glob(pattern):
        # What comes from the future was left before somebody set the clock back.
        with suppress(FileNotFoundError):  # whoever had it has just finished, or somebody else deletes, too
            if abs(time.time() - path.stat().st_mtime) > seconds:
                path.unlink()


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns a full disk and a missing permission into a sentence that names `path`.

    Raises:
        StorageError: if what is done within raises an `OSError`.
    """
    try:
        yield
    except PermissionError as error:
        raise StorageError(
            "No permission to write {path}: choose another folder or change its owner.", path=path
        ) from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StorageError(
            "Cannot write {path} ({reason}): free some space or choose another folder.",
            path=path,
            reason=reason,
        ) from error


def free_bytes(folder: Path) -> int:
    """What is left on the disk of a folder that may not be there yet."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(there).free


def require_free_space(folder: Path, needed_bytes: int) -> None:
    """Checks before long work that the disk under `folder` has room for `needed_bytes`.

    Raises:
        StorageError: if it has not.
    """
    free = free_bytes(folder)
    if free < needed_bytes:
        raise StorageError(
            "{folder} has {free} free, and this needs {needed}: free some space or set STUDIO_HOME "
            "to a folder on a larger disk.",
            folder=folder,
            free=format_bytes(free),
            needed=format_bytes(needed_bytes),
        )
