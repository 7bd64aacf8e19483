"""What a Space reads and writes for its visitors."""

from dataclasses import replace
from pathlib import Path

import pytest

from studio.errors import ConfigError
from studio.options.training import FIELDS, TrainingConfig
from studio.runs.confinement import most_rows, require_confined, require_own_data
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


def test_strangers_read_a_few_rows_of_a_dataset_and_others_what_they_ask_for(space: Settings) -> None:
    assert [most_rows(space, asked) for asked in (0, 20, 10**6)] == [500, 20, 500]
    own = replace(space, allow_training=True)
    assert [most_rows(own, asked) for asked in (0, 20, 10**6)] == [None, 20, 10**6]
