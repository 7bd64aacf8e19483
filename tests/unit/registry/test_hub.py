"""Downloads from a model hub: a small one in this process, one that never answers, and none at all."""

import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from studio.errors import HubUnreachableError, ModelNotFoundError, StorageError
from studio.registry.hub import cached_snapshots, download
from studio.registry.spec import ModelSource
from studio.registry.store import ModelRegistry
from studio.room import Room, size_of
from tests.unit.registry.conftest import make_whisper
from tests.unit.registry.small_hub import HUB_ID, SmallHub, served


@pytest.fixture
def hub(on_the_hub: Path) -> Iterator[str]:
    """Address of a hub with one Whisper."""
    with served(type("Hub", (SmallHub,), {"folder": on_the_hub, "asked": []})) as address:
        yield address


@pytest.fixture
def on_the_hub(tmp_path: Path) -> Path:
    """A Whisper which also has pickled weights and a folder for another library."""
    folder = make_whisper(tmp_path / "on-the-hub")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "model.fp32-00001-of-00002.safetensors").write_bytes(b"the same in float32")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    return folder


def test_a_download_fetches_configs_and_safetensors_and_no_pickle(hub: str, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = download(HUB_ID, cache_dir=tmp_path / "hub", on_progress=lambda *at: told.append(at), endpoint=hub)
    names = {file.relative_to(path).as_posix() for file in path.rglob("*")}
    assert names == {"config.json", "preprocessor_config.json", "tokenizer.json", "model.safetensors"}
    size = sum(file.stat().st_size for file in path.iterdir())
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_model_larger_than_visitors_may_download_is_not_fetched(hub: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"may download models of up to 100 B"):
        download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=hub, most_bytes=100)
    assert not (tmp_path / "hub").exists()
    assert download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=hub, most_bytes=2**30).is_dir()


def test_a_space_keeps_the_models_of_the_hub_that_are_used(hub: str, tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    size = sum(file.stat().st_size for file in download(HUB_ID, cache_dir=cache, endpoint=hub).iterdir())
    used, unused, data = (cache / f"{name}" for name in ("models--a--b", "models--c--d", "datasets--e--f"))
    for hours, folder in ((5, unused), (6, used), (7, data)):
        make_whisper(folder / "snapshots" / "1")
        os.utime(folder, (time.time() - 3600 * hours,) * 2)
    room = Room(most_bytes=size + size_of(used) + 1)
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=cache, room=room)
    assert registry.local_path("a/b") == used / "snapshots" / "1"
    assert download(HUB_ID, cache_dir=cache, endpoint=hub, room=room).is_dir()
    assert used.is_dir() and not unused.exists() and not data.exists()
    with pytest.raises(StorageError, match=r"keeps .* of models of the Hub.*that is listed, try again later"):
        download(HUB_ID, cache_dir=cache, endpoint=hub, room=Room(most_bytes=size))
    assert used.is_dir() and registry.local_path(HUB_ID).is_dir()


def test_a_downloaded_model_is_in_the_registry_and_loads_without_a_hub(hub: str, tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=cache)
    assert registry.get(HUB_ID).path is None
    path = download(HUB_ID, cache_dir=cache, endpoint=hub)
    assert cached_snapshots(cache) == {HUB_ID: path}
    assert registry.get(HUB_ID).source is ModelSource.DOWNLOADED
    assert registry.local_path(HUB_ID, local_files_only=True) == path


def test_another_cache_is_looked_into_when_it_is_named(hub: str, tmp_path: Path) -> None:
    path = download(HUB_ID, cache_dir=tmp_path / "other", endpoint=hub)
    registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=tmp_path / "hub")
    assert registry.local_path(HUB_ID, cache_dir=tmp_path / "other", local_files_only=True) == path


def test_a_model_the_hub_does_not_know_is_refused(hub: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no model someone/else"):
        download("someone/else", cache_dir=tmp_path / "hub", endpoint=hub)


@pytest.mark.parametrize("name", ["someone/whisper--small", "someone/whisper..small", "someone/whisper."])
def test_what_cannot_be_a_name_on_the_hub_is_said_to_be_one(name: str, hub: str, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="cannot be the name"):
        download(name, cache_dir=tmp_path / "hub", endpoint=hub)


def test_a_hub_that_nobody_runs_or_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            with pytest.raises(HubUnreachableError, match="did not answer"):
                address = f"http://127.0.0.1:{port}"
                download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address, answer_seconds=0.5)


RUBBISH = (
    b"",
    b"<html>Please log in to the hotel's network</html>",
    b"null",
    b"[]",
    b"{}",
    b'{"id": 3, "siblings": 4}',
    b'{"id": "a/b", "siblings": [{"rfilename": 7, "size": "many"}]}',
    b'{"id": "a/b", "siblings": [null]}',
)


@pytest.mark.parametrize("said", RUBBISH)
def test_an_answer_that_is_none_of_a_hubs_is_given_up(said: bytes, tmp_path: Path) -> None:
    class Rubbish(SmallHub):
        def _answer(self, *, with_body: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            if with_body:
                self.wfile.write(said)

    with served(Rubbish) as address, pytest.raises(HubUnreachableError, match="Something else answered"):
        download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address)
    assert cached_snapshots(tmp_path / "hub") == {}


@pytest.mark.parametrize("code", [401, 403])
def test_a_gated_model_is_said_to_want_a_login(code: int, tmp_path: Path) -> None:
    class Gated(SmallHub):
        def _answer(self, *, with_body: bool) -> None:
            self.send_response(code)
            self.send_header("X-Error-Code", "GatedRepo")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with served(Gated) as address, pytest.raises(ModelNotFoundError, match="hf auth login"):
        download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address)


def test_a_download_that_breaks_off_is_no_model_and_goes_on_later(on_the_hub: Path, tmp_path: Path) -> None:
    cut = on_the_hub.joinpath("model.safetensors").stat().st_size // 2

    class BreaksOff(SmallHub):
        folder, asked, is_whole = on_the_hub, [], False

        def _answer(self, *, with_body: bool) -> None:
            if self.path.endswith("model.safetensors") and with_body and not self.is_whole:
                real, self.wfile = self.wfile, io.BytesIO()
                super()._answer(with_body=True)
                real.write(self.wfile.getvalue()[:-cut])
                self.wfile = real
                self.close_connection = True
            else:
                super()._answer(with_body=with_body)

    with served(BreaksOff) as address:
        with pytest.raises(HubUnreachableError):
            download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address)
        registry = ModelRegistry(tmp_path / "models", demo=None, hf_cache=tmp_path / "hub")
        assert registry.get(HUB_ID).path is None or registry.get(HUB_ID).problem
        BreaksOff.is_whole = True
        path = download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address)
    assert (path / "model.safetensors").read_bytes() == (on_the_hub / "model.safetensors").read_bytes()


def test_a_hub_that_answers_byte_by_byte_is_given_up(tmp_path: Path) -> None:
    is_over = threading.Event()

    class Trickles(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not is_over.wait(0.02):  # each byte comes well within the limit for the first one
                    self.wfile.write(b" ")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with served(Trickles) as address:
        with pytest.raises(HubUnreachableError, match="did not answer"):
            download(HUB_ID, cache_dir=tmp_path / "hub", endpoint=address, answer_seconds=0.2)
        is_over.set()


def test_a_half_finished_download_is_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--someone--whisper"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / "abc.incomplete").write_bytes(b"half")
    (folder / "snapshots").mkdir()
    assert cached_snapshots(tmp_path / "hub") == {}
