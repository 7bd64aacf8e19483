"""A model hub that takes models: what the library asks of the real one, through LFS and without Xet.

It checks what arrives, and can be told to refuse, to break off, to be slow, or to talk nonsense.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.unit.registry.small_hub import SmallHub, served

OWNER = "somebody"
WRITES, READS, OTHERS = "hf_played_may_write", "hf_played_may_read", "hf_played_of_another"
_WHO = {WRITES: (OWNER, "write"), READS: (OWNER, "read"), OTHERS: ("stranger", "write")}
_COMMIT = re.compile(r"/api/(?:models|spaces)/([^/]+/[^/]+)/(commit|preupload)/main")
_SETTINGS = re.compile(r"/api/(?:models|spaces)/([^/]+/[^/]+)/settings")
_BATCH = re.compile(r"(?:/spaces)?/([^/]+/[^/]+)\.git/info/lfs/objects/batch")
_LARGE_BYTES = 20_000


@dataclass
class Hub:
    """What it holds, what it was asked, and what goes wrong in it."""

    root: Path
    """A folder a model, `owner/name`."""
    url: str = ""
    private: set[str] = field(default_factory=set)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Headers and bodies of what it was asked, as text."""
    answers: dict[str, list[int]] = field(default_factory=dict)
    """Part of an address → codes with which it is answered first."""
    broken: dict[str, int] = field(default_factory=dict)
    """Part of an address → how often the line breaks in the middle of what is sent there."""
    pause_seconds: float = 0.0
    trickle_seconds: float = 0.0
    """Between one byte of an answer and the next."""
    silent_at: str = ""
    """Part of an address → what is asked there gets no answer in time."""
    over: threading.Event = field(default_factory=threading.Event)
    """Who waits for ever is let go."""
    rubbish: bytes | None = None
    """What it answers to everything."""

    def names(self, repo_id: str) -> set[str]:
        """The files of a model."""
        return {path.name for path in (self.root / repo_id).iterdir()}

    def make(self, repo_id: str, *, is_private: bool = True) -> Path:
        """An empty repository, as the Hub makes one."""
        folder = self.root / repo_id
        folder.mkdir(parents=True)
        (folder / ".gitattributes").write_text("*.bin filter=lfs\n")
        self.private |= {repo_id} if is_private else set()
        return folder


@contextmanager
def played_hub(root: Path) -> Iterator[Hub]:
    """A hub over a folder, until the end of the block."""
    hub = Hub(root)
    root.mkdir(parents=True, exist_ok=True)
    with served(type("Handler", (_Handler,), {"hub": hub, "folder": root, "asked": hub.asked})) as hub.url:
        yield hub


class _Handler(SmallHub):
    hub: Hub

    def folder_of(self, hub_id: str) -> Path | None:
        folder = self.hub.root / hub_id
        is_hidden = hub_id in self.hub.private and self._who()[0] != hub_id.partition("/")[0]
        return folder if hub_id and folder.is_dir() and not is_hidden else None

    def about(self, hub_id: str) -> dict[str, object]:
        return {"private": hub_id in self.hub.private}

    def do_POST(self) -> None:
        self._taken(self._body())

    def do_PUT(self) -> None:
        self._taken(self._body())

    def _who(self) -> tuple[str, str]:
        return _WHO.get(self.headers.get("Authorization", "").removeprefix("Bearer "), ("", ""))

    def _body(self) -> bytes | None:
        """What was sent; None if the line broke."""
        size = int(self.headers.get("Content-Length", 0))
        asked = f"{self.command} {self.path}"
        part = next((part for part, left in self.hub.broken.items() if left and part in asked), "")
        if part:
            self.hub.broken[part] -= 1
            self.rfile.read(size // 2)
            return None
        return self.rfile.read(size)

    def _answer(self, *, with_body: bool) -> None:
        if self._goes_wrong(b""):
            return
        if self.path == "/api/whoami-v2":
            name, role = self._who()
            if name:
                self._json({"name": name, "type": "user", "auth": {"accessToken": {"role": role}}})
            else:
                self.refuse(401)
            return
        super()._answer(with_body=with_body)

    def _goes_wrong(self, body: bytes) -> bool:
        hub = self.hub
        hub.said.append(f"{self.path} {self.headers} {body[:100_000].decode('utf-8', 'replace')}")
        time.sleep(hub.pause_seconds)
        if hub.silent_at and hub.silent_at in self.path:
            hub.over.wait(20)
        if hub.rubbish is not None:
            self.send(200, hub.rubbish, {})
            return True
        codes = next((codes for part, codes in hub.answers.items() if part in self.path and codes), None)
        if codes:
            self.refuse(codes.pop(0))
        return codes is not None

    def _taken(self, body: bytes | None) -> None:
        self.hub.asked.append(f"{self.command} {self.path}")
        if body is None:
            self.close_connection = True
            return
        if self._goes_wrong(body):
            return
        name, role = self._who()
        if self.path.startswith("/lfs/"):  # as at a storage elsewhere, which sees no token
            oid = self.path.removeprefix("/lfs/")
            assert hashlib.sha256(body).hexdigest() == oid and "Authorization" not in self.headers
            self.hub.objects[oid] = body
            self._json({})
        elif role != "write":
            self.refuse(403 if name else 401)
        elif self.path == "/api/validate-yaml":
            self._validate(json.loads(body))
        elif self.path == "/api/repos/create":
            self._create(json.loads(body), name)
        elif batch := _BATCH.fullmatch(self.path):
            self._json(
                {"transfer": "basic", "objects": [self._object(row) for row in json.loads(body)["objects"]]}
            )
            assert self.folder_of(batch[1])
        elif (found := _SETTINGS.fullmatch(self.path)) and found[1].partition("/")[0] == name:
            assert self.folder_of(found[1]) and json.loads(body) == {"visibility": "public"}
            self.hub.private.discard(found[1])
            self._json({})
        elif (found := _COMMIT.fullmatch(self.path)) and found[1].partition("/")[0] == name:
            folder = self.folder_of(found[1])
            assert folder is not None
            if found[2] == "preupload":
                self._preupload(folder, json.loads(body)["files"])
            else:
                self._commit(folder, [json.loads(line) for line in body.splitlines()], found[1])
        else:
            self.refuse(403)

    def _validate(self, asked: dict[str, str]) -> None:
        told = yaml.safe_load(asked["content"].split("---")[1])
        is_space = asked["repoType"] == "space"
        assert told["sdk"] == "gradio" if is_space else told["pipeline_tag"] == "automatic-speech-recognition"
        self._json({"errors": [], "warnings": []})

    def _create(self, asked: dict[str, str], name: str) -> None:
        repo_id = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] != name:
            self.refuse(403)
        elif (self.hub.root / repo_id).exists():
            self.refuse(409)
        else:
            self.hub.make(repo_id, is_private=asked["visibility"] == "private")
            self._json({"url": f"{self.hub.url}/{repo_id}"})

    def _preupload(self, folder: Path, files: list[dict[str, object]]) -> None:
        rows = []
        for asked in files:
            there = folder / str(asked["path"])
            is_large = int(str(asked["size"])) > _LARGE_BYTES
            digest = hashlib.sha256 if is_large else _git_hash
            oid = digest(there.read_bytes()).hexdigest() if there.is_file() else None  # type: ignore[operator]
            mode = "lfs" if is_large else "regular"
            rows.append({"path": asked["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._json({"files": rows})

    def _object(self, row: dict[str, object]) -> dict[str, object]:
        if row["oid"] in self.hub.objects:
            return row
        return {**row, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{row['oid']}"}}}

    def _commit(self, folder: Path, lines: list[dict[str, dict[str, str]]], repo_id: str) -> None:
        for line in lines:
            kind, value = str(line["key"]), line["value"]
            (folder / value.get("path", "any")).parent.mkdir(exist_ok=True)
            if kind == "file":
                (folder / value["path"]).write_bytes(base64.b64decode(value["content"]))
            elif kind == "lfsFile":
                (folder / value["path"]).write_bytes(self.hub.objects[value["oid"]])
            elif kind == "deletedFile":
                (folder / value["path"]).unlink()
        self._json({"commitUrl": f"{self.hub.url}/{repo_id}/commit/{'c' * 40}", "commitOid": "c" * 40})

    def send(self, code: int, body: bytes, headers: dict[str, str], size: int | None = None) -> None:
        """Byte for byte, where the hub trickles."""
        if not self.hub.trickle_seconds:
            super().send(code, body, headers, size)
            return
        super().send(code, b"", headers, len(body) if size is None else size)
        for place in range(len(body)):
            if self.hub.over.wait(self.hub.trickle_seconds):
                break
            with suppress(OSError):  # who asked has gone
                self.wfile.write(body[place : place + 1])

    def _json(self, value: object) -> None:
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _git_hash(content: bytes) -> "hashlib._Hash":
    return hashlib.sha1(b"blob %d\0" % len(content) + content)
