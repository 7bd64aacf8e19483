import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from studio.dataset.columns import Wanted
from studio.dataset.copies import write_copy
from studio.errors import ManifestError, StorageError
from studio.room import COPIES, Room
from studio.settings import Settings
from tests.reading import read_manifest
from tests.studio_process import ROOT

from .conftest import Sound, said


def dataset(audio: list[Any], **columns: list[Any]) -> Any:
    """A dataset of the library, whose audio is bytes, paths or both."""
    import datasets

    made = datasets.Dataset.from_dict({"audio": audio, **columns})
    return made.cast_column("audio", datasets.Audio())


def packed(path: Path) -> dict[str, Any]:
    return {"bytes": path.read_bytes(), "path": path.name}


def test_one_file_is_read_with_the_sounds_in_it(tmp_path: Path, sound: Sound) -> None:
    import datasets

    rows = dataset([packed(sound("in/a.wav"))] * 2, sentence=["one", "two"], language=[0, 1])
    rows = rows.cast_column("language", datasets.ClassLabel(names=["en", "de"]))
    path = tmp_path / "odd [name].parquet"
    rows.to_parquet(path)
    manifest = read_manifest(path, cache_dir=tmp_path / "cache")
    assert [(e.text, e.language, e.duration_seconds) for e in manifest.examples] == [
        ("one", "en", 1.0), ("two", "de", 1.0)
    ]  # fmt: skip
    assert manifest.format == "parquet" and read_manifest(path, cache_dir=tmp_path / "cache") == manifest
    rows.select([0]).to_parquet(path)
    assert len(read_manifest(path, cache_dir=tmp_path / "cache").examples) == 1, "what is new is read anew"


def test_columns_that_end_whoever_asks_for_them_are_refused(tmp_path: Path, sound: Sound) -> None:
    path = tmp_path / "a.parquet"
    dataset([packed(sound("in/a.wav"))], text=["one"]).to_parquet(path)
    whole = path.read_bytes()
    # How often a value may be, as Thrift has it; what is counted beside it then no longer belongs to it.
    optional, required = (bytes((0x25, kind, 0x18, 4)) + b"text" for kind in (2, 0))
    assert whole.count(optional) == 1
    path.write_bytes(whole.replace(optional, required))
    with pytest.raises(ManifestError, match="what it says of its columns cannot be read"):
        read_manifest(path, cache_dir=tmp_path / "cache")


def test_a_space_keeps_the_copies_that_are_used_and_says_when_it_is_full(
    tmp_path: Path, sound: Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SPACE_ID": "somebody/studio",
        "STUDIO_KEPT_GB": "0.45",
        "STUDIO_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)  # 69 MiB of copies; 64 are asked for at once
    cache = tmp_path / "cache"
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for path in paths:
        dataset([packed(sound("in/a.wav"))], text=["one"]).to_parquet(path)
    first = read_manifest(paths[0], cache_dir=cache)
    (copy,) = (cache / "datasets").glob("*/*")
    with (copy / "more").open("wb") as file:
        file.truncate(60 * 2**20)
    with pytest.raises(StorageError, match=r"keeps 69\.1 MiB of data sets, and there is no room"):
        read_manifest(paths[1], cache_dir=cache)
    assert list((cache / "datasets").glob("*/*")) == [copy], "nothing is left of what has no room"
    os.utime(copy, (0, 0))
    assert read_manifest(paths[0], cache_dir=cache) == first, "now it is used"
    with pytest.raises(StorageError):
        read_manifest(paths[1], cache_dir=cache)
    os.utime(copy, (0, 0))
    assert read_manifest(paths[1], cache_dir=cache).examples and not copy.exists()
    for name in ("SPACE_ID", "STUDIO_KEPT_GB"):
        monkeypatch.delenv(name)
    assert read_manifest(paths[2], cache_dir=cache).examples
    assert len(list((cache / "datasets").glob("*/*"))) == 2, "on a workstation all stay"


def test_metadata_of_an_audio_folder_may_be_parquet(tmp_path: Path, sound: Sound) -> None:
    import datasets

    for name in ("audio/a.wav", "audio/sub/b.wav"):
        sound(name)
    table = {"file_name": ["a.wav", "sub/b.wav", "gone.wav"], "transcription": ["one", "two", "three"]}
    datasets.Dataset.from_dict(table).to_parquet(tmp_path / "audio" / "metadata.parquet")
    for source in (tmp_path / "audio", tmp_path / "audio" / "metadata.parquet"):
        manifest = read_manifest(source, cache_dir=tmp_path / "cache")
        assert said(manifest) == [("a.wav", "one"), ("b.wav", "two")]
        assert manifest.examples[0].audio_path == tmp_path / "audio" / "a.wav"
        assert [problem.line for problem in manifest.problems] == [3]


def test_metadata_of_split_folders_may_be_parquet(tmp_path: Path, sound: Sound) -> None:
    import datasets

    for split in ("train", "test"):
        sound(f"audio/{split}/{split}.wav")
        table = {"file_name": [f"{split}.wav"], "text": [split]}
        datasets.Dataset.from_dict(table).to_parquet(tmp_path / "audio" / split / "metadata.parquet")
    for split in ("train", "test"):
        manifest = read_manifest(tmp_path / "audio", split=split, cache_dir=tmp_path / "cache")
        assert said(manifest) == [(f"{split}.wav", split)] and manifest.problems == ()


@pytest.mark.parametrize("is_struct", [False, True])
def test_sound_may_be_bytes_alone(is_struct: bool, tmp_path: Path, sound: Sound) -> None:
    import pyarrow
    import pyarrow.parquet

    data = sound("in/a.wav").read_bytes()
    audio = {"bytes": data} if is_struct else data
    table = pyarrow.Table.from_pylist([{"audio": audio, "text": "one"}])
    pyarrow.parquet.write_table(table, tmp_path / "list.parquet")
    (example,) = read_manifest(tmp_path / "list.parquet", cache_dir=tmp_path / "cache").examples
    assert (example.text, example.duration_seconds) == ("one", 1.0)
    assert example.audio_path.read_bytes() == data


def test_sound_that_is_named_by_its_place_is_a_file_here_or_none(tmp_path: Path, sound: Sound) -> None:
    import datasets
    import pyarrow
    import pyarrow.parquet

    sound("here.wav")
    places = ["here.wav", str(tmp_path / "here.wav"), "http://127.0.0.1:9/a.wav"]
    audio = [{"bytes": None, "path": place} for place in places]
    table = pyarrow.Table.from_pylist(
        [{"audio": one, "text": text} for one, text in zip(audio, "abc", strict=True)],
        schema=datasets.Features({"audio": datasets.Audio(), "text": datasets.Value("string")}).arrow_schema,
    )
    pyarrow.parquet.write_table(table, tmp_path / "list.parquet")
    manifest = read_manifest(tmp_path / "list.parquet", cache_dir=tmp_path / "cache")
    assert said(manifest) == [("here.wav", "a"), ("here.wav", "b")]
    assert "There is no audio file http://127.0.0.1:9/a.wav" in str(manifest.problems[0].reason)


def test_a_picture_beside_the_sound_is_neither_opened_nor_fetched(tmp_path: Path, sound: Sound) -> None:
    import datasets
    import pyarrow
    import pyarrow.parquet

    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"http://127.0.0.1:{other.getsockname()[1]}/a.png"
        rows = [
            {"audio": packed(sound("a.wav")), "text": "one", "cover": cover, "more": [cover]}
            for cover in ({"bytes": None, "path": place}, {"bytes": None, "path": str(tmp_path / "gone.png")})
        ]
        pictures = {"cover": datasets.Image(), "more": datasets.List(datasets.Image())}
        features = datasets.Features(
            {"audio": datasets.Audio(), "text": datasets.Value("string"), **pictures}
        )
        table = pyarrow.Table.from_pylist(rows, schema=features.arrow_schema)
        pyarrow.parquet.write_table(table, tmp_path / "list.parquet")
        assert len(read_manifest(tmp_path / "list.parquet", cache_dir=tmp_path / "cache").examples) == 2
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("nothing")
    with pytest.raises(ManifestError, match=r"x\.parquet cannot be read"):
        read_manifest(tmp_path / "x.parquet", cache_dir=tmp_path / "cache")
    with pytest.raises(ManifestError, match="There is no manifest"):
        read_manifest("gone.parquet", cache_dir=tmp_path / "cache")


READ_ALL = """
import json, resource, sys
from pathlib import Path
import datasets
from studio.dataset.formats.parquet import rows_of_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sizes = [len(row["audio"]["bytes"]) for row in rows_of_file(Path(sys.argv[1]))]
print(json.dumps([len(sizes), min(sizes), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""


def test_a_sound_that_is_there_once_and_in_each_row_does_not_fill_memory(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    audio = pyarrow.array([{"bytes": bytes(2**20), "path": "a.wav"}] * 100)
    table = pyarrow.table({"audio": audio, "text": ["one"] * 100})
    path = tmp_path / "many.parquet"
    pyarrow.parquet.write_table(
        pyarrow.concat_tables([table] * 4), path, compression="gzip", dictionary_pagesize_limit=2**30
    )
    assert path.stat().st_size < 10_000
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    rows, smallest, more_kib = json.loads(done.stdout)
    assert (rows, smallest) == (400, 2**20)
    assert more_kib < 300 * 2**10, "all that is read are 400 MiB"


def test_what_is_packed_tighter_than_speech_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    megabytes = pyarrow.DictionaryArray.from_arrays(pyarrow.repeat(0, 300), ["x" * 2**20])
    rows = {
        "holds 259 MiB in .*, which is packed tighter than speech is": pyarrow.repeat(False, 34 * 10**6),
        "has a row of more than 256 MiB, which is no clip": megabytes,
    }
    for reason, values in rows.items():
        more = pyarrow.ListArray.from_arrays([0, len(values)], values)
        table = pyarrow.table({"text": ["one"], "audio": ["a.wav"], "more": more})
        pyarrow.parquet.write_table(table, tmp_path / "x.parquet", dictionary_pagesize_limit=2**30)
        with pytest.raises(ManifestError, match=rf"x\.parquet {reason}"):
            read_manifest(tmp_path / "x.parquet", cache_dir=tmp_path / "cache")


def test_common_voice_of_the_hub_is_read_with_all_its_columns(tmp_path: Path, sound: Sound) -> None:
    columns: dict[str, list[Any]] = {
        "client_id": ["abc"], "path": ["it/clip.mp3"], "sentence": ["hello"], "up_votes": [2],
        "down_votes": [0], "age": [""], "gender": [""], "accent": [""], "locale": ["en"], "segment": [""],
    }  # fmt: skip
    folder = tmp_path / "hub"
    folder.mkdir()
    dataset([packed(sound("in/clip.wav"))], **columns).to_parquet(folder / "train-00000-of-00001.parquet")
    (example,) = read_manifest(folder, cache_dir=tmp_path / "cache").examples
    assert (example.text, example.language, example.speaker) == ("hello", "en", "abc")


def test_splits_of_a_copy_of_a_dataset_are_named(tmp_path: Path, sound: Sound) -> None:
    audio = [packed(sound("in/clip.wav"))]
    (tmp_path / "hub").mkdir()
    for name in ("train", "test"):
        dataset(audio, text=[name]).to_parquet(tmp_path / "hub" / f"{name}-00000-of-00001.parquet")

    def texts(split: str) -> list[str]:
        found = read_manifest(f"{tmp_path / 'hub'}::{split}", cache_dir=tmp_path / "cache")
        return [example.text for example in found.examples]

    assert (texts("test"), texts("train+test")) == (["test"], ["train", "test"])
    with pytest.raises(ManifestError, match="validation"):
        texts("validation")


def test_processes_that_ask_at_once_read_one_copy(tmp_path: Path, sound: Sound) -> None:
    dataset([packed(sound("a.wav"))] * 50, text=list(map(str, range(50)))).to_parquet(tmp_path / "x.parquet")
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(read_manifest, tmp_path / "x.parquet", cache_dir=tmp_path / "cache") for _ in range(4)
        ]
        found = [future.result() for future in asked]
    assert all(manifest == found[0] and len(manifest.examples) == 50 for manifest in found)
    assert not found[0].problems


@pytest.mark.parametrize("name", ["my [v1] data", "a*b", "a?b"])
def test_a_folder_whose_name_is_a_pattern_is_not_read_with_those_that_fit_it(
    tmp_path: Path, sound: Sound, name: str
) -> None:
    for folder in (name, "axb"):
        (tmp_path / folder).mkdir()
        dataset([packed(sound("in/a.wav"))], text=[folder]).to_parquet(tmp_path / folder / "train.parquet")
    with pytest.raises(ManifestError, match="rename the folder"):
        read_manifest(tmp_path / name, cache_dir=tmp_path / "cache")
    assert len(read_manifest(tmp_path / name / "train.parquet", cache_dir=tmp_path / "cache").examples) == 1


_KILLED = """
import os, signal, sys
from pathlib import Path
from studio.dataset.columns import Wanted
from studio.dataset.copies import write_copy
from studio.room import COPIES, Room
from studio.settings import Settings
def rows():
    yield {"audio": {"bytes": b"RIFF", "path": "a.wav"}, "text": "x"}
    os.kill(os.getpid(), signal.SIGKILL)
write_copy(rows(), Path(sys.argv[1]), "1", None, Wanted(), Room.of(Settings.from_env(), COPIES))
"""


def test_what_a_killed_process_has_copied_goes_with_the_next_copy(
    tmp_path: Path, settings: Settings, environ: dict[str, str]
) -> None:
    copy = tmp_path / "datasets" / "folder--1" / "all"
    command = [sys.executable, "-c", _KILLED, str(copy)]
    alone = {**environ, "STUDIO_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=alone).returncode == -signal.SIGKILL
    assert len(list(copy.parent.iterdir())) == 1, "its half"
    rows, room = [{"audio": {"bytes": b"RIFF", "path": "b.wav"}, "text": "x"}], Room.of(settings, COPIES)
    write_copy(iter(rows), copy, "1", None, Wanted(), room)
    assert list(copy.parent.iterdir()) == [copy]
    assert sorted(path.name for path in copy.iterdir()) == ["0000000-b.wav", "metadata.jsonl", "origin.json"]


def test_a_card_that_names_files_elsewhere_is_refused_and_nothing_is_fetched(
    tmp_path: Path, sound: Sound
) -> None:
    dataset([packed(sound("in/a.wav"))], text=["a"]).to_parquet(tmp_path / "train.parquet")
    card = tmp_path / "README.md"
    files = "  data_files:\n  - split: train\n    path: {}\n"
    head = f"---\nconfigs:\n- config_name: default\n{files}link: http://a\n---\n# A\n"
    card.write_text(head.format("http://127.0.0.1:9/train.parquet"))
    with pytest.raises(ManifestError, match=r"README\.md names files that are not in its dataset"):
        read_manifest(tmp_path, cache_dir=tmp_path / "cache")
    card.write_text(head.format("train.parquet"))
    hidden = tmp_path / ".huggingface.yaml"
    hidden.write_text(f"configs:\n- config_name: default\n{files.format('http://127.0.0.1:9/train.parquet')}")
    with pytest.raises(ManifestError, match=r"\.huggingface\.yaml names files that are not"):
        read_manifest(tmp_path, cache_dir=tmp_path / "cache")
    hidden.unlink()
    assert [e.text for e in read_manifest(tmp_path, cache_dir=tmp_path / "cache").examples] == ["a"]
