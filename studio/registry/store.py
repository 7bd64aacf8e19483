"""`ModelRegistry`: every model this studio knows. The disk is the truth; nothing is remembered beside it."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from studio.errors import ConfigError, ModelBrokenError, ModelInUseError, ModelNotFoundError, StorageError
from studio.files import storage_errors, sweep, take_away, write_json, write_text
from studio.messages import Message
from studio.registry.catalog import RELEASED
from studio.registry.hub import OnProgress, download, note_use_of
from studio.registry.listing import DEMO_ID, Listing
from studio.registry.spec import CARD_FILE, CARD_VERSION, ModelKind, ModelSource, ModelSpec, require_whole
from studio.registry.validate import read_card, sizes_of
from studio.room import NO_LIMIT, Room, note_use

__all__ = ["DEMO_ID", "ModelRegistry"]

_MODEL_ID = re.compile(r"(?!\.)[\w.-]{1,80}")
_NAMES = ("source", "base_model")
"""Where the card of an export names the model that it was made of."""


class ModelRegistry:
    """Lists, finds, adds, renames and deletes models. Safe to share by threads."""

    def __init__(
        self,
        models: Path,
        *,
        demo: Path | None,
        hf_cache: Path | None,
        in_use: Callable[[], Mapping[str, Message]] = dict,
        takes_folders: bool = True,
        largest_download_bytes: int | None = None,
        room: Room = NO_LIMIT,
    ) -> None:
        """`in_use` tells model id → reason, and is asked before a model is renamed or deleted. Without
        `takes_folders`, a name is that of a listed model or of one of the Hub, never a folder. Models of the
        Hub that are larger than `largest_download_bytes` are not fetched, and all of them keep to `room`.
        """
        self.models = models
        self.in_use = in_use
        self._hf_cache = hf_cache
        self._largest_download_bytes = largest_download_bytes
        self._room = room
        self._listing = Listing(models, demo, hf_cache, takes_folders=takes_folders)

    # ------------------------------------------------------------------ reading

    def all(self) -> tuple[ModelSpec, ...]:
        """Demo, models of this studio (newest first), downloaded ones, then released ones not on this disk.

        A broken folder is listed with its `problem`; nothing in a folder makes this raise.
        """
        return tuple(self._listing.rows().values())

    def get(self, id_or_path: str) -> ModelSpec:
        """The model of that id, alias (`tiny`, `large-v3-turbo`), folder or Hub id.

        A Hub id that nobody heard of is given back as a row that is not on this disk.

        Raises:
            ModelNotFoundError: with the nearest names.
        """
        name = str(id_or_path).strip()
        rows = self._listing.rows()
        spec = self._listing.find(name, rows)
        if spec is None:
            raise self._listing.not_found(name, rows)
        return spec

    def has(self, id_or_path: str) -> bool:
        """Whether `get` would give a model."""
        rows = self._listing.rows()
        return self._listing.find(str(id_or_path).strip(), rows) is not None

    def called_now(self, model_id: str) -> str:
        """The id of the model that had this one before it was renamed; the same of every other."""
        if self.has(model_id):
            return model_id
        return next((spec.id for spec in self.all() if model_id in _former_ids(spec)), model_id)

    def fetched(self, id_or_path: str) -> ModelSpec:
        """`get`, once its files are here, which say whether a model of the Hub is an adapter or an export.

        Raises: as `local_path`.
        """
        spec = self.get(id_or_path)
        if spec.path is None:
            self.local_path(spec.id)
        return self.get(spec.id)

    def local_path(
        self,
        id_or_path: str,
        *,
        local_files_only: bool = False,
        cache_dir: Path | None = None,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Folder of a model that can be loaded; fetched from the Hub first if it must be.

        Raises:
            ModelNotFoundError: if there is no such model, or it is not here and may not be fetched.
            ModelBrokenError: if its folder, or the base of an adapter, cannot be used.
            AdapterMismatchError: if it is an adapter of another base.
            HubUnreachableError: if the Hub does not answer.
        """
        spec = self.get(id_or_path)
        if spec.path is None and cache_dir is not None:
            spec = self._listing.cached(cache_dir).get(spec.id, spec)
        if spec.path is not None:
            self._require_usable(spec)
            if self._room.is_limited and self._hf_cache is not None:
                note_use(spec.path) if self._is_own(spec) else note_use_of(spec.id, self._hf_cache)
            return spec.path
        if local_files_only:
            raise ModelNotFoundError(
                "{model} is not on this disk, and downloads are switched off: allow them, or give a folder.",
                model=spec.id,
            )
        path = download(
            spec.id,
            cache_dir=cache_dir or self._hf_cache,
            on_progress=on_progress,
            most_bytes=self._largest_download_bytes,
            room=self._room,
        )
        self._require_usable(self._listing.scanner.scan(path).to_spec(spec.id, ModelSource.DOWNLOADED))
        return path

    def adapters_of(self, model_id: str) -> tuple[ModelSpec, ...]:
        """Adapters whose base is that model."""
        return tuple(
            spec for spec in self.all() if spec.kind is ModelKind.ADAPTER and spec.base_model == model_id
        )

    # ------------------------------------------------------------------ changing

    def add(self, spec_id: str, staged: Path, card: Mapping[str, Any]) -> ModelSpec:
        """Moves a finished folder into the studio in one step and gives it a card.

        `staged` lies on the same disk. A name that is taken gets `-2`, `-3`, and so on.

        Raises:
            ConfigError: if the name cannot be one of a model.
            ModelBrokenError: if the folder is not a model that can be used.
            StorageError: if it cannot be moved.
        """
        self.check_id(spec_id)
        card = {"schema_version": CARD_VERSION, **card, "sizes": sizes_of(staged)}
        write_json(staged / CARD_FILE, card)  # what is for another program is known by its card alone
        error = self._listing.scanner.scan(staged).error
        if error is not None:
            raise ModelBrokenError("{model} was not kept: {problem}", model=spec_id, problem=error)
        with storage_errors(self.models):
            self.models.mkdir(parents=True, exist_ok=True)
        taken = self._taken()
        for number in range(1, 10_000):
            model_id = spec_id if number == 1 else f"{spec_id[:74]}-{number}"
            if model_id.casefold() in taken:
                continue
            write_json(staged / CARD_FILE, {**card, "id": model_id})
            try:
                with storage_errors(self.models):
                    staged.rename(self.models / model_id)
            except StorageError:
                # Somebody else took the name between the look and the move.
                if staged.exists() and (self.models / model_id).exists():
                    continue
                raise
            return self.get(model_id)
        raise ConfigError("There are too many models named {name!r}: choose another name.", name=spec_id)

    def rename(self, model_id: str, new_id: str) -> ModelSpec:
        """Gives a model of this studio another name; its adapters and exports follow.

        Raises:
            ModelNotFoundError, ConfigError: if it is none of this studio, or the name is taken or no name.
            ModelInUseError: if it, or an adapter of it, is in use.
        """
        spec = self._changeable(model_id)
        new_id = new_id.strip()
        self.check_id(new_id)
        if new_id == spec.id:
            return spec
        if new_id.casefold() in self._taken() - {spec.id.casefold()}:
            raise ConfigError("There is a model named {name!r} already: choose another name.", name=new_id)
        adapters = [row for row in self.adapters_of(spec.id) if self._is_own(row)]
        for row in (spec, *adapters):
            self._require_idle(row)
        assert spec.path is not None
        target = self.models / new_id
        files = {target / CARD_FILE: ["id"]}
        for row in filter(self._is_own, self.all()):
            named = ["base_model"] if row in adapters else [n for n in _NAMES if row.card.get(n) == spec.id]
            if row.path and row.id != spec.id and named:
                files[row.path / CARD_FILE] = named
        with storage_errors(self.models):
            spec.path.rename(target)
        before = {file: file.read_text("utf-8") if file.is_file() else "" for file in files}
        try:
            for file, named in files.items():
                self._write_card(file.parent, dict.fromkeys(named, new_id))
            self._write_card(target, {"former_ids": [*_former_ids(spec), spec.id]})
        except StorageError:  # or adapters would ask for a base that is gone
            for file, text in before.items():
                with suppress(StorageError):
                    write_text(file, text) if text else file.unlink(missing_ok=True)
            target.rename(spec.path)
            raise
        return self.get(new_id)

    def remove(self, model_id: str) -> None:
        """Deletes a model of this studio: out of the list in one step, then from the disk.

        Raises:
            ModelNotFoundError, ConfigError: if it is none of this studio.
            ModelInUseError: if it is in use, or adapters need it.
            StorageError: if it cannot be moved.
        """
        spec = self._changeable(model_id)
        self._require_idle(spec)
        adapters = [row.id for row in self.adapters_of(spec.id)]
        if adapters:
            raise ModelInUseError(
                "{model} is the base of {adapters}: delete those first.",
                model=spec.id,
                adapters=", ".join(adapters),
            )
        assert spec.path is not None
        take_away(spec.path)
        sweep(self.models)

    # ------------------------------------------------------------------ checks

    def _require_usable(self, spec: ModelSpec) -> None:
        assert spec.path is not None
        scanned = self._listing.scanner.scan(spec.path)
        if scanned.error is None and spec.kind is ModelKind.ADAPTER and spec.dimensions is not None:
            error = self._listing.scanner.adapter_error(scanned, spec.dimensions)
            if error is not None:
                raise error
        require_whole(spec)

    def check_id(self, model_id: str) -> None:
        """Checks that a model can be called so.

        Raises:
            ConfigError: if not.
        """
        if not _MODEL_ID.fullmatch(model_id):
            raise ConfigError(
                "{name!r} cannot be the name of a model: use up to 80 letters, digits, dots, dashes and "
                "underscores, and no dot first.",
                name=model_id,
            )

    def _taken(self) -> set[str]:
        """Names that a new model cannot have, in lower case: some disks do not tell the cases apart."""
        released = (name for model in RELEASED for name in model.names)
        return {name.casefold() for name in (DEMO_ID, *released, *(p.name for p in self._listing.folders()))}

    def annotate(self, model_id: str, values: Mapping[str, Any]) -> None:
        """Adds to the card of a model made here.

        Raises:
            ModelNotFoundError, ConfigError: if there is no such model, or it belongs to somebody else.
            StorageError: if it cannot be written.
        """
        folder = self._changeable(model_id).path
        assert folder is not None
        self._write_card(folder, values)

    def _is_own(self, spec: ModelSpec) -> bool:
        return spec.path is not None and spec.path.parent == self.models

    def _changeable(self, model_id: str) -> ModelSpec:
        spec = self.get(model_id)
        if not self._is_own(spec):
            raise ConfigError(
                "{model} does not belong to this studio: only models made here, or put into {folder}, can be "
                "renamed and deleted.",
                model=spec.id,
                folder=self.models,
            )
        return spec

    def _require_idle(self, spec: ModelSpec) -> None:
        reason = self.in_use().get(spec.id)
        if reason:
            raise ModelInUseError("{model} cannot be changed now: {reason}.", model=spec.id, reason=reason)

    def _write_card(self, folder: Path, values: Mapping[str, Any]) -> None:
        try:
            card = read_card(folder)
        except ModelBrokenError:
            card = {}
        write_json(folder / CARD_FILE, {"schema_version": CARD_VERSION, **card, **values})


def _former_ids(spec: ModelSpec) -> list[str]:
    """Ids that a model had before it was renamed: what its card, which anybody may write, says of them."""
    former = spec.card.get("former_ids")
    return [name for name in former if isinstance(name, str)] if isinstance(former, list) else []
