"""Models in memory: loaded at first need, lent to whoever transcribes, let go when nobody needs them."""

import gc
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from studio.dataset.audio import audio_duration
from studio.errors import ConfigError
from studio.messages import Message
from studio.options.choices import FASTER_WHISPER
from studio.registry.spec import CARD_FILE, ModelKind, ModelSpec
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.transcription.devices import free_memory
from studio.transcription.engine import EngineChoice, OnProgress, TranscribeOptions, Transcript
from studio.transcription.loading import Load, engine_of, loader
from studio.transcription.sharing import WAIT_SECONDS, Sharing, precision_on_cpu
from studio.transcription.transcriber import Transcriber
from studio.transcription.windows import WindowLengths
from studio.watching import OnStep, ShouldStop, never, untold

if TYPE_CHECKING:
    from studio.transcription.loaded_base import LoadedBase
    from studio.transcription.loaded_export import LoadedExport

_Key = tuple[str, str, str, str]
"""Id, engine, precision and device."""
_State = tuple[tuple[str, int, int], ...]
"""Name, size and time of each file."""


@dataclass
class _Entry:
    """A base or an export that is in memory, or is being loaded."""

    key: _Key
    folder: Path
    state: _State
    """Of the folder when it was loaded."""
    leases: int = 0
    last_used: float = 0.0
    base: "LoadedBase | LoadedExport | None" = None
    is_leaving: bool = False
    """Taken off the list; it goes when the last lease ends."""
    loading: threading.Lock = field(default_factory=threading.Lock)


class Exports(Protocol):
    """Whoever makes, of any model, the form that faster-whisper plays."""

    def ensure(self, model_id: str, on_step: OnStep = untold) -> ModelSpec:
        """That form of the model as it is now; made if there is none."""


class ModelCache:
    """Lends engines. A base is loaded once, for all users and adapters. Safe to share by threads."""

    def __init__(
        self,
        registry: ModelRegistry,
        *,
        idle_seconds: float,
        threads: int = 0,
        device: str = "auto",
        load: Load | None = None,
        sharing: Sharing | None = None,
        exports: Exports | None = None,
        longest_seconds: float = math.inf,
    ) -> None:
        """A base idle for `idle_seconds` leaves memory (0: as soon as nobody uses it).

        `threads` are those of a CPU (0: the libraries decide), `device` is one of `DEVICES`, `load` replaces
        the function that loads a model from its folder, `sharing` says how runs and transcripts share the
        machine (None: nobody trains on it), `exports` makes what faster-whisper plays, recordings over
        `longest_seconds` are refused.
        """
        self._registry = registry
        self._exports = exports
        self._idle_seconds = idle_seconds
        self._device = device
        self._sharing = sharing
        self.longest_seconds = longest_seconds
        self._load = load or loader(threads)
        self._entries: dict[_Key, _Entry] = {}
        self._changed = threading.Condition()
        self._leaving: list[_Entry] = []
        self._watcher: threading.Thread | None = None
        self._is_closed = False

    @contextmanager
    def lease(
        self, model_id: str, choice: EngineChoice | None = None, on_step: OnStep = untold
    ) -> Iterator[Transcriber]:
        """An engine for a model of any kind, loaded if need be, for one block.

        faster-whisper plays exports: for any other model one is made at its first use, and `on_step` is told
        how far it is.

        Raises:
            ModelNotFoundError, ModelBrokenError: if there is no such model, or its folder is broken.
            AdapterMismatchError: if it is an adapter of another base.
            HubUnreachableError: if it must be downloaded and cannot.
            ConfigError: if the engine does not play it, or has no such precision.
            StorageError: if there is no room for an export.
        """
        choice = choice or EngineChoice()
        spec = self._registry.get(model_id)
        kind = engine_of(spec, choice)
        if spec.path is None:
            spec = self._registry.fetched(spec.id)
            kind = engine_of(spec, choice)
        played = self._playable(spec, on_step) if kind == FASTER_WHISPER else spec
        folder = self._registry.local_path(played.id)
        adapter = spec.id if played.kind is ModelKind.ADAPTER else None
        base_id = played.base_model or "" if adapter else played.id
        base_folder = self._registry.local_path(base_id) if adapter else folder
        with self._sharing.under_way() if self._sharing else nullcontext():
            device, precision = self._place(kind, choice.precision)
            entry = self._take((base_id, kind, precision, device), base_folder)
            engine = None
            try:
                engine = self._engine(entry, spec, folder)
                yield engine
            finally:
                if engine is not None:
                    engine.release()
                self._give_back(entry)

    def look_up(self, model_id: str, choice: EngineChoice | None = None) -> ModelSpec:
        """The registry's row of a model that `lease` could lend, as far as it is known without loading it.

        Raises: what `lease` raises of a model that is not there, broken, or not played.
        """
        spec = self._registry.get(model_id)
        engine_of(spec, choice or EngineChoice())
        if spec.path is not None:
            self._registry.local_path(spec.id)  # refuses what is broken
        return spec

    def state_of(self, model_id: str) -> _State:
        """Name, size and time of each file of a model, and of its base: while they are the same, so is it.

        Raises: what `lease` raises.
        """
        spec = self._registry.get(model_id)
        names = [spec.id, *([spec.base_model] if spec.kind is ModelKind.ADAPTER and spec.base_model else [])]
        return tuple(file for name in names for file in _state(self._registry.local_path(name)))

    def _playable(self, spec: ModelSpec, on_step: OnStep) -> ModelSpec:
        """The form of a model that faster-whisper plays."""
        if spec.kind is ModelKind.EXPORT:
            return spec
        if self._exports is None:
            raise ConfigError("{model} has no form for faster-whisper: export it first.", model=spec.id)
        return self._exports.ensure(spec.id, on_step)

    def transcribe(
        self,
        model_id: str,
        audio_path: Path,
        options: TranscribeOptions,
        on_progress: OnProgress = untold,
        should_stop: ShouldStop = never,
        *,
        choice: EngineChoice | None = None,
        on_step: OnStep = untold,
    ) -> Transcript:
        """Transcribes with a model lent for just so long; raises what `lease` and the engine raise."""
        audio_duration(audio_path)  # who brings no sound does not wait for a model
        with self.lease(model_id, choice, on_step) as engine:
            return engine.transcribe(audio_path, options, on_progress, should_stop)

    def notice(self) -> Message | None:
        """What somebody who transcribes now is told: that a run is at work; None while none is."""
        return self._sharing.notice(self._device) if self._sharing else None

    def unload_all(self, wait_seconds: float = 30.0) -> None:
        """Lets all models go; what is asked for later is loaded anew.

        Waits up to `wait_seconds` for those in use; what is still in use then goes with its last lease.
        """
        with self._changed:
            has_models = bool(self._entries or self._leaving)
            self._dismiss(list(self._entries.values()))
            self._changed.wait_for(lambda: not self._leaving, timeout=wait_seconds)
        if has_models:
            _free_memory()

    def make_room(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Lets all models go before a run starts; waits for transcripts under way, here and elsewhere."""
        end = time.monotonic() + wait_seconds
        if self._sharing:
            self._sharing.give_way(wait_seconds)
        self.unload_all(wait_seconds)
        if self._sharing:
            self._sharing.wait_for_others(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Lets all models go that nobody uses, and ends the thread that watches for idle ones."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.unload_all(wait_seconds=0.0)
        if self._watcher is not None:
            self._watcher.join(timeout=5.0)

    # ------------------------------------------------------------------ leases

    def _place(self, kind: str, precision: str) -> tuple[str, str]:
        """Device and precision: a run that has the GPU leaves the CPU, which has other precisions."""
        device = self._sharing.device(self._device) if self._sharing else self._device
        if device == self._device or kind != FASTER_WHISPER:
            return device, precision
        from studio.transcription.loaded_export import compute_types

        return device, precision_on_cpu(kind, precision, compute_types(device))

    def _take(self, key: _Key, folder: Path) -> _Entry:
        state = _state(folder)
        with self._changed:
            entry = self._entries.get(key)
            if entry is not None and (
                (entry.folder, entry.state) != (folder, state) or (entry.base and entry.base.is_spoiled)
            ):
                self._dismiss([entry])
                entry = None
            if entry is None:
                entry = self._entries[key] = _Entry(key, folder, state)
            entry.leases += 1
            self._start_watcher()
            return entry

    def _engine(self, entry: _Entry, spec: ModelSpec, folder: Path) -> Transcriber:
        """Loads the model if nobody has (who comes meanwhile waits for that one load), and the adapter."""
        _, kind, precision, device = entry.key
        with entry.loading:
            if entry.base is None:
                entry.base = self._load(entry.folder, kind, precision, device)
        base: Any = entry.base
        adapter = spec.id if spec.kind is ModelKind.ADAPTER and kind != FASTER_WHISPER else None
        if adapter:
            base.add_adapter(adapter, folder)
        windows = WindowLengths.of_clips(spec.clip_seconds)
        return Transcriber(
            base,
            spec.id,
            adapter,
            spec.audio_context,
            windows,
            spec.short_seconds,
            knows_text_before=DEMO_ID not in (spec.id, spec.base_model),
            longest_seconds=self.longest_seconds,
        )

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
                del self._entries[entry.key]
            else:
                self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
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


def _state(folder: Path) -> _State:
    """Of a model's files; its card may change."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != CARD_FILE]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


def _free_memory() -> None:
    """Collects what nobody refers to, and hands an accelerator's memory back if torch was ever loaded."""
    gc.collect()
    if "torch" in sys.modules:
        free_memory()
