"""A model hub over HTTP: what the libraries ask of the real one. It has `somebody/speech`, `somebody/broken`,
whose data it refuses, datasets with a card, and such as only a bad hub has.
"""

import json
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REVISION = "a" * 40
FILE = "data/train-00000-of-00001.parquet"
API = re.compile(r"/api/datasets/somebody/(\w+)(.*)")
CARD = re.compile(r"/datasets/somebody/(\w+)/resolve/\w+/README\.md")

SLOW = ("trickling", "drawling")
"""Of these, what is asked first or the card comes byte by byte, without end."""
GATED = ("locked", "sealed")
"""Of these, nothing is told, or no file is given, to somebody who has not accepted the terms."""
RUBBISH = {
    "empty": b"",
    "portal": b"<html>Please log in to the hotel's network</html>",
    "void": b"null",
    "several": b"[]",
    "nameless": b"{}",
    "numbered": b'{"id": 3, "siblings": 4}',
    "undated": b'{"id": "somebody/undated", "siblings": []}',
    "unnamed": b'{"id": "somebody/unnamed", "sha": 7, "siblings": [null]}',
}
"""What is answered in place of a hub's answer."""


class SmallHub(ThreadingHTTPServer):
    """Serves `parquet` as the only file of each dataset; `cards` are those of datasets that have one."""

    daemon_threads = True

    def __init__(self, parquet: Path, cards: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = parquet.read_bytes()
        self.cards = {"drawling": "# A long one", **cards}
        self.names = {"speech", "broken", "sealed", *self.cards}
        self.is_over = threading.Event()
        self.refused = self.sent_bytes = 0

    def __enter__(self) -> "SmallHub":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: SmallHub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name, asked = found.groups() if (found := API.fullmatch(path)) else ("", path)
        is_file = "/resolve/" in path
        if name == "trickling" or ("somebody/drawling" in path and is_file and self.command == "GET"):
            self._trickle()
        elif name in RUBBISH:
            self._send(200, RUBBISH[name], {"Content-Type": "application/json"})
        elif name == "locked" or ("somebody/sealed" in path and is_file):
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif name in self.server.names and asked in ("", f"/revision/{REVISION}"):
            siblings = [{"rfilename": FILE}]
            self._json({"id": f"somebody/{name}", "sha": REVISION, "siblings": siblings, "tags": []})
        elif asked == f"/tree/{REVISION}":
            self._json([{"type": "directory", "path": "data", "oid": "c" * 40, "size": 0}])
        elif asked == f"/tree/{REVISION}/data":
            self._json([{"type": "file", "path": FILE, "oid": "b" * 40, "size": len(self.server.content)}])
        elif path.endswith(FILE) and "somebody/broken" in path:
            self.server.refused += 1
            self._send(403, b"{}", {})
        elif path.endswith(FILE):
            self._data()
        elif (found := CARD.fullmatch(path)) and found[1] in self.server.cards:
            headers = {"X-Repo-Commit": REVISION, "ETag": f'"{found[1]}"'}
            self._send(200, self.server.cards[found[1]].encode(), headers)
        else:
            found = re.search(r"somebody/(\w+)", path)
            code = "EntryNotFound" if found and found[1] in self.server.names else "RepoNotFound"
            self._send(404, b"{}", {"X-Error-Code": code, "X-Repo-Commit": REVISION})

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Tests show what matters themselves."""

    def _data(self) -> None:
        content = self.server.content
        headers = {"X-Repo-Commit": REVISION, "ETag": '"' + "b" * 40 + '"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            self._send(200, content, headers)
            return
        first = int(asked[1])
        last = min(int(asked[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], headers)

    def _trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        with suppress(OSError):
            while not self.server.is_over.wait(0.02):  # well within the limit for a first byte
                self.wfile.write(b" ")

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, code: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.server.sent_bytes += len(data)
            self.wfile.write(data)
