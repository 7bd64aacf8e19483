"""What a Space keeps of the Hub and of its visitors: so much, and what nobody has used for long goes first.

On a workstation there is no limit, and nothing is deleted.
"""

import math
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from studio.settings import Settings
from studio.units import format_bytes

MODELS, COPIES, BROUGHT, MADE = 0.4, 0.15, 0.15, 0.28
"""Shares of `STUDIO_KEPT_GB`: models of the Hub; copies of data sets; what visitors bring; runs and models of
theirs."""
SMALL = 0.01
"""The same for traces, and for results of lists that were broken off."""
UNUSED_SECONDS = 3600.0
_LEAST_BYTES = 4096
"""Of the disk, for any file."""
_GONE = ".gone-"


@dataclass(frozen=True)
class Room:
    """So many bytes for what lies in some places; any number of them on a workstation."""

    most_bytes: float = math.inf
    at_work: Path = Path()
    """Where who works for long says so (see `works_for_long`)."""

    @classmethod
    def of(cls, settings: Settings, share: float) -> "Room":
        """That of a share of what a studio with these settings keeps."""
        return cls(share * settings.kept_bytes, _at_work(settings))

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return not math.isinf(self.most_bytes)

    def take(self, entries: Iterable[Path], coming_bytes: int = 0) -> bool:
        """Whether there is room for so much beside these files and folders.

        If there is none, those that nobody has used for an hour, nor since the first of those began who still
        work, are deleted, the one first that was used longest ago; but none if that does not help.
        """
        if not self.is_limited:
            return True
        found = sorted((_last_used(path), size_of(path), path) for path in entries)
        too_much = sum(size for _, size, _ in found) + coming_bytes - self.most_bytes
        since = min([time.time() - UNUSED_SECONDS, *_began(self.at_work)]) if too_much > 0 else 0.0
        unused = [(size, path) for used, size, path in found if used < since]
        if too_much > sum(size for size, _ in unused):
            return False
        for size, path in unused:
            if too_much <= 0:
                break
            if _removed(path):
                too_much -= size
        return too_much <= 0

    @property
    def most(self) -> str:
        """How much it is, for people."""
        return format_bytes(self.most_bytes)


NO_LIMIT = Room()


def note_use(path: Path) -> None:
    """Says that somebody uses what is kept there."""
    with suppress(OSError):  # gone, or not ours: then nobody deletes it
        os.utime(path)


def note_use_of_own(settings: Settings) -> None:
    """Says that a visitor uses what they brought."""
    for path in (settings.own, *settings.own.glob("*/[!.]*")):
        note_use(path)


@contextmanager
def works_for_long(settings: Settings) -> Iterator[None]:
    """For as long as this process works, what was used since it began stays; needed on a Space alone."""
    if math.isinf(settings.kept_bytes):
        yield
        return
    folder = _at_work(settings)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{time.time():.0f}-{uuid.uuid4().hex[:8]}.lock")
    with lock:
        yield
    Path(lock.lock_file).unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all in a folder, of which some may be gone meanwhile; links are not followed."""
    total = _bytes_of(path)
    for parent, _folders, files in os.walk(path):
        total += sum(_bytes_of(Path(parent, name)) for name in files)
    return total


def _bytes_of(path: Path) -> int:
    try:
        return max(_LEAST_BYTES, path.lstat().st_size)
    except OSError:
        return 0


def _last_used(path: Path) -> float:
    """A time of the future is of a clock that was set back, and says nothing."""
    try:
        changed = path.lstat().st_mtime
    except OSError:
        return 0.0
    return changed if changed < time.time() + UNUSED_SECONDS else 0.0


def _removed(path: Path) -> bool:
    """Takes it out of sight in one step, then off the disk; whether it is gone."""
    aside = path.with_name(f"{_GONE}{uuid.uuid4().hex[:8]}")
    try:
        path.rename(aside)
    except OSError:
        return not path.exists()
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)
    return not aside.exists()


def _at_work(settings: Settings) -> Path:
    return settings.cache / "at-work"


def _began(folder: Path) -> Iterator[float]:
    """When each of those began who are at work; what killed ones have left goes."""
    for path in folder.glob("*.lock"):
        try:
            with FileLock(path, timeout=0):
                path.unlink(missing_ok=True)
        except Timeout:
            with suppress(ValueError):
                yield float(path.name.partition("-")[0])
