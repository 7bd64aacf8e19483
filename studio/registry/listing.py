"""Rows of the registry from what is on the disk, and the row that a name means."""

import dataclasses
import difflib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from studio.errors import ConfigError, ModelBrokenError, ModelNotFoundError, StudioError
from studio.files import is_folder, is_listed, user_path
from studio.messages import Message
from studio.registry.catalog import RELEASED, find_released
from studio.registry.hub import HUB_ID, cached_snapshots, id_of_address
from studio.registry.languages import LANGUAGES
from studio.registry.spec import CARD_FILE, ModelDimensions, ModelKind, ModelSource, ModelSpec
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
        """The registry's row, called by its folder unless a title is given; the base of an adapter is not
        looked up yet."""
        content = self.content
        card = content.card if content else {}
        return ModelSpec(
            id=model_id,
            kind=self.kind,
            source=source,
            title=title or self.path.name,
            dimensions=content.dimensions if content else None,
            path=self.path,
            base_model=(content.base_name or None) if content else None,
            is_multilingual=content.is_multilingual if content else True,
            size_bytes=self.size_bytes,
            created=_time_in(str(card.get("created"))) or self.modified,
            problem=self.error.message() if self.error else None,
            card=card,
        )


def _time_in(text: str) -> str:
    """The text if it is a time in ISO 8601, else nothing: a card may have been written by hand."""
    try:
        datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return ""
    return text


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

    def seen(self, folder: Path) -> ScannedFolder:
        """What the last look at the folder found."""
        with self._lock:
            seen = self._seen.get(folder)
        return seen or self.scan(folder)

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


def has_whisper(folder: Path) -> bool:
    """Whether a snapshot of the Hugging Face cache is a Whisper with weights, an adapter or an export."""
    try:
        if (folder / "adapter_config.json").is_file():
            base = read_json_object(folder / "adapter_config.json").get("base_model_name_or_path")
            return "whisper" in str(base).casefold()
        config = read_json_object(folder / "config.json")
        if "model_type" not in config and "alignment_heads" in config:  # as CTranslate2 writes it
            return (folder / "model.bin").is_file()
        is_whisper = config.get("model_type") == "whisper"
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
        kind=content.kind if content else guess_kind(folder, [name for name, _, _ in signature]),
        size_bytes=sum(size for _, size, _ in signature),
        modified=datetime.fromtimestamp(newest // 10**9, UTC).isoformat() if newest else "",
        signature=signature,
        content=content,
        error=error,
    )


_MODEL_FILES = ("config.json", "adapter_config.json", CARD_FILE)
"""Each model has one of them."""


def _signature(folder: Path) -> _Signature:
    """Names, sizes and times of the files inside, links followed. What is no model, such as a home or a whole
    disk, is not walked through: its first files say so."""
    rows: list[tuple[str, int, int]] = []
    is_model = False
    places = [str(folder)]
    while places:
        try:
            entries = list(os.scandir(places.pop()))
        except OSError:  # gone since, or not ours to read
            continue
        is_model = is_model or any(entry.name in _MODEL_FILES for entry in entries)
        for entry in entries:
            try:
                if entry.is_dir():
                    places += [entry.path] if is_model and not entry.is_symlink() else []
                    continue
                stat = entry.stat()
            except OSError:  # a link to nothing or to itself, or gone since
                continue
            rows.append((entry.path[len(str(folder)) + 1 :], stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(rows))


DEMO_ID = "demo"
_DEMO_LANGUAGES = ("en",)


def few_languages(spec: ModelSpec) -> tuple[str, ...]:
    """Codes of what a model knows that was made, or whose base was, for a few; empty where that is all that a
    Whisper knows."""
    released = find_released(spec.id) or find_released(spec.base_model or "")
    is_of_demo = spec.source is ModelSource.DEMO or spec.base_model == DEMO_ID
    few = _DEMO_LANGUAGES if is_of_demo else released.few_languages if released else ()
    trained = spec.card.get("languages")
    listed = trained if few and isinstance(trained, list) else ()
    added = (code for code in listed if isinstance(code, str) and code in LANGUAGES)
    return tuple(dict.fromkeys((*few, *added)))


Rows = Mapping[str, ModelSpec]
"""Model id → row, in the order of the list."""


class Listing:
    """Looks at the folders anew each time it is asked; only unchanged files are not read again."""

    def __init__(
        self, models: Path, demo: Path | None, hf_cache: Path | None, *, takes_folders: bool = True
    ) -> None:
        """Without `takes_folders`, folders that are not in the list mean nothing, be they there or not."""
        self.models = models
        self._takes_folders = takes_folders
        self.scanner = FolderScanner()
        self._demo = demo
        self._hf_cache = hf_cache

    def rows(self) -> Rows:
        """Every model: demo, those of this studio (newest first), downloaded ones, released ones."""
        rows = {spec.id: spec for spec in self._own()}
        cached = self.cached(self._hf_cache)
        released = [cached.pop(model.id) if model.id in cached else model.to_spec() for model in RELEASED]
        downloaded = [spec for spec in released if spec.path] + list(cached.values())
        rows |= {spec.id: spec for spec in (*downloaded, *(spec for spec in released if not spec.path))}
        return {spec.id: self._with_base(spec, rows) for spec in rows.values()}

    def find(self, name: str, rows: Rows) -> ModelSpec | None:
        """The row of an id, alias, folder, Hub id or its address; None if the name means nothing."""
        name = id_of_address(name) or name
        if name in rows:
            return rows[name]
        released = find_released(name)
        if released is not None:
            return rows[released.id]
        path = user_path(name)
        # Where folders are not taken, the disk is not asked: the answer would say which there are.
        place = path.resolve() if self._takes_folders else Path(os.path.normpath(path.absolute()))
        if name and (not self._takes_folders or is_folder(path)) and (found := self._at(place, rows)):
            return found
        if HUB_ID.fullmatch(name):
            return ModelSpec(id=name, kind=ModelKind.BASE, source=ModelSource.RELEASED, title=name)
        return self.find(name.rstrip("/"), rows) if name.endswith("/") else None

    def _at(self, path: Path, rows: Rows) -> ModelSpec | None:
        for spec in rows.values():
            if spec.path is not None and path in (spec.path, spec.path.resolve()):
                return spec
        if not self._takes_folders:
            return None
        return self._with_base(self.scanner.scan(path).to_spec(str(path), ModelSource.LOCAL), rows)

    def _find_base(self, name: str, rows: Rows) -> ModelSpec | None:
        """The base an adapter names; a path that has moved is known by its last part or its Hub id."""
        if not name:
            return None
        parts = Path(name.replace("\\", "/")).parts or ("",)
        own, released = rows.get(parts[-1]), find_released(parts[-1])
        if own and own.path == self.models.parent.joinpath(*parts):  # `models/mine`, and no id of the Hub
            return own
        found = self.find(name, rows)
        if found is not None:
            return found
        for part in parts:
            if part.startswith("models--"):
                return self.find(part.removeprefix("models--").replace("--", "/", 1), rows)
        return own or (rows[released.id] if released else None)

    def not_found(self, name: str, rows: Rows) -> ModelNotFoundError:
        """The error for a name that means nothing, with the nearest ones."""
        if self._takes_folders and os.path.isfile(user_path(name)):  # noqa: PTH113 - never raises
            return ModelNotFoundError("{name} is a file: give the folder that holds the model.", name=name)
        names = [*rows, *(alias for model in RELEASED for alias in model.names)]
        nearest = difflib.get_close_matches(name, dict.fromkeys(names), n=3, cutoff=0.5)
        if nearest:
            return ModelNotFoundError(
                "There is no model {name!r}; did you mean {nearest}?", name=name, nearest=", ".join(nearest)
            )
        if not self._takes_folders:
            return ModelNotFoundError(
                "There is no model {name!r}: give a name from the Models tab, or a Hub id such as "
                "openai/whisper-tiny.",
                name=name,
            )
        return ModelNotFoundError(
            "There is no model {name!r}: give a name from the Models tab, a folder that exists, or a Hub id "
            "such as openai/whisper-tiny.",
            name=name,
        )

    def _own(self) -> list[ModelSpec]:
        rows = []
        if self._demo is not None:
            rows.append(self.scanner.scan(self._demo).to_spec(DEMO_ID, ModelSource.DEMO, "Demo model"))
        folders = [path for path in self.folders() if is_folder(path)]
        trained = [self._own_spec(self.scanner.scan(path)) for path in folders]
        return rows + sorted(trained, key=lambda spec: spec.created, reverse=True)

    def folders(self) -> list[Path]:
        """What lies in the studio's model folder, less what is hidden or has a name that cannot be shown."""
        if not is_folder(self.models):
            return []
        return sorted(path for path in self.models.iterdir() if is_listed(path.name))

    def _own_spec(self, scanned: ScannedFolder) -> ModelSpec:
        # A measurement is kept in the card of any model: it does not say that the model was made here.
        has_card = scanned.content is not None and "created" in scanned.content.card
        model_id = scanned.path.name if scanned.path.name != DEMO_ID else str(scanned.path)
        return scanned.to_spec(model_id, ModelSource.TRAINED if has_card else ModelSource.LOCAL)

    def cached(self, hf_cache: Path | None) -> dict[str, ModelSpec]:
        """Hub id → row of each Whisper in a Hugging Face cache."""
        rows = {}
        for hub_id, snapshot in cached_snapshots(hf_cache).items() if hf_cache else ():
            if has_whisper(snapshot):
                released = find_released(hub_id)
                title = released.title if released and released.id == hub_id else hub_id
                rows[hub_id] = self.scanner.scan(snapshot).to_spec(hub_id, ModelSource.DOWNLOADED, title)
        return rows

    def _with_base(self, spec: ModelSpec, rows: Rows) -> ModelSpec:
        """An adapter or export gets id, dimensions and languages of its base, or the problem with it."""
        if not (spec.kind is ModelKind.ADAPTER or spec.is_export) or spec.problem or spec.path is None:
            return spec
        try:
            base = self._find_base(spec.base_model or "", rows)
        except ConfigError as no_name:  # no file, and so no model, can have the name that it gives
            return dataclasses.replace(spec, problem=no_name.message())
        if base is None or base.kind is ModelKind.ADAPTER:
            if spec.is_export:
                return spec
            return dataclasses.replace(spec, problem=_missing_base(spec))
        found = dataclasses.replace(
            spec,
            base_model=base.id,
            dimensions=base.dimensions,
            is_multilingual=base.is_multilingual,
        )
        if spec.is_export:
            return found
        if base.problem:
            problem = Message(
                "Its base model {base} cannot be used: {problem}", base=base.id, problem=base.problem
            )
            return dataclasses.replace(found, problem=problem)
        if base.dimensions is not None:
            error = self.scanner.adapter_error(self.scanner.seen(spec.path), base.dimensions)
            return dataclasses.replace(found, problem=error.message() if error else None)
        return found


def _missing_base(spec: ModelSpec) -> Message:
    if not spec.base_model:
        return Message("It does not say which base model it belongs to: add base_model to its model.json.")
    return Message(
        "Its base model {base} is not there: put that model back, or name its base in base_model of its "
        "model.json.",
        base=spec.base_model,
    )
