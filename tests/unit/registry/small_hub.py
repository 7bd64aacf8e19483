"""A model hub in this process: as much of the Hub's protocol as a download needs."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB_ID = "someone/whisper-small-model"
_ASKED = re.compile(r"(/api/(?:models|spaces))?/([^/]+/[^/]+?)(|/revision/main|/tree/.+|/resolve/.+)")


class SmallHub(BaseHTTPRequestHandler):
    """Has one model, `HUB_ID`: the files of a folder."""

    folder: ClassVar[Path]
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def folder_of(self, hub_id: str) -> Path | None:
        """Where the files of a model are that whoever asks may see."""
        return self.folder if hub_id == HUB_ID else None

    def about(self, hub_id: str) -> dict[str, object]:
        """What is said of a model beside its files."""
        return {}

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.split("?")[0]
        type(self).asked.append(path)
        found = _ASKED.fullmatch(path)
        hub_id, asked = (found[2], found[3]) if found else ("", "")
        folder = self.folder_of(hub_id)
        files = (
            {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()} if folder else {}
        )
        headers = {"X-Repo-Commit": COMMIT}
        name = asked.removeprefix(f"/resolve/{COMMIT}/")
        if folder and found and found[1] and asked in ("", "/revision/main"):
            rows = [{"rfilename": name, "size": file.stat().st_size} for name, file in files.items()]
            told = {"id": hub_id, "sha": COMMIT, "siblings": rows, **self.about(hub_id)}
            body = json.dumps(told).encode()
        elif folder and asked == f"/tree/{COMMIT}":
            rows = [
                {"type": "file", "path": name, "size": file.stat().st_size, "oid": etag(file)}
                for name, file in files.items()
            ]
            body = json.dumps(rows).encode()
        elif name in files:
            body = files[name].read_bytes()
            headers["ETag"] = f'"{etag(files[name])}"'
        else:
            self.refuse(404, "RepoNotFound")
            return
        self.send(200, body if with_body else b"", headers, size=len(body))

    def send(self, code: int, body: bytes, headers: dict[str, str], size: int | None = None) -> None:
        """An answer; `size` is that of the body, if that is left out."""
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code: int, why: str = "") -> None:
        """An answer without a body."""
        self.send(code, b"", {"X-Error-Code": why} if why else {})


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Address of a hub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
