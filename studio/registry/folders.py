"""Folders on the disk as rows of the registry; looked at again only when a file in them changed."""

import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from studio.errors import ModelBrokenError, StudioError
from studio.registry.spec import ModelDimensions, ModelKind, ModelSource, ModelSpec
from studio.registry.tensors import read_json_object
from studio.registry.validate import FolderContent, check_adapter, guess_kind, inspect_folder

_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class ScannedFolder:
    """What one look at a folder found."""

    path: Path
    kind: ModelKind
    size_bytes: int
    modified: str
    """ISO 8601, in UTC."""
    signature: _Signature
    content: FolderContent | None
    """None if `error` says why."""
    error: StudioError | None

    def to_spec(self, model_id: str, source: ModelSource, title: str = "") -> ModelSpec:
        """The registry's row; the base of an adapter is not looked up yet."""
        content = self.content
        card = content.card if content else {}
        return ModelSpec(
            id=model_id,
            kind=self.kind,
            source=source,
            title=title or str(card.get("title") or model_id),
            dimensions=content.dimensions if content else None,
            path=self.path,
            base_model=(content.base_name or None) if content else None,
            is_multilingual=content.is_multilingual if content else True,
            size_bytes=self.size_bytes,
            created=str(card.get("created") or self.modified),
            problem=str(self.error) if self.error else "",
            card=card,
        )


class FolderScanner:
    """Scans model folders and remembers what it saw until their files change. Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Path, ScannedFolder] = {}
        self._fits: dict[tuple[Path, ModelDimensions], tuple[_Signature, StudioError | None]] = {}

    def scan(self, folder: Path) -> ScannedFolder:
        """Never raises because of what the folder holds: a broken one has an `error`."""
        signature = _signature(folder)
        with self._lock:
            seen = self._seen.get(folder)
        if seen is None or seen.signature != signature:
            seen = _look(folder, signature)
            with self._lock:
                self._seen[folder] = seen
        return seen

    def adapter_error(self, adapter: ScannedFolder, base: ModelDimensions) -> StudioError | None:
        """Why the adapter does not fit a base of these dimensions; None if it does."""
        key = (adapter.path, base)
        with self._lock:
            known = self._fits.get(key)
        if known is None or known[0] != adapter.signature:
            error: StudioError | None = None
            try:
                check_adapter(adapter.path, base)
            except StudioError as found:
                error = found
            known = (adapter.signature, error)
            with self._lock:
                self._fits[key] = known
        return known[1]

    def forget(self) -> None:
        """Everything is looked at again."""
        with self._lock:
            self._seen.clear()
            self._fits.clear()


def has_whisper(folder: Path) -> bool:
    """Whether a snapshot of the Hugging Face cache is a Whisper, or an adapter of one, with weights."""
    try:
        if (folder / "adapter_config.json").is_file():
            base = read_json_object(folder / "adapter_config.json").get("base_model_name_or_path")
            return "whisper" in str(base).casefold()
        is_whisper = read_json_object(folder / "config.json").get("model_type") == "whisper"
        return is_whisper and any(path.suffix in (".safetensors", ".bin") for path in folder.iterdir())
    except (ModelBrokenError, OSError):
        return False


def _look(folder: Path, signature: _Signature) -> ScannedFolder:
    content: FolderContent | None = None
    error: StudioError | None = None
    try:
        content = inspect_folder(folder)
    except StudioError as found:
        error = found
    except OSError as found:
        # Deleted while we looked, or not readable by this user: a row with its reason, never a crash.
        error = ModelBrokenError(
            "{folder} cannot be read ({reason}).", folder=folder.name, reason=found.strerror or str(found)
        )
    newest = max((modified for _, _, modified in signature), default=0)
    return ScannedFolder(
        path=folder,
        kind=content.kind if content else guess_kind([name for name, _, _ in signature]),
        size_bytes=sum(size for _, size, _ in signature),
        modified=datetime.fromtimestamp(newest // 10**9, UTC).isoformat() if newest else "",
        signature=signature,
        content=content,
        error=error,
    )


def _signature(folder: Path) -> _Signature:
    """Names, sizes and times of the files inside, links followed."""
    rows = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            try:
                stat = path.stat()
            except OSError:  # a dangling link, or gone since
                continue
            rows.append((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(rows))
