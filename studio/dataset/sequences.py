"""Long lists that are not in memory: rows in a file of their own, and views of other lists.

Up to `IN_MEMORY` items a list is an ordinary tuple; beyond that, items are made again whenever they are read.
"""

import json
import os
import re
import tempfile
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, Generic, TypeVar, overload

from studio.dataset.example import Example, TextSegment
from studio.files import storage_errors

T = TypeVar("T")
U = TypeVar("U")

IN_MEMORY = 20_000
"""An example with its strings takes about a kilobyte: this many are not worth a file."""
_SEGMENTS, _PARTS = map(list(Example.__dataclass_fields__).index, ("segments", "parts"))
"""Where these stand in a row, which has the fields of an example in their order."""


class _Items(Sequence[T], Generic[T]):
    """What the sequences here have in common: `_item`, by which all else is defined."""

    @abstractmethod
    def _item(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Chosen(self, range(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._item(index % len(self))

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self)))


class Chosen(_Items[T]):
    """The items of another sequence at certain places, in their order; a place may come more than once."""

    def __init__(self, items: Sequence[T], places: Iterable[int]) -> None:
        self._items = items
        self._places = places if isinstance(places, range) else array("q", places)

    def __len__(self) -> int:
        return len(self._places)

    def _item(self, index: int) -> T:
        return self._items[self._places[index]]


class Joined(_Items[T]):
    """Several sequences, one after the other."""

    def __init__(self, parts: Sequence[Sequence[T]]) -> None:
        self._parts = parts
        self._length = sum(map(len, parts))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for part in self._parts:
            yield from part

    def _item(self, index: int) -> T:
        for part in self._parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)


class Made(_Items[U], Generic[T, U]):
    """What a function makes of each item of another sequence, made anew each time."""

    def __init__(self, items: Sequence[T], make: Callable[[T], U]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[U]:
        return map(self._make, self._items)

    def _item(self, index: int) -> U:
        return self._make(self._items[index])


def chosen(items: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    """The items at these places: a tuple of them, or where they are many a view."""
    if len(places) <= IN_MEMORY:
        return tuple(items[place] for place in places)
    return Chosen(items, places)


def joined(parts: Sequence[Sequence[T]]) -> Sequence[T]:
    """One sequence after the other: a tuple, or where they are many a view."""
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) <= IN_MEMORY:
        return tuple(item for part in parts for item in part)
    return Joined(parts)


class StoredExamples(_Items[Example]):
    """Examples as lines of a file, found by their byte offsets: eight bytes of memory an example.

    The file is gone with the last reference to it. Other processes may read it: it is opened for each look.
    """

    def __init__(self, path: Path, offsets: "array[int]") -> None:
        """`offsets` has one entry more than there are examples."""
        self._path = path
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Example]:
        with self._path.open("rb") as file:
            for line in islice(file, len(self)):
                yield _example(json.loads(line))

    def _item(self, index: int) -> Example:
        start, end = self._offsets[index], self._offsets[index + 1]
        with self._path.open("rb", buffering=0) as file:
            file.seek(start)
            return _example(json.loads(file.read(end - start)))


def store(examples: Iterable[Example], folder: Path | None = None) -> Sequence[Example]:
    """The examples as a tuple if they are few, else in a file in `folder` (default: the system's).

    Raises:
        StorageError: if the file cannot be written.
    """
    waiting = iter(examples)
    first = tuple(islice(waiting, IN_MEMORY + 1))
    if len(first) <= IN_MEMORY:
        return first
    folder = folder or Path(tempfile.gettempdir())
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(folder)
        handle, name = tempfile.mkstemp(
            prefix=f"rows-{gethostname()}-{os.getpid()}-", suffix=".jsonl", dir=folder
        )
    path = Path(name)
    try:
        with storage_errors(path), os.fdopen(handle, "wb") as file:
            offsets = _write(chain(first, waiting), file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    stored = StoredExamples(path, offsets)
    weakref.finalize(stored, _remove, path, os.getpid())
    return stored


def _write(examples: Iterable[Example], file: BinaryIO) -> "array[int]":
    offsets = array("q", [0])
    for example in examples:
        text = json.dumps(example, default=_plain, ensure_ascii=False)
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        file.write(line)
        offsets.append(offsets[-1] + len(line))
    return offsets


def _remove_left_behind(folder: Path) -> None:
    """Files of processes of this machine that were killed before they could remove them: of another one that
    shares the folder, nobody here knows which processes live. Earlier versions named no machine."""
    import psutil

    own = re.compile(rf"rows-(?:{re.escape(gethostname())}-)?(\d+)-[^-]+\.jsonl")
    for path in folder.glob("rows-*.jsonl"):
        found = own.fullmatch(path.name)
        if found and not psutil.pid_exists(int(found[1])):
            path.unlink(missing_ok=True)


def _remove(path: Path, owner: int) -> None:
    """A process that was forked has a copy of the reference, and must leave the file alone."""
    if os.getpid() == owner:
        path.unlink(missing_ok=True)


def _plain(value: object) -> Any:
    """What JSON has no word for: a path, and an example or a segment as the list of its fields."""
    return str(value) if isinstance(value, Path) else list(vars(value).values())


def _example(row: list[Any]) -> Example:
    row[0] = Path(row[0])
    row[_SEGMENTS] = tuple(TextSegment(*segment) for segment in row[_SEGMENTS])
    row[_PARTS] = tuple(map(_example, row[_PARTS]))
    return Example(*row)
