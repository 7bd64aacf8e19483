"""What a Space reads and writes for its visitors."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from studio.errors import ConfigError, StorageError
from studio.options.training import FIELDS, TrainingConfig
from studio.room import BROUGHT
from studio.runs.confinement import most_rows, require_confined, require_own_data, require_room
from studio.settings import Settings

OUTSIDE = (
    "{}/secret.jsonl",
    "{}::train+test",
    "{}/a-{{00..03}}.tar",
    "demo:test,{}/secret.jsonl",
    "/nowhere.csv",
)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the server with data in it."""
    folder = tmp_path / "owner"
    folder.mkdir()
    for name in ("secret.jsonl", "a-01.tar"):
        (folder / name).touch()
    return folder


@pytest.fixture
def space(tmp_path: Path) -> Settings:
    """A Space on which nobody may train."""
    settings = Settings(home=tmp_path / "home", on_spaces=True, allow_training=False)
    settings.prepare()
    return settings


@pytest.mark.parametrize("data", OUTSIDE)
@pytest.mark.parametrize("allow_training", [False, True])
def test_files_of_a_spaces_server_are_not_read(
    space: Settings, elsewhere: Path, data: str, allow_training: bool
) -> None:
    with pytest.raises(ConfigError, match="is a path on this Space's server"):
        require_own_data(replace(space, allow_training=allow_training), data.format(elsewhere))


@pytest.mark.parametrize("data", ["", "demo", "demo:test", "owner/name", "owner/name:config:test"])
def test_the_demo_and_the_hub_are_open_to_all(space: Settings, data: str) -> None:
    require_own_data(space, data)


def test_a_visitor_names_a_few_sources_since_each_has_its_own_rows(space: Settings) -> None:
    require_own_data(space, ",".join(["demo:test"] * 10))
    for visitor in (space, replace(space, allow_training=True, visitor="one")):
        with pytest.raises(ConfigError, match="11 sources of data are named"):
            require_own_data(visitor, ",".join(["demo:test"] * 11))
    require_own_data(replace(space, allow_training=True), ",".join(["demo:test"] * 11))


def test_a_visitor_reads_what_they_brought_and_nothing_of_another_or_of_the_owner(space: Settings) -> None:
    one, other = (replace(space, allow_training=True, visitor=name) for name in ("one", "other"))
    for settings in (one, other, replace(space, visitor="")):
        settings.datasets.mkdir(parents=True)
        (settings.datasets / "mine.jsonl").touch()
    require_own_data(one, str(one.datasets / "mine.jsonl"))
    for foreign in (other.datasets, space.datasets, one.datasets / "../../other/datasets", space.home):
        with pytest.raises(ConfigError, match="server"):
            require_own_data(one, str(foreign / "mine.jsonl" if foreign != space.home else foreign))
    owner = replace(space, allow_training=True)
    require_own_data(owner, str(one.datasets / "mine.jsonl"))


def test_who_may_train_on_a_space_uses_what_was_recorded_there(space: Settings, tmp_path: Path) -> None:
    recorded = space.home / "recordings" / "mine.jsonl"
    recorded.parent.mkdir()
    recorded.touch()
    own = replace(space, allow_training=True)
    require_confined(TrainingConfig(train_data=str(recorded)), own)
    with pytest.raises(ConfigError, match="server"):
        require_confined(TrainingConfig(train_data=str(recorded)), space)
    (space.home / "way-out.jsonl").symlink_to(tmp_path / "owner.jsonl")
    (tmp_path / "owner.jsonl").touch()
    with pytest.raises(ConfigError, match="server"):
        require_own_data(own, str(space.home / "way-out.jsonl"))


@pytest.mark.parametrize(
    "name", [n for n, field in FIELDS.items() if field.metadata["names"] in ("path", "data")]
)
def test_no_option_leads_a_run_of_a_space_out_of_its_folder(
    space: Settings, elsewhere: Path, name: str
) -> None:
    config = replace(TrainingConfig(train_data="demo"), **{name: str(elsewhere / "secret.jsonl")})
    with pytest.raises(ConfigError, match="this Space's"):
        require_confined(config, replace(space, allow_training=True))
    require_confined(config, Settings(home=space.home))


def test_a_visitor_has_no_cache_and_no_tracker_of_their_own(space: Settings) -> None:
    one = replace(space, allow_training=True, visitor="one")
    with pytest.raises(ConfigError, match="cache_dir is for the owner"):
        require_confined(TrainingConfig(train_data="demo", cache_dir=str(one.own / "cache")), one)
    with pytest.raises(ConfigError, match="report_to is for the owner"):
        require_confined(TrainingConfig(train_data="demo", report_to="wandb"), one)
    require_confined(TrainingConfig(train_data="demo", report_to="wandb"), replace(one, visitor=""))


def test_strangers_read_a_few_rows_of_a_dataset_and_others_what_they_ask_for(space: Settings) -> None:
    assert [most_rows(space, asked) for asked in (0, 20, 10**6)] == [500, 20, 500]
    own = replace(space, allow_training=True)
    assert [most_rows(own, asked) for asked in (0, 20, 10**6)] == [None, 20, 10**6]


def brought(visitor: Settings, name: str, kib: int, hours: float = 0) -> Path:
    """A data set of so many KiB which was used so long ago."""
    folder = visitor.datasets / name
    folder.mkdir(parents=True)
    with (folder / "sound.wav").open("wb") as file:
        file.truncate(kib * 1024)
    for path in (folder, visitor.own):
        os.utime(path, (time.time() - hours * 3600,) * 2)
    return folder


def test_what_visitors_bring_has_a_limit_for_each_and_for_all_and_their_oldest_goes_first(
    space: Settings,
) -> None:
    """Each may keep 200 KiB, all together 512."""
    limited = replace(space, max_upload_mb=10 / 1024, kept_bytes=512 * 1024 / BROUGHT, allow_training=True)
    one, two, three = (replace(limited, visitor=name) for name in ("one", "two", "three"))
    owners = brought(limited, "of the owner", 2**20, hours=99)
    old, new = brought(one, "old", 100, hours=3), brought(one, "new", 50, hours=0.5)
    require_room(one, 90 * 1024)
    assert not old.exists() and new.exists()
    with pytest.raises(StorageError, match=r"A visitor may keep 200 KiB here"):
        require_room(one, 160 * 1024)
    for each in (two, three):
        brought(each, "data", 180, hours=5)
    require_own_data(two, str(two.datasets / "data"))  # now it is used
    require_room(one, 130 * 1024)
    assert new.exists() and two.own.is_dir() and not three.own.exists(), "unused for longest"
    brought(replace(limited, visitor="four"), "data", 180)
    with pytest.raises(StorageError, match=r"keeps 512 KiB of what visitors bring"):
        require_room(one, 140 * 1024)
    assert owners.is_dir()
    require_room(replace(limited, visitor=""), 2**40)


def test_a_workstation_has_room_for_whatever_is_brought(tmp_path: Path) -> None:
    mine = Settings(home=tmp_path / "home")
    kept = brought(mine, "mine", 100, hours=10**4)
    require_room(mine, 2**50)
    assert kept.is_dir()
