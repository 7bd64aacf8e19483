"""Which sounds a list may name: on a Space those in its own folder, of the Hub those that came with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from studio.dataset.columns import Wanted
from studio.dataset.copies import Copies, write_copy
from studio.dataset.manifest import Manifest
from studio.errors import ManifestError
from studio.settings import Settings
from tests.reading import read_manifest

from .formats.conftest import said, write_sound
from .formats.test_lhotse import cut
from .formats.test_parquet import packed

Written = Callable[[Path, list[str]], Path]
NOT_HERE = "did not come with its list"


def json_lines(folder: Path, sounds: list[str]) -> Path:
    return in_lines(folder / "list.jsonl", [{"audio": sound, "text": "x"} for sound in sounds])


def table(folder: Path, sounds: list[str]) -> Path:
    (folder / "list.csv").write_text(
        "".join(f"{row}\n" for row in ("audio,text", *(f"{s},x" for s in sounds)))
    )
    return folder / "list.csv"


def kaldi(folder: Path, sounds: list[str]) -> Path:
    for name, values in (("wav.scp", sounds), ("text", ["x"] * len(sounds))):
        (folder / name).write_text("".join(f"u{number} {value}\n" for number, value in enumerate(values)))
    return folder


def lhotse(folder: Path, sounds: list[str]) -> Path:
    return in_lines(folder / "cuts.jsonl", list(map(cut, sounds)))


def parquet(folder: Path, sounds: list[str]) -> Path:
    import pyarrow
    import pyarrow.parquet

    rows = [{"audio": {"bytes": None, "path": sound}, "text": "x"} for sound in sounds]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "list.parquet")
    return folder / "list.parquet"


def in_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, list[str]]:
    """A folder with a sound, and the ways that lead from it to a sound of somebody else, or to none."""
    own, other = tmp_path / "own", tmp_path / "other"
    write_sound(own / "sub" / "mine.wav", 3.0)
    shutil.copytree(own / "sub", other)
    (own / "link.wav").symlink_to(other / "mine.wav")
    (own / "folder").symlink_to(other)
    ways = [f"{other}/mine.wav", "../other/mine.wav", "sub/../../other/mine.wav", "link.wav"]
    return own, [*ways, "folder/mine.wav", f"{other}/gone.wav", "../gone/mine.wav"]


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "ada/studio")
    monkeypatch.setenv("STUDIO_ALLOW_TRAINING", "1")


@pytest.mark.parametrize("write", [json_lines, table, kaldi, lhotse, parquet])
@pytest.mark.usefixtures("space")
def test_on_a_space_a_list_names_sounds_of_its_own_folder_and_no_other(
    write: Written, places: tuple[Path, list[str]], tmp_path: Path
) -> None:
    own, ways = places
    mine = ["sub/mine.wav", f"{own}/sub/mine.wav", "sub/../sub/./mine.wav"]
    manifest = read_manifest(write(own, [*mine, *ways, "sub/gone.wav"]), cache_dir=tmp_path / "cache")
    assert [example.audio_path.resolve() for example in manifest.examples] == [own / "sub" / "mine.wav"] * 3
    reasons = [str(problem.reason) for problem in manifest.problems]
    assert reasons == [
        f"The audio file {way} did not come with its list, and no other is opened here: put it into the "
        "folder of the list."
        for way in (*ways, "sub/gone.wav")
    ], "what is there and what is not is answered alike"


@pytest.mark.usefixtures("space")
def test_on_a_space_a_list_may_lead_through_the_folder_that_was_named(places: tuple[Path, list[str]]) -> None:
    own, _ = places
    (own / "train").mkdir()
    in_lines(own / "train" / "metadata.jsonl", [{"audio": "../sub/mine.wav", "text": "x"}])
    assert said(read_manifest(own)) == [("mine.wav", "x")]
    with pytest.raises(ManifestError, match=NOT_HERE):
        read_manifest(own / "train" / "metadata.jsonl")


def test_on_a_workstation_every_sound_is_the_users_own(places: tuple[Path, list[str]]) -> None:
    own, ways = places
    manifest = read_manifest(json_lines(own, ways))
    assert len(manifest.examples) == 5
    assert all("There is no audio file" in str(problem.reason) for problem in manifest.problems)


def of_the_hub(rows: list[dict[str, Any]], cache: Path, **options: str) -> Manifest:
    """A dataset of the Hub with these rows, as it is read once it is copied."""
    copies = Copies.of(Settings.from_env(), cache)
    place = copies.folder / "somebody--speech" / "default--train"
    wanted = Wanted(**{"needs_text": False, **options})
    write_copy(iter(rows), place, "1" * 40, None, wanted, copies.room)
    return read_manifest(
        "somebody/speech", cache_dir=cache, local_files_only=True, needs_text=False, **options
    )


@pytest.mark.parametrize(
    "audio",
    [
        "{}",
        {"path": "{}", "start_time": 0},
        {"bytes": "text", "path": "{}"},
        {"bytes": None, "path": "{}"},
        "../../../../own/sub/mine.wav",
    ],
)
def test_a_dataset_of_the_hub_names_no_file_of_this_machine(
    audio: Any, places: tuple[Path, list[str]], tmp_path: Path
) -> None:
    sound = places[0] / "sub" / "mine.wav"
    value = json.loads(json.dumps(audio).replace("{}", str(sound)))
    good = {"audio": packed(sound), "text": "came along"}
    manifest = of_the_hub([good, {"audio": value, "text": "elsewhere"}], tmp_path / "cache")
    assert [example.text for example in manifest.examples] == ["came along"]
    assert NOT_HERE in str(manifest.problems[0].reason)


def test_a_dataset_of_the_hub_is_no_list_of_another_form_whatever_its_columns_are_called(
    places: tuple[Path, list[str]], tmp_path: Path
) -> None:
    sound = places[0] / "sub" / "mine.wav"
    row = {**cut(str(sound)), "audio": packed(sound), "text": "came along"}
    (example,) = of_the_hub([row], tmp_path / "cache").examples
    assert (example.text, example.start_seconds) == ("came along", 0.5)
    assert example.audio_path.is_relative_to(tmp_path / "cache")


def test_a_dataset_of_the_hub_names_no_file_in_a_column_that_is_chosen(
    places: tuple[Path, list[str]], tmp_path: Path
) -> None:
    sound = places[0] / "sub" / "mine.wav"
    with pytest.raises(ManifestError, match=NOT_HERE):
        of_the_hub([{"audio": packed(sound), "foo": str(sound)}], tmp_path / "cache", audio_column="foo")
