import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from studio.errors import ManifestError
from tests.reading import read_manifest

from .conftest import Sound, reasons, said

BAD_NAMES = ("../../outside.wav", "/tmp/outside.wav", "..")


def write(path: Path, members: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def wav(sound: Sound) -> bytes:
    return sound("elsewhere/x.wav").read_bytes()


@pytest.mark.parametrize(("ending", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tgz", "w:gz")])
def test_sounds_have_the_texts_of_their_names(wav: bytes, tmp_path: Path, ending: str, mode: str) -> None:
    about = {"text": "second", "language": "en", " Audio_Path ": "/etc/passwd"}
    members = {
        "a/0001.wav": wav, "a/0001.txt": b" first\n", "a/0002.json": json.dumps(about).encode(),
        "a/0002.WAV": wav, "b/0001.wav": wav, "b/0001.txt": b"third", "a/0003.txt": b"alone",
    }  # fmt: skip
    source = write(tmp_path / f"list{ending}", members, mode)
    manifest = read_manifest(source, cache_dir=tmp_path / "cache")
    assert [example.text for example in manifest.examples] == ["first", "second", "third"]
    assert (manifest.format, manifest.problems) == ("webdataset", ())
    assert manifest.examples[1].language == "en"
    folders = {example.audio_path.parent.parent.parent for example in manifest.examples}
    assert folders == {tmp_path / "cache" / "datasets"}
    assert read_manifest(source, cache_dir=tmp_path / "cache") == manifest


def test_names_are_alike_up_to_their_first_dot_unless_there_are_several_sounds_of_it(
    wav: bytes, tmp_path: Path
) -> None:
    members = {
        "x.audio.wav": wav, "x.text.txt": b"joined", "y.wav": wav, "y.other.txt": b"other", "y.txt": b"own",
        "ann.1.wav": wav, "ann.1.txt": b"one", "ann.2.wav": wav, "ann.2.txt": b"two", ".wav": wav,
    }  # fmt: skip
    manifest = read_manifest(write(tmp_path / "list.tar", members), cache_dir=tmp_path / "cache")
    assert [example.text for example in manifest.examples[:4]] == ["joined", "own", "one", "two"]


def test_of_several_texts_of_a_clip_none_is_taken_and_the_row_says_so(wav: bytes, tmp_path: Path) -> None:
    members = {
        "x.wav": wav,
        "x.en.txt": b"one",
        "x.fr.txt": b"un",
        "y.wav": wav,
        "y.txt": b"whole",
        "y.fr.txt": b"un",
    }
    source = write(tmp_path / "list.tar", members)
    manifest = read_manifest(source, cache_dir=tmp_path / "cache")
    assert [example.text for example in manifest.examples] == ["whole"]
    assert reasons(manifest) == [(1, "The text is ['x.en.txt', 'x.fr.txt'], which is no text.")]
    heard = read_manifest(source, cache_dir=tmp_path / "cache", needs_text=False)
    assert [example.text for example in heard.examples] == ["", "whole"]


def test_no_member_is_written_outside_of_the_cache_nor_links_are_followed(wav: bytes, tmp_path: Path) -> None:
    inner = tmp_path / "deep" / "down"
    inner.mkdir(parents=True)
    path = write(inner / "list.tar", dict.fromkeys(BAD_NAMES, wav) | {"../../outside.txt": b"said"})
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("link.wav")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "elsewhere/x.wav")
        archive.addfile(link)
    before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    manifest = read_manifest(path, cache_dir=inner / "cache")
    assert [(example.text, example.audio_path.is_relative_to(inner)) for example in manifest.examples] == [
        ("said", True)
    ]
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == before
    assert not Path("/tmp/outside.wav").exists()


def test_several_archives_are_one_source(wav: bytes, tmp_path: Path) -> None:
    for number in range(3):
        name = f"{number:02d}"
        write(tmp_path / f"train-{name}.tar", {f"{name}.wav": wav, f"{name}.txt": name.encode()})
    write(tmp_path / "test-00.tar", {"t.wav": wav, "t.txt": b"test"})
    options = {"cache_dir": tmp_path / "cache"}
    assert [e.text for e in read_manifest(tmp_path, **options).examples] == ["00", "01", "02"]
    assert [e.text for e in read_manifest(tmp_path, split="test", **options).examples] == ["test"]
    pattern = str(tmp_path / "train-{00..02}.tar")
    assert [e.text for e in read_manifest(pattern, **options).examples] == ["00", "01", "02"]
    assert [e.text for e in read_manifest(pattern, max_rows=2, **options).examples] == ["00", "01"]
    with pytest.raises(ManifestError, match=r"There is no manifest .*train-03\.tar"):
        read_manifest(str(tmp_path / "train-{00..03}.tar"), **options)


def test_an_archive_that_cannot_be_used_is_refused_with_a_sentence(wav: bytes, tmp_path: Path) -> None:
    (tmp_path / "no.tar").write_bytes(b"not an archive" * 100)
    write(tmp_path / "broken.tar", {"1.wav": wav, "1.json": b"{"})
    write(tmp_path / "silent.tar", {"1.wav": wav})
    write(tmp_path / "libri.tar", {"84/1/84-1-0000.wav": wav, "84/1/84-1.trans.txt": b"84-1-0000 SAID\n"})
    write(tmp_path / "empty.tar", {"1.txt": b"x"})
    with tarfile.open(tmp_path / "noted.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        noted = tarfile.TarInfo("1.txt")
        noted.pax_headers = {"comment": "x" * 2**21}
        archive.addfile(noted)
    os.mkfifo(tmp_path / "pipe.tar")
    for name, reason in (
        ("pipe", "is not a file"),
        ("no", "cannot be read"), ("noted", r"noted\.tar has a header of 2\.00 MiB"),
        ("broken", r"1\.json in .*broken\.tar cannot be read"),
        ("silent", "has its text beside it"), ("libri", "LibriSpeech .* unpacked: name their folder"),
        ("empty", "has no rows"), ("gone", "There is no manifest"),
    ):  # fmt: skip
        with pytest.raises(ManifestError, match=reason):
            read_manifest(tmp_path / f"{name}.tar", cache_dir=tmp_path / "cache")
    assert said(read_manifest(tmp_path / "silent.tar", cache_dir=tmp_path / "cache", needs_text=False))


def test_what_macos_puts_beside_each_file_is_no_part_of_it(wav: bytes, tmp_path: Path) -> None:
    beside = b"\0\5\x16\7\0\2\0\0Mac OS X        \xff\xfe"
    members = {"._1.wav": beside, "._1.txt": beside, "1.wav": wav, "1.txt": b"said"}
    write(tmp_path / "list.tar", members)
    (tmp_path / "._list.tar").write_bytes(beside)
    for source in (tmp_path / "list.tar", tmp_path):
        assert [e.text for e in read_manifest(source, cache_dir=tmp_path / "cache").examples] == ["said"]
    folder = tmp_path / "sounds"
    folder.mkdir()
    for name, content in (("a.wav", wav), ("._a.wav", beside), ("._list.csv", beside)):
        (folder / name).write_bytes(content)
    assert said(read_manifest(folder, needs_text=False)) == [("a.wav", "")]
    (folder / "list.csv").write_text("audio,text\na.wav,said\n", encoding="utf-8")
    assert said(read_manifest(folder)) == [("a.wav", "said")]


def test_half_of_a_character_costs_its_clip_and_not_the_archive(wav: bytes, tmp_path: Path) -> None:
    members = {"1.wav": wav, "1.json": b'{"text": "\\ud800"}', "2.wav": wav, "2.json": b'{"text": "whole"}'}
    manifest = read_manifest(write(tmp_path / "list.tar", members), cache_dir=tmp_path / "cache")
    assert [example.text for example in manifest.examples] == ["whole"]
    assert [line for line, reason in reasons(manifest) if "half of a character" in reason] == [1]


def test_what_is_too_large_for_a_clip_or_its_text_is_not_held_in_memory(wav: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "list.tar", {"a.wav": wav, "b.wav": wav, "b.txt": b"said"})
    for name, size in (("a.json", 200 * 2**20), ("huge.wav", 300 * 2**20)):
        with path.open("r+b") as file:  # in place of the end of the archive, without a byte of what follows
            file.seek(0, 2)
            member = tarfile.TarInfo(name)
            member.size = size
            end = _end_of(path)
            file.truncate(end)
            file.seek(end)
            file.write(member.tobuf())
            file.truncate(end + 512 + size + 1024)
    tracemalloc.start()
    manifest = read_manifest(path, cache_dir=tmp_path / "cache")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [example.text for example in manifest.examples] == ["said"] and peak_bytes < 50 * 2**20


def _end_of(path: Path) -> int:
    """Where the last member ends."""
    with tarfile.open(path) as archive:
        last = archive.getmembers()[-1]
        return last.offset_data + -(-last.size // 512) * 512
