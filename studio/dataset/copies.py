"""Sounds that are inside of tables and archives, copied once to the cache as an audio folder with metadata.

The copy is what is read, again and again, and by every process of a run.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from filelock import FileLock

from studio.dataset.columns import Wanted, columns_of
from studio.errors import ManifestError, StorageError, StudioError, first_line
from studio.files import read_json, storage_errors, write_json
from studio.room import COPIES, Room, note_use
from studio.settings import Settings
from studio.units import MIB

TABLE = "metadata.jsonl"
_ORIGIN = "origin.json"
_PIECE_BYTES = 64 * MIB
"""Of a copy: room is asked for so much at once."""


@dataclass(frozen=True)
class Copies:
    """Where copies are kept, and how much of them."""

    folder: Path
    room: Room

    @classmethod
    def of(cls, settings: Settings, cache_dir: Path) -> "Copies":
        """Those that a studio keeps there."""
        return cls(cache_dir / "datasets", Room.of(settings, COPIES))


def places(whole: Path, max_rows: int | None) -> list[Path]:
    """Where so many rows are copied to; then where they may be: in a copy of all, or of more of them."""
    if max_rows is None:
        return [whole, whole]
    start = f"{whole.name}--first-"
    others = (path.name.removeprefix(start) for path in whole.parent.glob("*"))
    counts = sorted(int(count) for count in others if count.isdecimal() and int(count) >= max_rows)
    new, *begun = (whole.with_name(f"{start}{count}") for count in (max_rows, *counts))
    return [new, whole, *begun]


def copy_local(
    source: Path,
    files: Iterable[Path],
    rows: Iterator[dict[str, Any]],
    part: str,
    max_rows: int | None,
    copies: Copies,
    wanted: Wanted,
) -> Path:
    """The metadata file of a copy of `source`, whose `rows` are in `files`; made now unless there is one.

    Audio is a dict of `bytes` and `path`; where it has no bytes, the path stays as it is.

    Raises:
        ManifestError: if it cannot be read, or it is no speech.
        StorageError: if the copy cannot be written.
    """
    revision = _revision(files)
    place = hashlib.sha256(os.fsencode(source.resolve())).hexdigest()[:16]
    new, *others = places(copies.folder / f"folder--{place}" / part, max_rows)
    for copy in others:
        if is_current(copy, revision):
            return copy / TABLE
    return write_copy(_readable(rows, source), new, revision, max_rows, wanted, copies.room)


def _revision(files: Iterable[Path]) -> str:
    """Other files, or files that were written anew, have another one."""
    seen = []
    for path in files:
        try:
            status = path.stat()
        except OSError as error:
            raise ManifestError("There is no manifest {path}.", path=path) from error
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # a pipe is read for ever
            raise ManifestError("{path} is not a file.", path=path)
        seen.append((str(path), status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(seen)).encode("utf-8")).hexdigest()


def _readable(rows: Iterator[dict[str, Any]], source: Path) -> Iterator[dict[str, Any]]:
    """The rows, with whatever goes wrong on the way as a sentence."""
    try:
        is_empty = True
        for row in rows:
            is_empty = False
            yield row
        if is_empty:
            raise ManifestError("{source} has no rows.", source=source)
    except StudioError:
        raise
    except Exception as error:
        raise ManifestError(
            "The dataset {name} cannot be read ({reason}).", name=source, reason=first_line(error)
        ) from error


def is_current(copy: Path, revision: str) -> bool:
    """Whether there is a copy of this revision, which is used now."""
    try:
        origin = read_json(copy / _ORIGIN)
    except (OSError, ValueError):
        return False
    is_one = isinstance(origin, dict) and origin.get("revision") == revision and (copy / TABLE).is_file()
    if is_one:
        note_use(copy)
    return is_one


def write_copy(
    rows: Iterator[dict[str, Any]],
    copy: Path,
    revision: str,
    max_rows: int | None,
    wanted: Wanted,
    room: Room,
) -> Path:
    """Writes the rows beside `copy` and moves them there when all are written; gives back the metadata file.

    Raises:
        ManifestError: if the first row is no speech, or lacks the text that it needs.
        StorageError: if the copy cannot be written, or a Space has no room for it.
    """
    first = list(islice(rows, 1))
    for row in first:
        columns_of(tuple(row), wanted)
    aside = copy.with_name(f".{copy.name}.part")
    with storage_errors(copy), _held(copy):
        if is_current(copy, revision):  # another process of the run was first
            return copy / TABLE
        shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed
        try:
            aside.mkdir(parents=True)
            fits = _room_beside(aside, room)
            with (aside / TABLE).open("w", encoding="utf-8") as table:
                for number, row in enumerate(islice(chain(first, rows), max_rows)):
                    fits(sum(len(value["bytes"] or b"") for value in row.values() if is_audio(value)))
                    values = _written(row, number, aside)
                    # In ASCII: half of a character ends no copy.
                    line = json.dumps(values, default=str) + "\n"
                    fits(len(line))
                    table.write(line)
            write_json(aside / _ORIGIN, {"schema_version": 1, "revision": revision})
            shutil.rmtree(copy, ignore_errors=True)
            aside.replace(copy)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return copy / TABLE


def _room_beside(aside: Path, room: Room) -> Callable[[int], None]:
    """Asked before something is written whether it has room beside the other copies, of which old ones go."""
    coming = granted = 0

    def fits(size_bytes: int) -> None:
        """For so much more; asks for a large piece at a time."""
        nonlocal coming, granted
        coming += size_bytes
        if coming > granted and room.is_limited:
            granted = coming + _PIECE_BYTES
            others = (path for path in aside.parents[1].glob("*/*") if path != aside)
            if not room.take(others, granted):
                raise StorageError(
                    "This Space keeps {most} of data sets, and there is no room for this one beside "
                    "those that were used within the last hour: ask for fewer rows, try again later, or "
                    "duplicate the Space (in its menu ⋮).",
                    most=room.most,
                )

    return fits


def _held(copy: Path) -> FileLock:
    """Held by the process that writes a copy: others wait for it, and do not write theirs over it."""
    folder = copy.parents[2] / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{copy.parent.name}--{copy.name}.lock")


def _written(row: Mapping[str, Any], number: int, folder: Path) -> dict[str, Any]:
    """The row with its audio in a file of its own, whose name has no more than a part of the given one."""
    values = dict(row)
    for column, value in row.items():
        if not is_audio(value):
            continue
        values[column] = {"path": value["path"]}
        if value["bytes"] is not None:
            name = re.sub(r"[^\w.-]", "_", Path(str(value["path"] or "clip")).name)[-80:]
            file = f"{number:07d}-{name}"
            (folder / file).write_bytes(value["bytes"])
            values[column] = {"path": file}
    return values


def is_audio(value: Any) -> bool:
    """Whether a value is sound: its bytes, its place, or both."""
    return (
        isinstance(value, Mapping)
        and {"bytes", "path"} <= set(value)
        and isinstance(value["bytes"], bytes | None)
    )


def rows_of_dataset(data: Any) -> Iterator[dict[str, Any]]:
    """The rows of an `IterableDataset` of the library: audio as it is in its files, classes by name.

    Pictures and films are left out: to decode them the library opens what they name, wherever that is.
    """
    import datasets
    from datasets.features.features import require_decoding

    features = data.features or {}
    data = data.decode(False) if features else data
    others = {
        name
        for name, kind in features.items()
        if require_decoding(kind) and not isinstance(kind, datasets.Audio)
    }
    classes = {name: kind for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)}
    for row in data:
        named = {
            name: kind.int2str(row[name])
            for name, kind in classes.items()
            if isinstance(row[name], int) and row[name] >= 0
        }
        told = {name: _packed(value) for name, value in row.items() if name not in others}
        yield {**told, **named}


def _packed(value: Any) -> Any:
    """Bytes that stand alone, or have no path beside them, as the library has sound."""
    if isinstance(value, bytes):
        return {"bytes": value, "path": None}
    if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes):
        return {"path": None, **value}
    return value
