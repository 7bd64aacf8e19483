"""Room for what visitors of a Space train: for nobody else, and none of what is used goes."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from studio.errors import StorageError
from studio.files import write_json
from studio.room import MADE
from studio.settings import Settings
from studio.training.run_dir import RunDir
from studio.training.visitors_room import keeps_what_it_uses, require_room

KIB = 1024


@pytest.fixture
def space(tmp_path: Path) -> Settings:
    """One that keeps 512 KiB of what visitors train."""
    return Settings(home=tmp_path / "home", on_spaces=True, kept_bytes=512 * KIB / MADE)


def kept(folder: Path, kib: int, hours: float, card: str, visitor: str = "one") -> Path:
    folder.mkdir(parents=True)
    write_json(folder / card, {"visitor": visitor} if visitor else {})
    with (folder / "weights").open("wb") as file:
        file.truncate(kib * KIB)
    os.utime(folder, (time.time() - hours * 3600,) * 2)
    return folder


def run_of(space: Settings, name: str, kib: int, hours: float, visitor: str = "one") -> RunDir:
    return RunDir(kept(space.runs / name, kib, hours, "run.json", visitor))


def test_runs_that_are_over_and_models_of_visitors_go_for_a_new_run_if_they_are_unused(
    space: Settings,
) -> None:
    owner = run_of(space, "owner", 10_000, 99, visitor="")
    owners = kept(space.models / "owners", 10_000, 99, "model.json", visitor="")
    old, new = run_of(space, "old", 200, 5), run_of(space, "new", 100, 0.5)
    waits = run_of(space, "waits", 1, 50)
    waits.queue_entry.write_text("{}")
    model = kept(space.models / "theirs", 100, 4, "model.json")
    run = run_of(space, "run", 1, 0)
    require_room(run, space, 200 * KIB)
    assert not old.path.exists() and all(path.is_dir() for path in (new.path, waits.path, model))
    require_room(run, space, 350 * KIB)
    assert not model.exists()
    with pytest.raises(StorageError, match=r"keeps 512 KiB of what visitors train.*writes up to 450 KiB"):
        require_room(run, space, 450 * KIB)
    assert all(path.is_dir() for path in (new.path, waits.path, owner.path, owners))
    require_room(owner, space, 2**50)
    require_room(run, replace(space, kept_bytes=Settings(home=space.home).kept_bytes), 2**50)


def test_while_a_visitors_run_is_at_work_what_they_brought_counts_as_used(space: Settings) -> None:
    run = run_of(space, "run", 1, 0)
    own = replace(space, visitor="one")
    data = kept(own.datasets / "data", 1, 30, "x")
    with keeps_what_it_uses(run, space):
        assert time.time() - data.stat().st_mtime < 60 and list((space.cache / "at-work").iterdir())
    assert not list((space.cache / "at-work").iterdir())
