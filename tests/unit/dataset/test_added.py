"""Data that somebody brings: whole in a folder of its own, or refused in a sentence with nothing left."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from studio.dataset import added as adding
from studio.dataset.added import Added, data_sets
from studio.errors import DataError, StorageError, StudioError
from studio.settings import Settings
from studio.units import MIB
from tests.micro import make_tones
from tests.reading import read_manifest
from tests.studio_process import ROOT

Member = tuple[str | zipfile.ZipInfo, bytes | str]
Zipped = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where data sets are kept."""
    return tmp_path / "datasets"


@pytest.fixture
def zipped(tmp_path: Path) -> Zipped:
    """`zipped([("a.wav", b"…")], "my.zip")`: a zip of these files."""

    def make(members: Iterable[Member], name: str = "mine.zip") -> Path:
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members:
                archive.writestr(member, content)
        return tmp_path / name

    return make


def add_data(files: Sequence[Path], root: Path, name: str = "", **how: Any) -> Added | None:
    """In the studio whose data sets are kept in `root`."""
    return adding.add_data(files, Settings(root.parent), name, **how)


def taken(*files: Path, root: Path, **how: object) -> Added:
    added = add_data(files, root, **how)  # type: ignore[arg-type]
    assert added is not None
    return added


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_zip_of_a_folder_is_training_data(root: Path, tmp_path: Path, zipped: Zipped) -> None:
    tones = make_tones(tmp_path / "tones", count=3).parent
    files = [(f"my voice/{path.name}", path.read_bytes()) for path in tones.iterdir()]
    system = [("__MACOSX/my voice/._tone0.wav", b"x"), ("my voice/.DS_Store", b"x"), ("my voice/deep/", b"")]
    told: list[tuple[int, int]] = []
    added = taken(zipped([*files, *system]), root=root, on_progress=lambda *step: told.append(step))
    assert added.source == root / "mine" / "my voice" and added.problem is None
    assert len(read_manifest(str(added.source)).examples) == 3
    assert (added.files, added.left_out) == (4, 2)
    assert added.size_bytes == sum(len(content) for _, content in files) == told[-1][0] == told[-1][1]
    assert list(data_sets(root).values()) == [added.source]


def test_recordings_and_their_list_are_a_data_set_called_as_the_list(root: Path, tmp_path: Path) -> None:
    manifest = make_tones(tmp_path / "tones", count=2)
    sounds = sorted(manifest.parent.glob("*.wav"))
    added = taken(*sounds, manifest, root=root)
    assert added.folder.name == manifest.stem and added.problem is None
    assert len(read_manifest(str(added.source)).examples) == 2
    assert taken(*sounds, manifest, root=root).folder.name == f"{manifest.stem}-2"
    assert all(file.is_file() for file in (*sounds, manifest)), "what was given stays"


def test_recordings_that_came_without_their_folder_are_where_their_list_names_them(
    root: Path, tmp_path: Path
) -> None:
    sounds = sorted(make_tones(tmp_path / "tones", count=7).parent.glob("*.wav"))
    named = [
        "audio/tone0.wav",
        r"my\deep\tone1.wav",
        "tone2.wav",
        "a/tone3.wav",
        "b/tone3.wav",
        "../tone4.wav",
        "/home/ann/set/tone5.wav",
        r"D:\set\tone6.wav",
    ]
    listed = tmp_path / "list.csv"
    listed.write_text("path,text\n" + "".join(f"{name},hello\n" for name in named), encoding="utf-8")
    added = taken(*sounds, listed, root=root)
    rest = {"list.csv", "tone2.wav", "tone3.wav", "tone4.wav"}
    moved = {"audio/tone0.wav", "my/deep/tone1.wav", "home/ann/set/tone5.wav", "set/tone6.wav"}
    assert set(contents(added.folder)) == moved | rest
    assert added.problem is None and added.unusable_rows == 3, "which tone3 it is, nobody knows"


def test_files_of_another_machine_are_found_in_a_zip_by_how_their_paths_end(
    root: Path, tmp_path: Path, zipped: Zipped
) -> None:
    sounds = sorted(make_tones(tmp_path / "tones", count=7).parent.glob("*.wav"))
    inside = ["x/a.wav", "y/a.wav", "y/b.wav", "z/c.wav", "p/q/d.wav", "r/q/d.wav", "e.wav"]
    files = [(f"mine/{name}", sound.read_bytes()) for name, sound in zip(inside, sounds, strict=True)]
    named = {
        "/home/bob/set/x/a.wav": "x/a.wav",
        r"D:\set\y\a.wav": "y/a.wav",
        "/home/bob/renamed/b.wav": "y/b.wav",
        "z/c.wav": "z/c.wav",
        "/home/bob/set/z/c.wav": "z/c.wav",
        "/home/bob/q/d.wav": "",
        "/home/bob/one/e.wav": "",
        "/home/bob/two/e.wav": "",
        "/home/bob/../e.wav": "",
        "/home/bob/gone.wav": "",
    }
    rows = "".join(f"{name},{inside.index(there) if there else 'unknown'}\n" for name, there in named.items())
    added = taken(zipped([*files, ("mine/list.csv", "path,text\n" + rows)]), root=root)
    assert added.problem is None and added.unusable_rows == sum(not there for there in named.values())
    heard = [(each.audio_path.read_bytes(), each.text) for each in read_manifest(str(added.source)).examples]
    assert heard == [(sounds[number].read_bytes(), str(number)) for number in (0, 1, 2, 3, 3)]


def test_sounds_of_a_kaldi_folder_of_another_machine_are_found_in_its_zip(
    root: Path, tmp_path: Path, zipped: Zipped
) -> None:
    sound = make_tones(tmp_path / "tones", count=1).parent / "tone0.wav"
    files = [("train/wav/a.wav", sound.read_bytes()), ("train/text", "u1 hello\n")]
    added = taken(zipped([*files, ("train/wav.scp", "u1 /export/corpora/wav/a.wav\n")]), root=root)
    assert added.problem is None
    assert [each.text for each in read_manifest(str(added.source)).examples] == ["hello"]


def test_a_list_of_ljspeech_is_read_beside_its_sounds_and_where_it_names_a_folder(
    root: Path, tmp_path: Path
) -> None:
    sounds = sorted(make_tones(tmp_path / "tones", count=2).parent.glob("*.wav"))
    listed = tmp_path / "metadata.csv"
    for first, folder in (("tone0", ""), ("audio/tone0.wav", "audio"), ("/home/ann/tone0.wav", "home/ann")):
        listed.write_text(f"{first}|one|eins\ntone1|two|zwei\n", encoding="utf-8")
        added = taken(*sounds, listed, root=root)
        assert (added.problem, added.unusable_rows) == (None, 0)
        assert (added.folder / folder / "tone0.wav").is_file()


def test_what_is_not_understood_is_kept_and_the_reader_says_why(root: Path, zipped: Zipped) -> None:
    added = taken(zipped([("a.wav", b"x"), ("notes.txt", b"y")]), root=root)
    assert contents(added.source) == {"a.wav": b"x", "notes.txt": b"y"}
    assert "has no metadata.csv" in str(added.problem)
    added = taken(zipped([("notes.txt", b"y"), ("photo.png", b"z")]), root=root)
    assert "has neither recordings nor a list" in str(added.problem)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("../out.wav", b"x")], "'../out.wav', which is not taken"),
        ([("a/../../out.wav", b"x")], "which is not taken"),
        ([("..\\out.wav", b"x")], "which is not taken"),
        ([("/etc/out.wav", b"x")], "'/etc/out.wav', which is not taken"),
        ([("C:\\out.wav", b"x")], "'C:/out.wav', which is not taken"),
        ([("a/c:/out.wav", b"x")], "which is not taken"),
        ([("a\nb.wav", b"x")], "which is not taken"),
        ([("a/" * 60 + "b.wav", b"x")], "at most 50 folders down"),
        ([(300 * "x", b"x")], "can be no path"),
        ([(".DS_Store", b"x"), ("__MACOSX/._a", b"x")], "no file to take in mine.zip"),
        ([], "no file to take in mine.zip"),
        ([("a.wav", b"x"), ("a.wav/b.wav", b"y")], "a.wav/b.wav is there twice"),
        ([(f"{number}.wav", b"") for number in range(11)], "more files than the 10"),
        ([("a.wav", bytes(2 * MIB))], "mine.zip has 2.00 MiB unpacked, and 1.00 MiB are taken at once"),
    ],
)
def test_a_zip_that_is_not_taken_is_refused_in_a_sentence_and_nothing_is_left(
    members: list[Member], sentence: str, root: Path, tmp_path: Path, zipped: Zipped
) -> None:
    archive = zipped([("good.wav", b"x"), *members] if len(members) == 1 else members)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(StudioError) as refused:
        add_data([archive], root, most_bytes=MIB, most_files=10)
    assert sentence in str(refused.value)
    assert {path for path in tmp_path.rglob("*") if path.name not in ("datasets", ".lock")} == before


def entry(name: str, **about: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    for key, value in about.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize("kind", [0o120777, 0o020666, 0o010644])
def test_links_and_devices_are_refused(kind: int, root: Path, zipped: Zipped) -> None:
    archive = zipped([("a.wav", b"x"), (entry("link", external_attr=kind << 16), "/etc/passwd")])
    with pytest.raises(DataError, match=r"link in mine.zip is a link"):
        add_data([archive], root)
    assert not data_sets(root)


def patched(archive: Path, signature: bytes, at: int, value: bytes) -> Path:
    """The zip with other bytes in the first header of a kind."""
    content = bytearray(archive.read_bytes())
    start = content.index(signature) + at
    content[start : start + len(value)] = value
    archive.write_bytes(content)
    return archive


CENTRAL, LOCAL = b"PK\1\2", b"PK\3\4"


def test_encrypted_and_oddly_packed_files_are_refused(root: Path, zipped: Zipped) -> None:
    with pytest.raises(DataError, match=r"mine.zip is encrypted: make a zip without a password"):
        add_data([patched(zipped([("a.wav", b"x")]), CENTRAL, 8, b"\1\0")], root)
    with pytest.raises(DataError, match=r"packed in a way that is not read here"):
        add_data([patched(zipped([("a.wav", b"x")]), CENTRAL, 10, b"\x09\0")], root)


def test_a_bomb_that_says_it_is_small_ends_early(root: Path, zipped: Zipped) -> None:
    bomb = patched(zipped([("a.wav", bytes(50 * MIB))]), CENTRAL, 24, (1000).to_bytes(4, "little"))
    told: list[int] = []
    with pytest.raises(DataError, match="damaged"):
        add_data([bomb], root, most_bytes=MIB, on_progress=lambda done, _: told.append(done))
    assert max(told, default=0) <= 1000 and not data_sets(root)


def test_no_more_is_written_than_was_said(root: Path, tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_bytes(b"x" * 10)
    grows = tmp_path / "b.wav"
    with pytest.raises(DataError, match=r"b.wav is larger than it says"):
        add_data([tmp_path / "a.wav", grows], root, on_progress=lambda *_: grows.write_bytes(b"x" * 11))
    assert list(root.iterdir()) == [root / ".lock"]


def test_a_damaged_zip_is_a_sentence_wherever_the_damage_is(root: Path, zipped: Zipped) -> None:
    content = os.urandom(5000)
    whole = zipped([("a.wav", content), ("b.wav", content)]).read_bytes()
    for damaged in (b"", b"no zip", whole[:-10], whole[: len(whole) // 2], whole[:40] + whole[60:]):
        with pytest.raises(DataError, match=r"bad.zip is damaged, incomplete or no zip"):
            add_data([write(root.parent / "bad.zip", damaged)], root)
    for start in (0, 28, 2000, 5100, len(whole) - 20):
        torn = whole[:start] + bytes(byte ^ 0xFF for byte in whole[start : start + 8]) + whole[start + 8 :]
        with pytest.raises(StudioError):
            add_data([write(root.parent / "bad.zip", torn)], root)
    assert not data_sets(root) and not (root / ".coming").exists()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_list_of_contents_that_no_zip_needs_is_not_even_read(root: Path, zipped: Zipped) -> None:
    archive = zipped([(f"{number:0240d}.wav", b"") for number in range(4000)])
    with pytest.raises(DataError, match="more files than the 10"):
        add_data([archive], root, most_files=10)
    assert taken(archive, root=root).files == 4000


def test_a_full_disk_is_said_before_with_the_numbers(root: Path, tmp_path: Path) -> None:
    large = write(tmp_path / "large.wav", b"")
    os.truncate(large, shutil.disk_usage(tmp_path).free + 2**40)  # a hole, that takes nothing
    with pytest.raises(StorageError, match=r"[KMG]iB free, and this needs [\d,]+ GiB"):
        add_data([large], root)
    assert not root.exists()


def test_who_says_that_there_is_no_room_is_asked_before_anything_is_written(
    root: Path, zipped: Zipped
) -> None:
    def refuse(size_bytes: int) -> None:
        raise StorageError(f"no room for {size_bytes}, and {root.exists()}")

    with pytest.raises(StorageError, match="no room for 3, and False"):
        add_data([zipped([("a.wav", b"one")])], root, require_room=refuse)
    assert not root.exists()


def test_names_of_other_countries_are_read_as_they_were_written(root: Path, zipped: Zipped) -> None:
    def renamed(raw: bytes) -> Path:
        """A zip of a program that does not say how it writes names."""
        archive = zipped([("?" * len(raw), b"x")])
        return write(archive, archive.read_bytes().replace(b"?" * len(raw), raw))

    for name, encoding in (("语音.wav", "gb2312"), ("語音é.wav", "utf-8"), ("café.wav", "cp437")):
        added = taken(renamed(name.encode(encoding)), root=root)
        assert list(contents(added.source)) == [name]


def test_names_that_differ_in_case_are_both_kept_or_refused_as_the_disk_has_it(
    root: Path, zipped: Zipped
) -> None:
    archive = zipped([("a.wav", b"small"), ("A.wav", b"large")])
    (root.parent / "case").touch()
    if (root.parent / "CASE").exists():
        with pytest.raises(DataError, match="differ only in capitals"):
            add_data([archive], root)
    else:
        assert contents(taken(archive, root=root).source) == {"a.wav": b"small", "A.wav": b"large"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_overwrites_nothing(root: Path, zipped: Zipped) -> None:
    with pytest.raises(DataError, match=r"a.wav is there twice"):
        add_data([zipped([("a.wav", b"one"), ("a.wav", b"two")])], root)
    with pytest.raises(DataError, match=r"a.wav is there twice"):
        add_data([zipped([("a.wav", b"one")]), write(root.parent / "a.wav", b"two")], root)
    assert not data_sets(root)


def test_who_cancels_leaves_nothing(root: Path, zipped: Zipped) -> None:
    told: list[int] = []
    archive = zipped([("a.wav", bytes(8 * MIB))])
    stopped = add_data(
        [archive], root, on_progress=lambda *_: told.append(1), should_stop=lambda: len(told) > 2
    )
    assert stopped is None and len(told) == 3
    assert list(root.iterdir()) == [root / ".lock"]


def test_one_that_is_killed_half_way_is_listed_nowhere_and_gone_with_the_next(
    root: Path, zipped: Zipped
) -> None:
    archive = zipped([("a.wav", bytes(8 * MIB))])
    script = (
        "import os, sys; from pathlib import Path; from studio.dataset.added import add_data; "
        "from studio.settings import Settings; root = Path(sys.argv[2]); "
        "add_data([Path(sys.argv[1])], Settings(root.parent), on_progress=lambda *_: os.kill(os.getpid(), 9))"
    )
    subprocess.run([sys.executable, "-c", script, str(archive), str(root)], cwd=ROOT, check=False)
    assert (root / ".coming" / "a.wav").is_file(), "it was killed too early"
    assert not data_sets(root)
    assert taken(archive, root=root).files == 1
    assert list(data_sets(root)) == ["mine"] and not (root / ".coming").exists()


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "x" * 61, "end."])
def test_a_name_that_is_no_folders_is_refused(name: str, root: Path, zipped: Zipped) -> None:
    with pytest.raises(StudioError, match="cannot be the name"):
        add_data([zipped([("a.wav", b"x")])], root, name)


def test_a_chosen_name_is_never_somebody_elses(root: Path, zipped: Zipped) -> None:
    archive = zipped([("a.wav", b"x")], "Zoë's (new).zip")
    assert taken(archive, root=root).folder.name == "Zoë-s -new"
    assert taken(archive, root=root, name="ours").folder == root / "ours"
    with pytest.raises(StudioError, match="a data set ours already"):
        add_data([archive], root, "ours")


def test_other_archives_and_files_that_are_not_there_are_answered(root: Path) -> None:
    with pytest.raises(StudioError, match=r"There is no file .*gone.zip"):
        add_data([root / "gone.zip"], root)
    with pytest.raises(DataError, match=r"a.7z is an archive that is not read here: make a zip"):
        add_data([write(root.parent / "a.7z", b"x")], root)
