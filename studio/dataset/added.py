"""Data that somebody brings along: files, and what zips hold, as a folder of the studio.

Zips come from anywhere: no name in one leads out of the folder, nothing becomes a link, and what is written
is counted. It lies aside until all of it is there, so a folder that has a name is whole.
"""

import io
import math
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any
from unicodedata import normalize

from filelock import FileLock, Timeout

from studio.dataset.columns import Wanted, columns_of
from studio.dataset.formats import kaldi
from studio.dataset.formats.known import read_list
from studio.dataset.manifest import read_manifest
from studio.dataset.places import spellings, without_root
from studio.dataset.rows import audio_of
from studio.dataset.sequences import IN_MEMORY
from studio.errors import ConfigError, DataError, StudioError
from studio.files import require_free_space, storage_errors, user_path
from studio.messages import Message
from studio.options.sources import LIST_ENDINGS, checked_name
from studio.settings import Settings
from studio.units import MIB, format_bytes
from studio.watching import ShouldStop, never, untold

SCHEMA_VERSION = 1
MOST_FILES = 200_000
_LISTING_BYTES = 256
"""Of a zip's list of contents, for each file: a longer list is not read."""
_PIECE_BYTES = MIB
_DEEPEST = 50
_OTHER_ARCHIVES = (".7z", ".rar")
_SYSTEM = ("__macosx", "thumbs.db", "desktop.ini")
"""What systems put beside the files of people; other files of theirs begin with a dot."""
_COMING, _LOCK = ".coming", ".lock"
"""Where it lies aside, and who is at it."""
_LOOK_SECONDS = 0.5
_IS_UTF8, _IS_ENCRYPTED = 0x800, 0x1
"""Flags of a file in a zip."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError)
"""What zipfile raises of bytes that make no sense."""
_SOUNDS = Wanted(needs_text=False)
_LISTS = (*LIST_ENDINGS, ".jsonl.gz", kaldi.RECORDINGS)


@dataclass(frozen=True)
class Added:
    """What was taken."""

    folder: Path
    source: Path
    """What to name as training data: the folder, or the one in it that has everything."""
    files: int
    size_bytes: int
    left_out: int
    """Hidden files and those of systems, such as `.DS_Store`."""
    problem: Message | None
    """Why it cannot be read as training data as it is."""
    unusable_rows: int = 0
    """Of its list, or of the beginning of a long one."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.folder.name,
            "train_data": str(self.source),
            "files": self.files,
            "size_bytes": self.size_bytes,
            "left_out": self.left_out,
            "problem": str(self.problem) if self.problem else None,
            "unusable_rows": self.unusable_rows,
        }


@dataclass(frozen=True)
class _Coming:
    """A file that is to be taken."""

    origin: str
    """Name of the zip that it is in, or its own."""
    place: PurePosixPath
    """In the folder."""
    size_bytes: int
    """As it says itself."""
    open: Callable[[], IO[bytes] | io.RawIOBase]


class _StoppedError(Exception):
    """Nobody waits for it any more."""


class _TooManyError(Exception):
    """A zip has more files than it may."""


class _Listed(io.FileIO):
    """A zip's file. Its list of contents, which zipfile reads in one piece, may be that of `most_files`."""

    def __init__(self, file: Path, most_files: int) -> None:
        super().__init__(file)
        self._most_bytes = max(_PIECE_BYTES, _LISTING_BYTES * most_files)

    def read(self, size: int | None = -1, /) -> bytes:
        """As of any file, but not so much at once."""
        if size is not None and size > self._most_bytes:
            raise _TooManyError
        return super().read(-1 if size is None else size) or b""


def add_data(
    files: Sequence[Path],
    settings: Settings,
    name: str = "",
    *,
    most_bytes: float = math.inf,
    most_files: int = MOST_FILES,
    require_room: Callable[[int], None] = lambda size_bytes: None,
    on_progress: Callable[[int, int], None] = untold,
    should_stop: ShouldStop = never,
) -> Added | None:
    """Unpacks the zips among `files` and copies the others into a new folder beside the data sets that were
    added before; None if stopped.

    Without a `name` the folder is called as the zip, or the list. `require_room` may refuse so many bytes,
    and `on_progress` is told how many of them are there.

    Raises:
        ConfigError: if there is no such file, or the name cannot be used.
        DataError: if a zip is damaged, encrypted, larger than `most_bytes`, of more than `most_files`, or has
            names or links that lead elsewhere. Nothing is kept then.
        StorageError: if the disk has no room.
    """
    root = settings.datasets
    with ExitStack() as stack:
        found = [each for file in files for each in _files_in(file, stack, most_files)]
        coming = [each for each in found if not _is_hidden(each.place)]
        if not coming:
            raise DataError(
                "There is no file to take in {names}: give a zip with recordings and their list, or those.",
                names=", ".join(file.name for file in files[:3]) or "–",
            )
        total = sum(each.size_bytes for each in coming)
        if total > most_bytes:
            raise _too_large(files[0].name, total, most_bytes)
        require_room(total)
        require_free_space(root, total)
        try:
            stack.enter_context(_turn(root, should_stop))
            folder = _folder(root, name, files)
            aside = stack.enter_context(_aside(root / _COMING))
            size_bytes = _write_all(coming, aside, total, on_progress, should_stop)
            _put_where_named(aside)
        except _StoppedError:
            return None
        with storage_errors(folder):
            aside.rename(folder)
    source, left_out = source_in(folder), len(found) - len(coming)
    return Added(folder, source, len(coming), size_bytes, left_out, *_looked_at(source, settings))


def data_sets(root: Path) -> Mapping[str, Path]:
    """Name → what to give as training data, of all that were added, the newest first."""
    folders = [path for path in root.glob("[!.]*") if path.is_dir()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return {path.name: source_in(path) for path in folders}


def source_in(folder: Path) -> Path:
    """The folder itself, or the one in it where everything is: zips of a folder begin with its name."""
    inside = list(islice(folder.iterdir(), 2))
    return source_in(inside[0]) if len(inside) == 1 and inside[0].is_dir() else folder


def _looked_at(source: Path, settings: Settings) -> tuple[Message | None, int]:
    """Why nothing of it can be used, and how many rows cannot; of what is packed, the first is looked at."""
    read = partial(read_manifest, str(source), settings, local_files_only=True)
    try:
        first = read(max_rows=1)
        return None, len(read(max_rows=IN_MEMORY).problems) if first.listed_in else 0
    except StudioError as error:
        return error.message(), 0


# ---------------------------------------------------------------------- what comes


def _files_in(file: Path, stack: ExitStack, most_files: int) -> Iterator[_Coming]:
    """The files of a zip, which stays open; of anything else, itself."""
    if not file.is_file():
        raise ConfigError("There is no file {file}: give a zip, or recordings and their list.", file=file)
    if file.suffix.lower() in _OTHER_ARCHIVES:
        raise DataError("{file} is an archive that is not read here: make a zip of it.", file=file.name)
    if file.suffix.lower() != ".zip":
        yield _Coming(file.name, PurePosixPath(file.name), file.stat().st_size, partial(io.FileIO, file))
        return
    try:
        with _damage(file.name):
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(_Listed(file, most_files))))
        if len(archive.infolist()) > most_files:
            raise _TooManyError
    except _TooManyError:
        raise DataError(
            "{file} has more files than the {most:,} that a zip may have here: make several of it.",
            file=file.name,
            most=most_files,
        ) from None
    for member, name in zip(archive.infolist(), _names(archive), strict=True):
        if name.endswith("/"):
            continue
        place = _place(name, file.name)
        if not _is_hidden(place):
            _require_plain(member, name, file.name)
        yield _Coming(file.name, place, member.file_size, partial(archive.open, member))


def _names(archive: zipfile.ZipFile) -> list[str]:
    """The names of a zip's files, with the separators of this place.

    Programs that do not say how names are written write UTF-8 (macOS), or what their country does; zipfile
    takes either for code page 437, whose accents make no GB 2312.
    """
    members = archive.infolist()
    names = [member.filename for member in members]
    for encoding in ("utf-8", "gb2312"):
        with suppress(UnicodeError):
            names = [
                name if member.flag_bits & _IS_UTF8 else name.encode("cp437").decode(encoding)
                for name, member in zip(names, members, strict=True)
            ]
            break
    return [name.replace("\\", "/") for name in names]


def _place(name: str, archive: str) -> PurePosixPath:
    """Where in the folder the file of a zip belongs."""
    path = PurePosixPath(name)
    has_drive = any(PureWindowsPath(part).drive for part in path.parts)
    leads_away = path.is_absolute() or ".." in path.parts or has_drive
    if leads_away or not 0 < len(path.parts) <= _DEEPEST or any(letter < " " for letter in name):
        raise DataError(
            "{archive} has a file with the name {name!r}, which is not taken: names in a zip begin at its "
            "top and lead at most {most} folders down. Pack the folder again.",
            archive=archive,
            name=name[:80],
            most=_DEEPEST,
        )
    user_path(name)
    return path


def _require_plain(member: zipfile.ZipInfo, name: str, archive: str) -> None:
    """Refuses what is not an ordinary file that anybody can unpack."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise DataError(
            "{name} in {archive} is a link: make the zip with the files themselves.",
            name=name[-80:],
            archive=archive,
        )
    if member.flag_bits & _IS_ENCRYPTED:
        raise DataError("{archive} is encrypted: make a zip without a password.", archive=archive)
    if member.compress_type not in _METHODS:
        raise DataError(
            "{name} in {archive} is packed in a way that is not read here: choose Deflate, the usual one.",
            name=name[-80:],
            archive=archive,
        )


def _is_hidden(place: PurePosixPath) -> bool:
    return any(part.startswith(".") or part.lower() in _SYSTEM for part in place.parts)


def _too_large(name: str, size_bytes: int, most_bytes: float) -> DataError:
    return DataError(
        "{name} has {size} unpacked, and {most} are taken at once: make several of it, or have the folder "
        "copied to the server and give its path.",
        name=name,
        size=format_bytes(size_bytes),
        most=format_bytes(most_bytes),
    )


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Turns what is said of a file that cannot be read into a sentence."""
    try:
        yield
    except _DAMAGE as error:
        raise DataError(
            "{file} is damaged, incomplete or no zip: make and send it again.", file=name
        ) from error


# ---------------------------------------------------------------------- how it is written


def _folder(root: Path, name: str, files: Sequence[Path]) -> Path:
    """A folder that is not there yet: of that name, or called as the zip, or the list, or the first file."""
    if name:
        name = checked_name(name)
        if (root / name).exists():
            raise ConfigError("There is a data set {name} already: choose another name.", name=name)
        return root / name
    endings = (".zip", *LIST_ENDINGS)
    named = min(files, key=lambda file: (*endings, file.suffix.lower()).index(file.suffix.lower()))
    plain = re.sub(r"[^\w .-]+|^\W+", "-", named.stem)[:50].strip(" .-") or "data"
    return next(path for number in count(1) if not (path := _numbered(root, plain, number)).exists())


def _numbered(root: Path, name: str, number: int) -> Path:
    return root / (name if number == 1 else f"{name}-{number}")


@contextmanager
def _turn(root: Path, should_stop: ShouldStop) -> Iterator[None]:
    """One after the other: then what lies aside is nobody else's."""
    lock = FileLock(root / _LOCK)
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        while not lock.is_locked:
            if should_stop():
                raise _StoppedError
            with suppress(Timeout):
                lock.acquire(timeout=_LOOK_SECONDS)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """An empty folder, without what one that was killed has left; gone afterwards."""
    with storage_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_all(
    coming: Sequence[_Coming],
    folder: Path,
    total: int,
    on_progress: Callable[[int, int], None],
    should_stop: ShouldStop,
) -> int:
    """Writes all files; how many bytes they have. No more is written than they said before."""
    done = 0
    for each in coming:
        with storage_errors(folder.parent), _new_file(folder, each.place) as file:
            for piece in _pieces(each):
                done += len(piece)
                if done > total:
                    raise DataError(
                        "{file} is larger than it says: make and send it again.", file=each.origin
                    )
                file.write(piece)
                on_progress(done, total)
                if should_stop():
                    raise _StoppedError
    return done


def _put_where_named(folder: Path) -> None:
    """Browsers send files without their folders, and lists name those of another machine: a file that a list
    names goes where it is named, if no other's path ends so, and the path of no other row ends as well so.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    lists = [path for path in files if path.name.lower().endswith(_LISTS)]
    if len(lists) == len(files):
        return
    found: dict[str, Path | None] = {}
    for path in files:
        for ending in _endings(path.relative_to(folder).as_posix()):
            found[ending] = None if ending in found else path
    found |= {str(path): path for path in files}
    named: dict[Path, dict[Path, int]] = {}
    for path in lists:
        for place, file, likeness in _named_in(path, found):
            named.setdefault(file, {})[place] = likeness
    for file, places in named.items():
        best = max(places.values())
        place, *others = (place for place, likeness in places.items() if likeness == best)
        with suppress(OSError):  # a file stands where the folder would be
            if not others and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                file.rename(place)
                file.parent.rmdir()  # if it is empty now


def _named_in(path: Path, found: Mapping[str, Path | None]) -> Iterator[tuple[Path, Path, int]]:
    """For the rows of a list, as far as it can be read: the place that one names, the file that it means, and
    how many parts of the two are the same at the end; more than can be, if the file is there."""
    with suppress(StudioError):
        listed = read_list(path, _SOUNDS)
        for row in listed.rows:
            with suppress(StudioError):  # it names none, or leads elsewhere
                audio, _start, _end = audio_of(row.values, columns_of(tuple(row.values), _SOUNDS))
                plain = without_root(audio)
                ending = next((ending for ending in _endings(plain) if ending in found), None)
                if not ending:
                    continue
                names = ((place / name) for name in spellings(audio) for place in listed.folders)
                if file := next(filter(None, (found.get(os.path.normpath(name)) for name in names)), None):
                    yield file, file, _DEEPEST + 1
                elif file := found[ending]:
                    yield path.parent / _place(plain, path.name), file, ending.count("/")


def _endings(name: str) -> Iterator[str]:
    """`a/b.wav`, `b.wav`: the path, then without its first folders."""
    parts = normalize("NFC", name).split("/")
    return ("/".join(parts[first:]) for first in range(len(parts)))


def _new_file(folder: Path, place: PurePosixPath) -> IO[bytes]:
    path = folder / place
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise DataError(
            "{name} is there twice, or in two spellings that differ only in capitals and are one on this "
            "disk: rename one of them.",
            name=place,
        ) from None


def _pieces(each: _Coming) -> Iterator[bytes]:
    with _damage(each.origin), each.open() as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
