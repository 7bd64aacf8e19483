"""What visitors upload: kept apart, within a limit, and gone with the studio that took it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from studio.serving import uploads as serving_uploads
from studio.serving.uploads import LEAST_BYTES_PER_SECOND, SILENT_SECONDS, UploadLimit, Uploads
from studio.settings import Settings
from studio.ui import build
from tests.event_loop import run_in_loop
from tests.studio_process import ROOT
from tests.unit.ui.test_gate import served


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", uploads=tmp_path / "uploads", max_upload_mb=0.01)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with room for all that uploads may have, whatever this machine's has."""
    disk = shutil.disk_usage("/")._replace(free=2**40)
    monkeypatch.setattr(serving_uploads.shutil, "disk_usage", lambda _: disk)


def test_each_studio_has_a_folder_of_its_own_that_goes_with_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", "before")
    with closing(Uploads(settings)) as uploads, closing(Uploads(settings)) as other:
        assert uploads.folder != other.folder and os.environ["GRADIO_TEMP_DIR"] == str(other.folder)
        assert uploads.folder.stat().st_mode & 0o077 == 0
    assert not uploads.folder.exists() and not other.folder.exists()
    assert os.environ["GRADIO_TEMP_DIR"] == "before"


@pytest.mark.parametrize("made", [0, time.time() + 10**6], ids=["long ago", "before the clock was set back"])
def test_what_a_killed_studio_left_goes_when_the_next_one_starts(settings: Settings, made: float) -> None:
    script = (
        "import os, sys; from pathlib import Path; from studio.settings import Settings; "
        "from studio.serving.uploads import Uploads; "
        "made = Uploads(Settings(home=Path(sys.argv[1]), uploads=Path(sys.argv[2]))); "
        "(made.folder / 'private.wav').touch(); print(made.folder, flush=True); os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", script, str(settings.home), str(settings.uploads)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8")
    left = Path(done.stdout.strip())
    assert (left / "private.wav").is_file()
    with closing(Uploads(settings)) as living:
        assert left.is_dir(), "it may be one that only just starts"
        for folder in (left, living.folder):
            os.utime(folder, (made, made))
        with closing(Uploads(settings)):
            assert not left.exists() and living.folder.is_dir()


def test_uploads_are_refused_once_they_fill_their_room(settings: Settings) -> None:
    with served(settings) as page:
        sound = {"files": ("a.wav", b"x" * 9_000)}
        for number in range(30):
            files = {"files": (f"{number}.wav", bytes([number]) * 9_000)}
            answer = page.client.post("/gradio_api/upload", files=files)
            if answer.status_code != 200:
                break
        assert answer.status_code == 413 and 18 <= number <= 23
        assert "try again in an hour" in answer.text
        refused = page.client.post("/gradio_api/upload", files=sound, headers={"accept-language": "zh-CN"})
        assert "服务器已存满" in refused.text
        assert page.client.get("/config").status_code == 200


def test_what_nobody_asks_for_any_more_goes(settings: Settings) -> None:
    with closing(Uploads(settings)) as uploads:
        (uploads.folder / "live").mkdir()
        places = {"tmpold": 100, "tmpnew": 0, "tmpfull": 100, "live/old.flac": 3700, "live/new.flac": 3500}
        for name, age in places.items():
            (uploads.folder / name).write_text("x" if name == "tmpfull" else "")
            os.utime(uploads.folder / name, (time.time() - age,) * 2)
        uploads.sweep()
        left = {path.relative_to(uploads.folder).as_posix() for path in uploads.folder.rglob("*[a-z]")}
        shutil.rmtree(uploads.folder)  # as a cleaner of /tmp does
        uploads.sweep()
    assert left - {".alive"} == {"tmpnew", "tmpfull", "live", "live/new.flac"}


def test_an_upload_is_there_for_its_time_and_then_gone_with_what_was_made_of_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "UPLOADS_KEPT_SECONDS", 4)
    with served(settings) as page:
        files = {"files": ("a.wav", b"x" * 900)}
        (place,) = page.client.post("/gradio_api/upload", files=files).json()
        first, came = Path(place), time.monotonic()
        while first.exists():
            assert time.monotonic() < came + 60
            time.sleep(0.1)
        assert time.monotonic() - came > 2, "not at once"
        (place,) = page.client.post("/gradio_api/upload", files=files).json()
        assert Path(place).is_file() and Path(place).parent == first.parent, "it can be sent again"


def test_what_is_no_upload_is_no_larger_than_a_question(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_uploads, "_LARGEST_QUESTION_BYTES", 50_000)
    large = b'{"data": ["' + b"x" * 60_000 + b'"]}'
    asked = ("/gradio_api/queue/join", "/gradio_api/call/estimate", "/gradio_api/mcp/")
    with served(replace(settings, max_upload_mb=0.5)) as page:
        for path in asked[:2]:
            answer = page.client.post(path, content=large)
            assert answer.status_code == 413 and "A request may have 48.8 KiB at most" in answer.text
            silent = page.client.post(path, content=iter([large]))  # it does not say how large it is
            assert silent.status_code == 400, silent.text
        assert page.client.post(asked[2], content=large).status_code != 413, "a recording as text"
        assert page.client.post(asked[2], content=large * 30).status_code == 413


class Sender:
    """Sends `piece` every `seconds`, on a clock of its own, until `size_bytes` are there."""

    def __init__(self, piece: bytes, seconds: float, size_bytes: int, *, keeps_room: bool = True) -> None:
        self.keeps_room = keeps_room
        self.piece, self.seconds, self.left = piece, seconds, size_bytes
        self.now = 0.0
        self.said: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        self.now += self.seconds
        self.left -= len(self.piece)
        return {"type": "http.request", "body": self.piece, "more_body": self.left > 0}

    async def send(self, message: Any) -> None:
        self.said.append(message)

    def sends_to(self, uploads: Uploads, path: str, **headers: str) -> tuple[int, str]:
        """Status and text of the answer."""

        async def takes(scope: Any, receive: Any, send: Any) -> None:
            async for _ in Request(scope, receive).stream():
                assert uploads.takes(uploads.most_bytes - 5_000) is not self.keeps_room, "room is kept for it"
            await PlainTextResponse("taken")(scope, receive, send)

        told = {"content-length": str(self.left), **headers}.items()
        scope = {"type": "http", "method": "POST", "path": path}
        scope["headers"] = [(key.encode(), value.encode()) for key, value in told]  # type: ignore[assignment]
        limit = UploadLimit(takes, uploads, clock=lambda: self.now)
        run_in_loop(limit(scope, self.receive, self.send))
        return self.said[0]["status"], b"".join(one.get("body", b"") for one in self.said).decode()


def test_a_question_that_drips_is_given_up_and_a_large_one_keeps_room_while_it_comes(
    settings: Settings, roomy: None
) -> None:
    path = "/gradio_api/queue/join"
    with closing(Uploads(replace(settings, max_upload_mb=100))) as uploads:
        drips = Sender(b"x", 5, 10_000, keeps_room=False)
        assert drips.sends_to(uploads, path)[0] == 408 and drips.now <= SILENT_SECONDS + 5
        large = Sender(bytes(50 * LEAST_BYTES_PER_SECOND), 1, 20 * 2**20)
        assert large.sends_to(uploads, path) == (200, "taken")
        assert uploads.takes(uploads.most_bytes)


def test_gradios_recorder_of_the_screen_converts_nothing_here(settings: Settings) -> None:
    with closing(Uploads(settings)) as uploads:
        assert Sender(b"x", 1, 1).sends_to(uploads, "/gradio_api/process_recording")[0] == 404


@pytest.mark.parametrize("path", ["/gradio_api/upload", "/v1/audio/transcriptions"])
def test_an_upload_that_drips_is_given_up_and_a_slow_one_is_taken(
    settings: Settings, path: str, roomy: None
) -> None:
    """A byte every five seconds would have kept its room for hours."""
    with closing(Uploads(replace(settings, max_upload_mb=100))) as uploads:
        drips = Sender(b"x", 5, 10_000)
        status, text = drips.sends_to(uploads, path, **{"accept-language": "zh-TW"})
        assert status == 408 and "太慢" in text and drips.now <= SILENT_SECONDS + 5
        slow = Sender(bytes(LEAST_BYTES_PER_SECOND), 1, 50 * 2**20)
        assert slow.sends_to(uploads, path) == (200, "taken") and slow.now > 3000
        in_bursts = Sender(bytes(50 * LEAST_BYTES_PER_SECOND), 45, 20 * 2**20)
        assert in_bursts.sends_to(uploads, path) == (200, "taken")
        assert uploads.takes(uploads.most_bytes), "no room is kept for what has ended"


def test_uploads_that_are_announced_and_never_sent_keep_no_room(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_uploads, "SILENT_SECONDS", 2.0)
    with served(settings) as page, ExitStack() as opened:
        host, _, port = page.here.partition(":")
        for _ in range(30):
            line = opened.enter_context(socket.create_connection((host, int(port))))
            line.sendall(
                f"POST /gradio_api/upload HTTP/1.1\r\nHost: {page.here}\r\nContent-Length: 9000\r\n"
                "Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode()
            )
        files = {"files": ("a.wav", b"x" * 9_000)}
        for code in (413, 200):  # they have all the room for a moment, and then none of it
            while page.client.post("/gradio_api/upload", files=files).status_code != code:
                time.sleep(0.05)
