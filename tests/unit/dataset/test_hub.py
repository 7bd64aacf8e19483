import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import soundfile

from studio.dataset.cards import MOST_BYTES
from studio.dataset.hub import with_bytes
from studio.errors import ManifestError
from studio.options.sources import is_dataset_id
from tests.reading import read_manifest
from tests.studio_process import ROOT

from .conftest import sweep
from .small_hub import FILE, GATED, REVISION, RUBBISH, SLOW, SmallHub

READ = """
import json, sys
from pathlib import Path
from studio.dataset.manifest import read_manifest
from studio.errors import StudioError
from studio.settings import Settings
for source, max_rows in json.loads(sys.argv[2]):
    try:
        manifest = read_manifest(source, Settings.from_env(), max_rows=max_rows, cache_dir=Path(sys.argv[1]))
        print(json.dumps([manifest.format, *[[e.text, e.duration_seconds] for e in manifest.examples]]))
    except StudioError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""
CARD = "---\nconfigs:\n- config_name: default\n  {}\n---\n# See http://example.org\n"


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


READ_SOON = """
import sys
from pathlib import Path
from studio.dataset.columns import Wanted
from studio.dataset.copies import Copies
from studio.dataset.hub import fetch
from studio.errors import HubUnreachableError
from studio.settings import Settings
copies = Copies.of(Settings.from_env(), Path(sys.argv[1]))
asked = {"split": "train", "max_rows": None, "copies": copies, "local_files_only": False}
for name in sys.argv[2:]:
    try:
        fetch(name, **asked, wanted=Wanted(True, "", ""), answer_seconds=0.5)
    except HubUnreachableError as error:
        print(error)
"""
READ_BYTES = """
import sys
from studio.dataset.hub import with_bytes
from studio.errors import ManifestError
place, size = sys.argv[1], int(sys.argv[2])
value = {"bytes": None, "path": place}
assert len(with_bytes(value, "somebody/speech", size)["bytes"]) == size
try:
    with_bytes(value, "somebody/speech", size - 1)
except ManifestError as error:
    print(error)
"""


class Asked(NamedTuple):
    """What a process has read, that was sent to a small hub."""

    answers: list[Any]
    cache: Path
    hub: SmallHub


@pytest.fixture
def asked(parquet: Path, environ: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """What a program prints that is run beside a small hub."""

    def asked(program: str, words: list[str], hub: SmallHub | None = None) -> str:
        with hub or SmallHub(parquet, {}) as hub:
            done = subprocess.run(  # the address of the hub is fixed when the library is imported
                [sys.executable, "-c", program, *words],
                env={**environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return asked


@pytest.fixture
def ask(parquet: Path, asked: Callable[..., str], tmp_path: Path) -> Callable[..., Asked]:
    """Reads sources, each with so many rows at most, in a process that asks a small hub."""

    def ask(sources: list[tuple[str, int | None]], cards: Mapping[str, str] = MappingProxyType({})) -> Asked:
        cache, hub = tmp_path / "cache", SmallHub(parquet, cards)
        told = asked(READ, [str(cache), json.dumps(sources)], hub)
        return Asked(list(map(json.loads, told.splitlines())), cache, hub)

    return ask


def test_a_dataset_of_the_hub_is_copied_once_and_whole_and_then_read_without_the_hub(
    ask: Callable[..., Asked],
) -> None:
    names = ("speech", "speech:default:train", "speech::train+train", "speech::dev", "speech:klingon")
    names = (*names, "nothing", "broken")
    sources = [("somebody/speech", 2), *((f"somebody/{name}", None) for name in (*names, "plain"))]
    answers, cache, hub = ask(sources, {"plain": CARD.format("data_files: data/*")})
    two, whole, again, twice, split, config, missing, broken, plain = answers
    assert two == ["hub", ["one", 1.0], ["two", 2.0]]
    assert whole == again == [*two, ["three", 3.0]]
    assert twice == [*whole, *whole[1:]]
    assert "Bad split: dev" in split[1] and "klingon" in config[1]
    assert missing[0] == "ManifestError" and "no such dataset" in missing[1]
    assert broken[0] == "HubUnreachableError" and "stopped answering" in broken[1]
    assert 0 < hub.refused < 40

    assert plain[1:] == whole[1:], "its card says where its files are"
    left = {path.name for path in (cache / "datasets").iterdir()}
    assert left == {"somebody--plain", "somebody--speech"}, "nothing is left of what broke off"
    copies = cache / "datasets" / "somebody--speech"
    assert {path.name for path in copies.iterdir()} == {
        *("default--train", "default--train--first-2", "default--train+train"),
    }
    offline = read_manifest("somebody/speech", cache_dir=cache, local_files_only=True)
    assert [example.text for example in offline.examples] == ["one", "two", "three"]
    unreachable = read_manifest("somebody/speech", cache_dir=cache)
    assert unreachable == offline


def test_a_card_of_the_hub_that_leads_out_of_its_dataset_is_refused_and_nobody_is_asked(
    ask: Callable[..., Asked], tmp_path: Path
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(f"audio,text\n{tmp_path / 'a.wav'},secret\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}/a.csv"
        places = [
            *(
                f"data_files: {place}"
                for place in (secret, f"file:{secret}", "data/../../../other@main/a.csv")
            ),
            *(f"data_files: {way}{address}" for way in ("ftp://", "http://", "zip://a.csv::http://")),
            f"data_files: [{{split: train, path: [data/*, '{secret}']}}]",
            f"data_dir: {tmp_path}",
        ]
        cards = {f"card{number}": CARD.format(place) for number, place in enumerate(places)}
        refused = ask([(f"somebody/{name}", None) for name in cards], cards).answers
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert [answer[0] for answer in refused] == ["ManifestError"] * len(places)
    assert all("README.md names files that are not in its dataset" in answer[1] for answer in refused)


def test_a_card_of_the_hub_that_would_take_hours_or_gigabytes_is_refused(ask: Callable[..., Asked]) -> None:
    places = "a: &a [data/*]\nconfigs:\n- config_name: default\n  data_files: *a"
    cards = {"aliases": f"---\n{places}\n---\n", "long": "#" * (MOST_BYTES + 1)}
    (aliases, long), _, hub = ask([(f"somebody/{name}", None) for name in cards], cards)
    assert aliases[0] == long[0] == "ManifestError"
    assert "aliases (*name) are not taken" in aliases[1]
    assert "somebody/long/README.md is longer than 1.00 MiB" in long[1]
    assert hub.sent_bytes < MOST_BYTES, "the long card is not fetched"


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
        *(f"{place}::hf://datasets/somebody/speech@1/a.wav" for place in ("/etc/hostname", "ftp://a/b.wav")),
        *(
            "file:///etc/hostname::hf://datasets/somebody/speech@1/a.zip",
            "hf://datasets/somebody/speech@1/../a",
        ),
    ],
)
def test_a_recording_that_is_not_in_the_dataset_is_not_opened(path: str) -> None:
    with pytest.raises(ManifestError, match="names a recording that is not in it"):
        with_bytes({"bytes": None, "path": path}, "somebody/speech")


def test_a_recording_that_is_larger_than_a_clip_is_not_held_in_memory(
    parquet: Path, asked: Callable[..., str]
) -> None:
    place = f"hf://datasets/somebody/speech@{REVISION}/{FILE}"
    told = asked(READ_BYTES, [place, str(parquet.stat().st_size)])
    assert "The dataset somebody/speech has a recording of more than" in told
    assert f"({place}), which is no clip" in told


def test_a_hub_that_answers_byte_by_byte_is_given_up(asked: Callable[..., str], tmp_path: Path) -> None:
    names = [f"somebody/{name}" for name in SLOW]
    trickling, drawling = asked(READ_SOON, [str(tmp_path), *names]).splitlines()
    assert "does not answer (no whole answer in 2 s)" in trickling
    assert "stopped answering while somebody/drawling was read (no whole answer in 2 s)" in drawling


def test_a_dataset_that_wants_consent_and_an_answer_that_is_none_of_a_hubs_are_said_to_be_such(
    ask: Callable[..., Asked],
) -> None:
    answers = ask([(f"somebody/{name}", None) for name in (*GATED, *RUBBISH)]).answers
    gated, rubbish = answers[: len(GATED)], answers[len(GATED) :]
    assert [answer[0] for answer in gated] == ["ManifestError"] * len(GATED)
    assert all("asks for your consent" in answer[1] for answer in gated)
    assert [answer[0] for answer in rubbish] == ["HubUnreachableError"] * len(RUBBISH)
    assert all("Something else answered in place of the model hub" in answer[1] for answer in rubbish)


def test_a_dataset_id_is_told_from_a_path() -> None:
    ids = ("owner/name", "owner/name:config:split", "mozilla-foundation/common_voice_17_0:zh-CN:test")
    assert [
        source for source in (*ids, "librispeech_asr", "owner/name::train+dev") if not is_dataset_id(source)
    ] == []
    paths = ("../name", "./owner/name", "/absolute/name", "a/b/c", "C:\\data\\list", "")
    others = ("https://example.org/a", "owner/name:a:b:c")
    assert [source for source in (*paths, *others) if is_dataset_id(source)] == []
