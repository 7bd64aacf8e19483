"""What a Space keeps: as much as it may, the newest; on a workstation all of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from studio.room import Room, note_use, size_of, works_for_long
from studio.settings import Settings

Entry = Callable[[str, float], Path]
HOUR = 3600.0
SIZE = 10_000


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    """Makes a folder of ten thousand bytes (and its own) that was used so many hours ago."""

    def make(name: str, hours: float) -> Path:
        folder = tmp_path / "kept" / name
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * SIZE)
        used = time.time() - hours * HOUR
        os.utime(folder, (used, used))
        return folder

    return make


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_unused_longest_goes_first_and_no_more_than_is_needed(entry: Entry) -> None:
    kept = [entry(name, hours) for name, hours in (("old", 5), ("older", 9), ("new", 0.5), ("day", 24))]
    folder = kept[0].parent
    each = size_of(kept[0])
    assert SIZE < each < 2 * SIZE
    room = Room(most_bytes=4 * each)
    assert room.take(kept) and len(names(folder)) == 4, "it is not full yet"
    assert room.take(folder.iterdir(), each) and names(folder) == ["new", "old", "older"]
    assert not room.take(folder.iterdir(), 4 * each), "what is used now stays"
    assert names(folder) == ["new", "old", "older"], "nothing goes in vain"
    assert room.take(folder.iterdir(), 3 * each) and names(folder) == ["new"]
    assert Room(most_bytes=3).most == "3 B" and not Room(most_bytes=3).take(folder.iterdir())
    assert names(folder) == ["new"]


def test_what_is_used_again_stays_and_a_clock_that_was_set_back_keeps_nothing_for_ever(entry: Entry) -> None:
    one, two, future = entry("one", 30), entry("two", 20), entry("future", -50)
    note_use(one)
    assert Room(most_bytes=size_of(one)).take([one, two, future]) and names(one.parent) == ["one"]


def test_on_a_workstation_nothing_goes(entry: Entry, tmp_path: Path) -> None:
    old = entry("old", 10**4)
    settings = Settings.from_env({"STUDIO_HOME": str(tmp_path), "STUDIO_KEPT_GB": "0"})
    assert Room.of(settings, 0.5).take([old], 2**60) and old.is_dir()
    space = {"STUDIO_HOME": str(tmp_path), "SPACE_ID": "a/b", "STUDIO_KEPT_GB": "0"}
    assert not Room.of(Settings.from_env(space), 0.5).take([], 1), "of a Space, none is none"


def test_what_was_used_since_a_run_began_stays_until_it_is_over(entry: Entry, tmp_path: Path) -> None:
    """A run reads its data for hours; that it was killed is seen, too."""
    settings = Settings(home=tmp_path, kept_bytes=1)
    room = Room.of(settings, 1)
    before, since = entry("before", 9), entry("since", 5)
    with works_for_long(settings):
        (lock,) = room.at_work.iterdir()
        assert room.take([before], 1) and not before.exists(), "unused since long before it began"
        began = lock.with_name(f"{time.time() - 7 * HOUR:.0f}-{lock.name.partition('-')[2]}")
        lock.rename(began)
        assert not room.take([since], 1) and since.exists()
        began.rename(lock)
    assert names(room.at_work) == []
    script = (
        "import os, sys; from pathlib import Path; from studio.room import works_for_long; "
        "from studio.settings import Settings\n"
        "with works_for_long(Settings(home=Path(sys.argv[1]), kept_bytes=1)): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = room.at_work.iterdir()
    left.rename(left.with_name("0-killed.lock"))
    assert room.take([since], 1) and not since.exists() and names(room.at_work) == []
