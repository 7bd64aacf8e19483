import json
from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, said
from .test_parquet import dataset, packed


def test_a_saved_dataset_is_copied_once_and_read(tmp_path: Path, sound: Sound) -> None:
    audio = [packed(sound("in/a.wav")), {"bytes": None, "path": str(sound("in/b.wav"))}]
    dataset(audio, sentence=["one", "two"]).save_to_disk(str(tmp_path / "saved"))
    manifest = read_manifest(tmp_path / "saved", cache_dir=tmp_path / "cache")
    assert [example.text for example in manifest.examples] == ["one", "two"]
    assert (manifest.format, manifest.problems) == ("datasets", ())
    assert read_manifest(tmp_path / "saved", cache_dir=tmp_path / "cache") == manifest


def test_a_split_of_saved_datasets_is_read_by_its_name(tmp_path: Path, sound: Sound) -> None:
    import datasets

    parts = {name: dataset([packed(sound("a.wav"))], text=[name]) for name in ("train", "validation")}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    options = {"cache_dir": tmp_path / "cache"}
    assert [text for _, text in said(read_manifest(tmp_path / "saved", **options))] == ["train"]
    for source in (tmp_path / "saved" / "validation", tmp_path / "saved"):
        found = read_manifest(source, split="validation", **options)
        assert [text for _, text in said(found)] == ["validation"]
    with pytest.raises(ManifestError, match="no split 'test', it has train, validation"):
        read_manifest(tmp_path / "saved", split="test", **options)


def test_a_saved_dataset_without_splits_has_none_to_name(tmp_path: Path, sound: Sound) -> None:
    dataset([packed(sound("a.wav"))], text=["one"]).save_to_disk(str(tmp_path / "saved"))
    with pytest.raises(ManifestError, match="has no split 'test'"):
        read_manifest(f"{tmp_path / 'saved'}::test", cache_dir=tmp_path / "cache")


def test_a_saved_dataset_that_is_broken_is_refused(tmp_path: Path) -> None:
    for name in ("state.json", "dataset_info.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(tmp_path, cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("way", ["../other/{}", "{folder}/other/{}"])
def test_a_saved_dataset_has_its_rows_from_no_other_folder(way: str, tmp_path: Path, sound: Sound) -> None:
    for name in ("saved", "other"):
        dataset([packed(sound("a.wav"))], text=[name]).save_to_disk(str(tmp_path / name))
    state = tmp_path / "saved" / "state.json"
    told = json.loads(state.read_text())
    told["_data_files"][0]["filename"] = way.format(told["_data_files"][0]["filename"], folder=tmp_path)
    state.write_text(json.dumps(told))
    with pytest.raises(ManifestError, match="names files that are not in its dataset"):
        read_manifest(tmp_path / "saved", cache_dir=tmp_path / "cache")
