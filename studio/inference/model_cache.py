"""Models in memory: loaded at first need, lent to whoever transcribes, let go when nobody needs them."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from studio.errors import ConfigError
from studio.inference.engine import OnProgress, ShouldStop, TranscribeOptions, Transcript
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry

if TYPE_CHECKING:
    from studio.inference.hugging_face import HuggingFaceEngine, LoadedBase

LoadBase = Callable[[Path], "LoadedBase"]


@dataclass(frozen=True)
class LoadedModel:
    """One row of what is in memory now."""

    id: str
    """Of the base model."""
    bytes: int
    """All weights, those of adapters too."""
    idle_seconds: float
    """Since somebody used it last; 0 while somebody does."""
    leases: int
    """How many use it now."""
    adapters: tuple[str, ...] = ()
    """Adapters in memory beside it."""


@dataclass
class _Entry:
    """A base that is in memory, or is being loaded."""

    id: str
    folder: Path
    leases: int = 0
    last_used: float = 0.0
    base: "LoadedBase | None" = None
    is_leaving: bool = False
    """Taken off the list; it goes when the last lease ends."""
    loading: threading.Lock = field(default_factory=threading.Lock)


class ModelCache:
    """Lends engines. A base is loaded once, for all users and adapters. Safe to share by threads."""

    def __init__(
        self,
        registry: ModelRegistry,
        *,
        idle_seconds: float,
        threads: int = 0,
        device: str = "auto",
        load: LoadBase | None = None,
    ) -> None:
        """A base idle for `idle_seconds` leaves memory (0: as soon as nobody uses it).

        `threads` are torch's on a CPU (0: torch decides), `device` is auto, cpu or cuda, `load` replaces the
        function that loads a base from its folder.
        """
        self._registry = registry
        self._idle_seconds = idle_seconds
        self._load = load or _loader(device, threads)
        self._entries: dict[str, _Entry] = {}
        self._changed = threading.Condition()
        self._leaving: list[_Entry] = []
        self._watcher: threading.Thread | None = None
        self._is_closed = False

    @contextmanager
    def lease(self, model_id: str) -> Iterator["HuggingFaceEngine"]:
        """An engine for a base, a merged model or an adapter on its base, loaded if need be, for one block.

        Raises:
            ModelNotFoundError, ModelBrokenError: if there is no such model, or its folder is broken.
            AdapterMismatchError: if it is an adapter of another base.
            HubUnreachableError: if it must be downloaded and cannot.
            ConfigError: if it is an export, which another engine plays.
        """
        spec = self._registry.get(model_id)
        _require_playable(spec)
        folder = self._registry.local_path(spec.id)
        adapter = spec.id if spec.kind is ModelKind.ADAPTER else None
        base_id = spec.base_model or "" if adapter else spec.id
        entry = self._take(base_id, self._registry.local_path(base_id) if adapter else folder)
        engine = None
        try:
            engine = self._engine(entry, spec, folder)
            yield engine
        finally:
            if engine is not None:
                engine.release()
            self._give_back(entry)

    def transcribe(
        self,
        model_id: str,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Transcript:
        """Transcribes with a model lent for just so long; raises what `lease` and the engine raise."""
        with self.lease(model_id) as engine:
            return engine.transcribe(audio_path, options, on_progress, should_stop)

    def loaded(self) -> tuple[LoadedModel, ...]:
        """What is in memory now."""
        with self._changed:
            entries = [entry for entry in (*self._entries.values(), *self._leaving) if entry.base]
            return tuple(_row(entry) for entry in entries)

    def unload_all(self, wait_seconds: float = 30.0) -> None:
        """Lets all models go; what is asked for later is loaded anew.

        Waits up to `wait_seconds` for those in use; what is still in use then goes with its last lease.
        """
        with self._changed:
            self._dismiss(list(self._entries.values()))
            self._changed.wait_for(lambda: not self._leaving, timeout=wait_seconds)
        _free_memory()

    def close(self) -> None:
        """Lets all models go that nobody uses, and ends the thread that watches for idle ones."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.unload_all(wait_seconds=0.0)
        if self._watcher is not None:
            self._watcher.join(timeout=5.0)

    # ------------------------------------------------------------------ leases

    def _take(self, base_id: str, folder: Path) -> _Entry:
        with self._changed:
            entry = self._entries.get(base_id)
            if entry is not None and (entry.folder != folder or (entry.base and entry.base.is_spoiled)):
                self._dismiss([entry])
                entry = None
            if entry is None:
                entry = self._entries[base_id] = _Entry(base_id, folder)
            entry.leases += 1
            self._start_watcher()
            return entry

    def _engine(self, entry: _Entry, spec: ModelSpec, folder: Path) -> "HuggingFaceEngine":
        """Loads the base if nobody has (who comes meanwhile waits for that one load), and the adapter."""
        from studio.inference.hugging_face import HuggingFaceEngine

        with entry.loading:
            if entry.base is None:
                entry.base = self._load(entry.folder)
        if spec.kind is not ModelKind.ADAPTER:
            return HuggingFaceEngine(entry.base, spec.id)
        entry.base.add_adapter(spec.id, folder)
        return HuggingFaceEngine(entry.base, spec.id, spec.id)

    def _give_back(self, entry: _Entry) -> None:
        with self._changed:
            entry.leases -= 1
            entry.last_used = time.monotonic()
            is_unwanted = entry.base is None or entry.base.is_spoiled or self._is_closed
            if entry.leases == 0 and (entry.is_leaving or is_unwanted or self._idle_seconds <= 0):
                self._drop(entry)
            self._changed.notify_all()

    def _dismiss(self, entries: list[_Entry]) -> None:
        """Takes entries off the list; those in use stay in memory until their last lease ends."""
        for entry in entries:
            entry.is_leaving = True
            if entry.leases:
                self._leaving.append(entry)
                del self._entries[entry.id]
            else:
                self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        if self._entries.get(entry.id) is entry:
            del self._entries[entry.id]
        if entry in self._leaving:
            self._leaving.remove(entry)
        entry.base = None
        _free_memory()

    # ------------------------------------------------------------------ idle models

    def _start_watcher(self) -> None:
        if self._watcher is None and self._idle_seconds > 0:
            self._watcher = threading.Thread(target=self._watch, name="idle-models", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                idle = [entry for entry in self._entries.values() if not entry.leases]
                self._dismiss([entry for entry in idle if now - entry.last_used >= self._idle_seconds])
                ends = [entry.last_used + self._idle_seconds for entry in idle if not entry.is_leaving]
                self._changed.wait(timeout=max(0.01, min(ends) - now) if ends else None)


def _loader(device: str, threads: int) -> LoadBase:
    def load(folder: Path) -> "LoadedBase":
        from studio.inference.hugging_face import load_base

        return load_base(folder, device=device, threads=threads)

    return load


def _require_playable(spec: ModelSpec) -> None:
    if spec.kind is ModelKind.EXPORT:
        raise ConfigError(
            "{model} is an export for another engine, and the playground plays Hugging Face models: choose "
            "the model it was made from.",
            model=spec.id,
        )


def _row(entry: _Entry) -> LoadedModel:
    assert entry.base is not None
    idle = 0.0 if entry.leases else time.monotonic() - entry.last_used
    return LoadedModel(entry.id, entry.base.size_bytes, idle, entry.leases, entry.base.adapters)


def _free_memory() -> None:
    """Collects what nobody refers to, and hands the GPU's memory back if torch was ever loaded."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
