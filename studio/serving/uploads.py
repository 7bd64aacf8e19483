"""What visitors upload: a folder of this studio's own, with a limit, and gone with it.

Gradio keeps uploads in a folder that all its programs share, without a limit, and those of a killed one for
ever. Here each studio has a folder of its own beside them, locked as long as its process lives: the next one
that starts sweeps those whose process is gone.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from studio.files import storage_errors
from studio.serving.asgi import AsgiApp, AsgiMessage, Receive, Send, locale_of
from studio.serving.refusals import is_endpoint, refusal
from studio.settings import Settings, keep_uploads_in
from studio.translation import N_, tr
from studio.units import MIB, format_bytes

UPLOADS_KEPT_SECONDS = 3600
VOICES = "live"
"""The folder, among the uploads, of what is said to the page."""
SILENT_SECONDS = 60.0
"""An upload of which nothing comes for so long has been given up."""
LEAST_BYTES_PER_SECOND = 16 * 1024
"""One that comes more slowly than this is waited for so long in all: 50 MB take an hour then."""
_PREFIX = "whisper-studio-uploads-"
_LOCK = ".alive"
_MOST_FILES = 20_000
_YOUNG_SECONDS = 60.0
"""A studio that starts may not have locked its folder yet."""
_SLOW = N_(
    "The upload came too slowly and was given up: try again with a better connection, or a smaller file."
)
_LARGEST_QUESTION_BYTES = 32 * MIB
"""What the page or a program sends beside uploads: fields, transcripts, lists."""
_SMALL_BYTES = MIB
"""Of larger questions as many come at a time as there is room for uploads."""
_CONVERTS = "/gradio_api/process_recording"
"""Gradio's recorder of the screen converts videos there, for which it starts ffmpeg; the page has none."""
_TOOLS = "/gradio_api/mcp"
"""An assistant sends a recording within its question, as text."""
_TOO_LARGE = N_(
    "A request may have {most} at most, and this one has more: upload recordings, and name in the request "
    "what comes back."
)
_FULL = N_("The server has no room for more uploads: try again in an hour, or ask its owner for more room.")


class Uploads:
    """The folder of one studio; `close` removes it."""

    def __init__(self, settings: Settings) -> None:
        """Makes the folder, tells Gradio of it, and removes those that killed studios left.

        Raises:
            StorageError: if there is no room for a folder.
        """
        self.most_bytes = settings.most_upload_bytes
        self.largest_bytes = int(settings.max_upload_mb * MIB)
        self._coming_bytes = 0
        parent = settings.uploads or Path(tempfile.gettempdir())
        with storage_errors(parent):
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent)
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = FileLock(self.folder / _LOCK)
            self._lock.acquire()
        self._before = keep_uploads_in(self.folder)

    def close(self) -> None:
        """Removes what was uploaded."""
        keep_uploads_in(self._before)
        self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self) -> None:
        """Deletes what nobody asks for any more: voices of an hour ago, and the empty files that Gradio makes
        for each file of a form at each press. What cannot be deleted now is looked at again soon.
        """
        with suppress(OSError):
            self._tidy()

    def _tidy(self) -> None:
        for place in self.folder.iterdir():
            if place.name.startswith("tmp") and _size(place) == 0 and _is_older(place, _YOUNG_SECONDS):
                place.unlink(missing_ok=True)
        for place in (self.folder / VOICES).glob("*.flac"):
            if _is_older(place, UPLOADS_KEPT_SECONDS):
                place.unlink(missing_ok=True)

    def takes(self, size_bytes: int) -> bool:
        """Whether there is room for so much more beside what is there and what comes in at the moment: of
        what uploads may have, and on the disk.
        """
        sizes = [size for place in self.folder.rglob("*") if (size := _size(place)) is not None]
        room_bytes = min(self.most_bytes - sum(sizes), shutil.disk_usage(self.folder).free)
        return self._coming_bytes + size_bytes <= room_bytes and len(sizes) < _MOST_FILES

    def begin(self, size_bytes: int) -> None:
        """Counts what begins to come in."""
        self._coming_bytes += size_bytes

    def end(self, size_bytes: int) -> None:
        """It is there now, or was given up."""
        self._coming_bytes -= size_bytes


class UploadLimit:
    """The middleware that refuses an upload for which there is no room, of the page, of the endpoint or of
    an assistant; and whatever else is larger than a question is.
    """

    def __init__(self, app: AsgiApp, uploads: Uploads, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._uploads = uploads
        self._clock = clock

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Passes everything on but what is too much."""
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if path == _CONVERTS:
            await refusal(path, "Not Found", 404)(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        told_bytes = int(length) if length.isdecimal() else None
        if path.endswith("/upload") or is_endpoint(path):  # the application knows how large a file may be
            await self._upload(scope, receive, send, path, told_bytes)
            return
        is_tool = path.startswith(_TOOLS)
        most = self._uploads.largest_bytes * 4 // 3 + MIB if is_tool else _LARGEST_QUESTION_BYTES
        if told_bytes is not None and told_bytes > most:
            told = tr(_TOO_LARGE, locale_of(headers), most=format_bytes(most))
            await refusal(path, told, 413, code="too_large")(scope, receive, send)
        elif is_tool or told_bytes is None or told_bytes > _SMALL_BYTES:
            await self._upload(scope, _at_most(receive, most), send, path, told_bytes)
        else:
            await self._comes(scope, _at_most(receive, most), send, path)

    async def _upload(
        self, scope: AsgiMessage, receive: Receive, send: Send, path: str, told_bytes: int | None
    ) -> None:
        """Passes it on if there is room for it."""
        headers = Headers(scope=scope)
        size_bytes = self._uploads.largest_bytes if told_bytes is None else told_bytes
        if not await asyncio.to_thread(self._uploads.takes, size_bytes):
            answer = refusal(path, tr(_FULL, locale_of(headers)), 413, code="no_room")
            await answer(scope, receive, send)
            return
        self._uploads.begin(size_bytes)
        try:
            await self._comes(scope, receive, send, path)
        finally:
            self._uploads.end(size_bytes)

    async def _comes(self, scope: AsgiMessage, receive: Receive, send: Send, path: str) -> None:
        """Passes it on as long as it comes."""
        body = _Body(receive, self._clock)
        has_answered = False

        async def answered(message: AsgiMessage) -> None:
            """Passes the answer on, unless the upload was given up before there is one."""
            nonlocal has_answered
            if body.is_given_up and not has_answered:  # the application thinks that nobody is left to be told
                return
            has_answered = True
            await send(message)

        with suppress(ClientDisconnect):
            await self._app(scope, body.comes, answered)
        if body.is_given_up and not has_answered:
            answer = refusal(path, tr(_SLOW, locale_of(Headers(scope=scope))), 408, code="too_slow")
            answer.headers["connection"] = "close"
            await answer(scope, receive, send)


def _at_most(receive: Receive, most: int) -> Receive:
    """What is sent, as it comes; who sends more than that, without having said so, is gone."""
    left = most

    async def comes() -> AsgiMessage:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return comes


class _Body:
    """What is sent, as it comes; who says that much will come, and sends nothing or a byte now and then,
    keeps no room for it.

    There is patience for a minute of waiting, used up by waiting and given back by what comes.
    """

    def __init__(self, receive: Receive, clock: Callable[[], float]) -> None:
        self._receive = receive
        self._clock = clock
        self._is_whole = False
        self._patience_seconds = SILENT_SECONDS
        self.is_given_up = False

    async def comes(self) -> AsgiMessage:
        """The next piece, or that the visitor is gone."""
        if self._is_whole:  # what is waited for now is that the visitor leaves
            return await self._receive()
        began = self._clock()
        try:
            async with asyncio.timeout(self._patience_seconds):
                message = await self._receive()
        except TimeoutError:
            self._patience_seconds = 0.0
        else:
            came_seconds = len(message.get("body", b"")) / LEAST_BYTES_PER_SECOND
            patience_seconds = self._patience_seconds - (self._clock() - began) + came_seconds
            self._patience_seconds = min(SILENT_SECONDS, patience_seconds)
            self._is_whole = not message.get("more_body", False)
        if self._patience_seconds <= 0 and not self._is_whole:
            self.is_given_up = True
            return {"type": "http.disconnect"}
        return message


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            if not _is_older(folder, _YOUNG_SECONDS):
                continue
            with FileLock(folder / _LOCK, timeout=0):
                pass
        except (Timeout, OSError):  # its studio lives, or it is somebody else's
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _is_older(place: Path, seconds: float) -> bool:
    """What comes from the future was made before somebody set the clock back."""
    try:
        return abs(time.time() - place.stat().st_mtime) > seconds
    except OSError:  # gone since
        return False


def _size(place: Path) -> int | None:
    try:
        return place.stat().st_size if place.is_file() else None
    except OSError:  # gone since
        return None
