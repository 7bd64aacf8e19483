import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from studio.dataset.hub import with_bytes
from studio.dataset.manifest import read_manifest
from studio.errors import ManifestError
from studio.options.sources import is_dataset_id
from tests.studio_process import ROOT

from .conftest import sweep
from .small_hub import SmallHub

READ = """
import json, sys
from pathlib import Path
from studio.dataset.manifest import read_manifest
from studio.errors import StudioError
for source, max_rows in json.loads(sys.argv[2]):
    try:
        manifest = read_manifest(source, max_rows=max_rows, cache_dir=Path(sys.argv[1]))
        print(json.dumps([manifest.format, *[[e.text, e.duration_seconds] for e in manifest.examples]]))
    except StudioError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clips in a Parquet file as the hub holds them: sound and text in one table."""
    import datasets
    import pyarrow
    import pyarrow.parquet

    clips = []
    for seconds in (1.0, 2.0, 3.0):
        file = io.BytesIO()
        soundfile.write(file, sweep(16_000, seconds), 16_000, format="FLAC")
        clips.append({"bytes": file.getvalue(), "path": f"clip of {seconds} s.flac"})
    columns = {"audio": clips, "sentence": ["one", "two", "three"], "client_id": ["x", "y", "z"]}
    text = datasets.Value("string")
    features = datasets.Features({"audio": datasets.Audio(), "sentence": text, "client_id": text})
    path = tmp_path_factory.mktemp("hub") / "train-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pydict(columns, schema=features.arrow_schema), path)
    return path


def test_a_dataset_of_the_hub_is_copied_once_and_whole_and_then_read_without_the_hub(
    parquet: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    names = ("speech", "speech:default:train", "speech::train+train", "speech::dev", "speech:klingon")
    names = (*names, "nothing", "broken")
    sources = [("somebody/speech", 2), *((f"somebody/{name}", None) for name in names)]
    with SmallHub(parquet) as hub:
        done = subprocess.run(  # the address of the hub is fixed when the library is imported
            [sys.executable, "-c", READ, str(tmp_path / "cache"), json.dumps(sources)],
            env={**environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
        )
    assert done.returncode == 0, done.stderr
    two, whole, again, twice, split, config, missing, broken = map(json.loads, done.stdout.splitlines())
    assert two == ["hub", ["one", 1.0], ["two", 2.0]]
    assert whole == again == [*two, ["three", 3.0]]
    assert twice == [*whole, *whole[1:]]
    assert "Bad split: dev" in split[1] and "klingon" in config[1]
    assert missing[0] == "ManifestError" and "no such dataset" in missing[1]
    assert broken[0] == "HubUnreachableError" and "stopped answering" in broken[1]
    assert 0 < hub.refused < 40

    (copies,) = (tmp_path / "cache" / "datasets").iterdir()
    assert copies.name == "somebody--speech", "nothing is left of what broke off"
    assert {path.name for path in copies.iterdir()} == {
        *("default--train", "default--train--first-2", "default--train+train"),
    }
    offline = read_manifest("somebody/speech", cache_dir=tmp_path / "cache", local_files_only=True)
    assert [example.text for example in offline.examples] == ["one", "two", "three"]
    unreachable = read_manifest("somebody/speech", cache_dir=tmp_path / "cache")
    assert unreachable == offline


def test_a_folder_of_parquet_files_is_read_like_the_dataset_it_came_from(
    parquet: Path, tmp_path: Path
) -> None:
    manifest = read_manifest(parquet.parent, cache_dir=tmp_path)
    clips = [(example.text, example.duration_seconds) for example in manifest.examples]
    assert clips == [("one", 1.0), ("two", 2.0), ("three", 3.0)]
    assert read_manifest(parquet.parent, cache_dir=tmp_path) == manifest
    with pytest.raises(ManifestError, match="Bad split: dev"):
        read_manifest(parquet.parent, split="dev", cache_dir=tmp_path)
    assert len(list((tmp_path / "datasets").iterdir())) == 1


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/hostname", "a.wav", "http://127.0.0.1:9/a.wav", "hf://datasets/somebody/other@1/a.wav"),
        *("zip://a.wav::/etc/a.zip", "hf://datasets/somebody/speech@1/a.wav::/etc/hostname"),
    ],
)
def test_a_recording_that_is_not_in_the_dataset_is_not_opened(path: str) -> None:
    with pytest.raises(ManifestError, match="names a recording that is not in it"):
        with_bytes({"bytes": None, "path": path}, "somebody/speech")


def test_a_dataset_id_is_told_from_a_path() -> None:
    ids = ("owner/name", "owner/name:config:split", "mozilla-foundation/common_voice_17_0:zh-CN:test")
    assert [
        source for source in (*ids, "librispeech_asr", "owner/name::train+dev") if not is_dataset_id(source)
    ] == []
    paths = ("../name", "./owner/name", "/absolute/name", "a/b/c", "C:\\data\\list", "")
    others = ("https://example.org/a", "owner/name:a:b:c")
    assert [source for source in (*paths, *others) if is_dataset_id(source)] == []
