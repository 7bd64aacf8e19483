"""A list names its sounds from where they lay when it was made."""

from pathlib import Path

import pytest

from studio.dataset.places import Places
from studio.errors import ManifestError


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    for name in ("train/a.wav", "train/b.wav", "test/b.wav", "deep/down/c.wav", "cafe\u0301.wav"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"sound")
    return folder


@pytest.mark.parametrize(
    ("named", "there"),
    [
        ("train/a.wav", "train/a.wav"),
        ("a.wav", "train/a.wav"),
        ("down\\c.wav", "deep/down/c.wav"),
        ("$data_root/test/b.wav", "test/b.wav"),
        ("{data_root}/c.wav", "deep/down/c.wav"),
        ("/home/bob/corpus/test/b.wav", "test/b.wav"),
        (r"D:\corpus\train\b.wav", "train/b.wav"),
        ("/data/upload/1/1a2b3c4d-c.wav", "deep/down/c.wav"),
        ("/data/upload/a.wav", "train/a.wav"),
        ("/data/local-files/?d=deep%5Cdown%2Fc.wav", "deep/down/c.wav"),
        ("/data/local-files/?d=corpus/test/b.wav", "test/b.wav"),
        ("caf\u00e9.wav", "cafe\u0301.wav"),
    ],
)
def test_a_sound_is_found_by_its_path_or_as_the_only_one_whose_path_ends_so(
    corpus: Path, named: str, there: str
) -> None:
    path, size_bytes = Places([corpus], []).find(named)
    assert path.samefile(corpus / there) and size_bytes == 5


def test_a_corpus_may_begin_in_the_folder_above_its_lists(corpus: Path) -> None:
    places = Places([corpus / "deep"], [])
    assert places.find("{data_root}/train/b.wav")[0] == corpus / "train/b.wav"
    for named in ("train/b.wav", "{data_root}/b.wav", "{data_root}/../corpus/test/b.wav"):
        with pytest.raises(ManifestError, match="There is no audio file"):
            places.find(named)
    with pytest.raises(ManifestError, match="did not come with its list"):
        Places([corpus / "deep"], [corpus / "deep"]).find("{data_root}/train/b.wav")


@pytest.mark.parametrize(
    "named",
    [
        "b.wav",
        "valid/a.wav",
        "/home/bob/valid/a.wav",
        "../a.wav",
        ".",
        "gone.wav",
        "/data/local-files/?d=b.wav",
    ],
)
def test_what_could_be_another_recording_is_not_taken(corpus: Path, named: str) -> None:
    with pytest.raises(ManifestError, match=r"There is no audio file|is a folder"):
        Places([corpus / "deep", corpus] if named == "." else [corpus], []).find(named)


def test_nothing_outside_of_its_folder_is_found_for_a_visitor(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(b"sound")
    (corpus / "deep" / "link.wav").symlink_to(tmp_path / "secret.wav")
    assert Places([corpus], []).find("link.wav")
    served = "/data/local-files/?d=../secret.wav"
    for named in ("link.wav", "../secret.wav", str(tmp_path / "secret.wav"), served):
        with pytest.raises(ManifestError, match="did not come with its list"):
            Places([corpus], [corpus]).find(named)
    assert Places([corpus], [corpus]).find("a.wav")[0] == corpus / "train" / "a.wav"


def test_of_two_uploads_only_one_had_the_name(corpus: Path) -> None:
    places = Places([corpus], [])
    for _ in range(2):
        assert places.find("/data/upload/1/1a2b3c4d-a.wav")[0] == corpus / "train" / "a.wav"
    with pytest.raises(ManifestError, match="There is no audio file"):
        places.find("/data/upload/1/5a2b3c4d-a.wav")


def test_of_two_folders_of_another_machine_only_one_is_this(corpus: Path) -> None:
    places = Places([corpus], [])
    assert places.find("/data/ann/train/a.wav")[0] == corpus / "train" / "a.wav"
    assert places.find("/data/ann/train/b.wav") and places.find("/other/test/b.wav")
    for named in ("/data/bob/train/a.wav", f"/data/{'é' * 300}/train/a.wav"):
        with pytest.raises(ManifestError, match="There is no audio file"):
            places.find(named)
