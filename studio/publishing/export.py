"""A model in another form (`studio.publishing.formats`), with a proof.

The new form is written aside and moved among the models in one step, so that one cut short is never listed.
Its card names what it was made from and the hash of that: a model that changed is exported again.
"""

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from studio.errors import ConfigError, ModelBrokenError
from studio.files import require_free_space, storage_errors
from studio.messages import Message
from studio.options.checks import check_choice
from studio.publishing.card import OF_SOURCE, write_card
from studio.publishing.companions import copy_companions
from studio.publishing.formats import FORMATS, USUAL_FORMAT
from studio.publishing.formats.export_format import ExportFormat
from studio.publishing.parity import Decoded, Parity, compare, decode_with, proof_clips
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.transcription.devices import memory_for_a_model
from studio.transcription.loaded_base import LoadedBase, load_base
from studio.watching import OnStep, untold

STAGING = ".export-"
LOCK = "exports.lock"
"""Beside the models' folder; whoever makes an export in this home holds it. It ends with its process."""
_LOOK_SECONDS = 0.5
"""Who waits for another export tells so this often."""
_INHERITED = ("languages", "audio_context", "clip_seconds", "long_recordings", "short_audio", "capabilities")
"""What the card of a model says that is as true of its export."""
_MATTERS = ("*.safetensors", "config.json", "adapter_config.json", "generation_config.json", "tokenizer.json")
"""What tells one state of a model from another."""


@dataclass(frozen=True)
class Fingerprint:
    """The state of some folders."""

    hash: str
    """`sha256:…` over the contents."""
    signature: tuple[tuple[str, int, int], ...]
    """Path, size and time of each file: while they are the same, the contents are not read again."""


def fingerprint(folders: Sequence[Path], known: Fingerprint | None = None) -> Fingerprint:
    """The state of the weights and configs in `folders`; `known` is what was found before, if anything.

    Raises:
        StorageError: if a file cannot be read.
    """
    files = [path for folder in folders for pattern in _MATTERS for path in sorted(folder.glob(pattern))]
    stats = [(path, path.stat()) for path in files]
    signature = tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats)
    if known is not None and known.signature == signature:
        return known
    digest = hashlib.sha256()
    for path in files:
        with storage_errors(path), path.open("rb") as content:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return Fingerprint(f"sha256:{digest.hexdigest()}", signature)


@dataclass(frozen=True)
class ExportRequest:
    """What to make of which model."""

    model: str
    """Registry id, folder or Hub id."""
    format: str = USUAL_FORMAT
    quantization: str = "auto"
    """How the weights are kept: `auto` as they are, or one of the format's."""
    name: str = ""
    """Of the new model; empty: made of the old one's."""


class Exporter:
    """Makes exports, and finds those made before. Safe to share by threads; a home makes one at a time."""

    def __init__(self, registry: ModelRegistry) -> None:
        self._registry = registry
        self._fingerprints: dict[str, Fingerprint] = {}

    def ensure(self, model_id: str, on_step: OnStep = untold) -> ModelSpec:
        """The export of a model for faster-whisper; made now if there is none, or the model has changed.

        Raises: as `export`.
        """
        spec = self._registry.get(model_id)
        if spec.is_export:
            return spec
        if found := self.find(spec):
            return found
        with self._alone(on_step):
            # Who held the home before may have made it.
            return self.find(spec) or self._make(ExportRequest(spec.id), on_step, is_automatic=True)

    def export(self, request: ExportRequest, on_step: OnStep = untold) -> ModelSpec:
        """Makes the new form; `on_step` is told how far it is. Without a name for it, one that is there
        already and would become the same again is given back.

        Raises:
            ConfigError: if there is no such form, or it makes no sense for this model.
            ModelError, HubUnreachableError: if the model cannot be used.
            StorageError: if there is no room for it.
        """
        if request.name:
            self._registry.check_id(request.name)
        with self._alone(on_step):
            return self._make(request, on_step, is_automatic=False)

    def find(self, spec: ModelSpec) -> ModelSpec | None:
        """An export of the model as it is now, that keeps its weights as they are; the newest."""
        exports = [
            row
            for row in self._registry.all()
            if row.kind is ModelKind.EXPORT and not row.problem and row.card.get("source_hash")
        ]
        if not exports:
            return None
        now = self._fingerprint(spec)
        return next(
            (row for row in exports if row.card["source_hash"] == now.hash and row.card.get("is_exact")), None
        )

    # ------------------------------------------------------------------ making

    @contextmanager
    def _alone(self, on_step: OnStep) -> Iterator[None]:
        """Waits until nobody else makes an export in this home, in another thread, process or machine."""
        place = self._registry.models.with_name(LOCK)
        with storage_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(place)
            seconds = 0.0
            while not lock.is_locked:
                try:
                    lock.acquire(timeout=seconds)
                except Timeout:
                    seconds = _LOOK_SECONDS
                    on_step(Message("Waiting for another export to end …"), 0.0)  # it may end the waiting
        try:
            yield
        finally:
            lock.release()

    def _make(self, request: ExportRequest, tell: OnStep, *, is_automatic: bool) -> ModelSpec:
        spec = self._registry.get(request.model)
        if spec.path is not None or spec.dimensions is not None:  # else the Hub alone knows what it is
            _check(request, spec)
        tell(Message("Reading {model} …", model=spec.id), 0.0)
        folder = self._registry.local_path(spec.id)
        if spec.path is None:
            spec = self._registry.fetched(spec.id)
            _check(request, spec)
        base_folder = self._base_folder(spec, folder)
        form = FORMATS[request.format]
        as_stored = form.stored(stored_dtype(base_folder))
        quantization = as_stored if request.quantization == "auto" else request.quantization
        described = self._described(spec, form, quantization)
        if not (request.name or is_automatic) and (same := self._made_before(described)) is not None:
            self._registry.annotate(same.id, {"is_automatic": False})
            return self._registry.get(same.id)
        require_free_space(self._registry.models, 2 * _weights_bytes(base_folder))
        self._sweep()
        staged = self._registry.models / f"{STAGING}{uuid.uuid4().hex[:8]}"
        try:
            with storage_errors(staged):
                staged.mkdir(parents=True)
            proofs = _write(form, spec, folder, base_folder, staged, quantization, tell)
            tell(Message("Adding it to the models …"), 0.95)
            card: dict[str, Any] = {
                **described,
                "is_exact": quantization in (as_stored, "float32"),  # which holds every value of the others
                "is_automatic": is_automatic,
                "parity": [proof.to_json() for proof in proofs],
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            if weights := form.weights:
                with storage_errors(staged):
                    card |= {"weights": weights, "weights_bytes": (staged / weights).stat().st_size}
            made = self._registry.add(export_name(request, spec, quantization), staged, card)
            write_card(made)
            made = self._registry.get(made.id)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        self._forget_outdated(made)
        return made

    def _base_folder(self, spec: ModelSpec, folder: Path) -> Path:
        return self._registry.local_path(spec.base_model or "") if spec.kind is ModelKind.ADAPTER else folder

    def _made_before(self, described: Mapping[str, Any]) -> ModelSpec | None:
        """An export with the same card that nothing is wrong with; None if there is none."""
        wanted = json.loads(json.dumps(described))  # a card has lists where this may have tuples
        rows = (row for row in self._registry.all() if not row.problem)
        return next((row for row in rows if wanted.items() <= row.card.items()), None)

    def _described(self, spec: ModelSpec, form: ExportFormat, quantization: str) -> dict[str, Any]:
        """What the card of an export says before it is made: the model in its state of now, and the form."""
        inherited = {name: spec.card[name] for name in _INHERITED if name in spec.card}
        return {
            **inherited,
            "kind": form.kind,
            "format": form.key,
            "title": f"{spec.card.get('title') or spec.title}, {form.title}",
            "base_model": spec.base_model if spec.kind is ModelKind.ADAPTER else spec.id,
            "source": spec.id,
            "source_hash": self._fingerprint(spec).hash,
            **({"visitor": spec.card["visitor"]} if "visitor" in spec.card else {}),
            "made_of": {name: spec.card[name] for name in OF_SOURCE if name in spec.card},
            "quantization": quantization,
        }

    def _fingerprint(self, spec: ModelSpec) -> Fingerprint:
        """Of its files, and of its base's; files that look the same are not read again."""
        folder = self._registry.local_path(spec.id)
        folders = [folder]
        if spec.kind is ModelKind.ADAPTER:
            folders.append(self._base_folder(spec, folder))
        key = "\n".join(map(str, folders))
        self._fingerprints[key] = fingerprint(folders, self._fingerprints.get(key))
        return self._fingerprints[key]

    def _forget_outdated(self, made: ModelSpec) -> None:
        """Deletes exports that were made by themselves of what the model was before."""
        for row in self._registry.all():
            is_old = row.card.get("source_hash") != made.card.get("source_hash")
            is_same = row.kind is ModelKind.EXPORT and row.card.get("source") == made.card.get("source")
            if is_same and is_old and row.card.get("is_automatic") is True:
                self._registry.remove(row.id)

    def _sweep(self) -> None:
        """What an export that was cut short has left: who holds the lock is alone."""
        for leftover in self._registry.models.glob(f"{STAGING}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _check(request: ExportRequest, spec: ModelSpec) -> None:
    check_choice("format", request.format, FORMATS)
    if spec.is_export:
        raise ConfigError("{model} is an export already.", model=spec.id)
    form = FORMATS[request.format]
    if problem := form.problem(spec):
        raise ConfigError(problem.template, **problem.values)
    check_choice("quantization", request.quantization, ("auto", *form.quantizations))


def _write(
    form: ExportFormat,
    spec: ModelSpec,
    folder: Path,
    base_folder: Path,
    staged: Path,
    quantization: str,
    tell: OnStep,
) -> list[Parity]:
    """The new form in `staged`; gives how it compares."""
    clips = proof_clips()
    tell(Message("Loading {model} …", model=spec.id), 0.05)
    with memory_for_a_model():
        base = load_base(base_folder, device="cpu", precision="float32")
    forms = [_decoded(base, spec, folder, clips, tell)]
    if spec.kind is ModelKind.ADAPTER:
        tell(Message("Merging the adapter …"), 0.3)
        base.merge(spec.id)
        with base.using(None) as decoder:
            forms.append(decode_with(decoder, clips, ModelKind.MERGED))
    with base.using(None) as decoder:
        copy_companions(base_folder, staged, decoder)
        tell(form.doing, 0.5)
        form.write(decoder, staged, quantization, folder)
        tell(Message("Comparing both outputs …"), 0.8)
        with form.reopened(staged) as made:
            _require_same_languages(made.tokens.languages, decoder.tokens.languages)
            name = form.key if form.kind is ModelKind.FOREIGN else form.kind
            if forms[-1].form == name:
                del forms[-1]  # it counts as it comes from the disk
            forms.append(decode_with(made, clips, name))
    return [compare(forms[0], form) for form in forms[1:]]


def stored_dtype(folder: Path) -> str:
    """How the weights of a folder are kept: `float32`, `float16` or `bfloat16`, by most of its tensors."""
    from safetensors import safe_open

    names = {"F16": "float16", "BF16": "bfloat16"}
    kinds: list[str] = []
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, framework="np") as tensors:
            kinds += [tensors.get_slice(name).get_dtype() for name in tensors.keys()]  # noqa: SIM118
    return names.get(max(set(kinds), key=kinds.count), "float32") if kinds else "float32"


def _decoded(base: LoadedBase, spec: ModelSpec, folder: Path, clips: Any, tell: OnStep) -> Decoded:
    is_adapter = spec.kind is ModelKind.ADAPTER
    if is_adapter:
        base.add_adapter(spec.id, folder)
    tell(Message("Transcribing {clips} clips …", clips=len(clips)), 0.15)
    with base.using(spec.id if is_adapter else None) as decoder:
        return decode_with(decoder, clips, "adapter" if is_adapter else "model")


def _require_same_languages(export: Any, model: Any) -> None:
    if set(export) != set(model):
        raise ModelBrokenError(
            "The export knows {export} languages and its model {model}: the tokenizer's files do not belong "
            "to the model. Copy them from the model that it was trained from.",
            export=len(export),
            model=len(model),
        )


def export_name(request: ExportRequest, spec: ModelSpec, quantization: str = "") -> str:
    """What a model in that form is called; `quantization`: how its weights are kept, if that was chosen."""
    if request.name:
        return request.name
    ending = FORMATS[request.format].ending
    ending += "" if request.quantization == "auto" else f"-{quantization}"
    stem = re.sub(r"[^\w.-]+", "-", Path(spec.id).name).strip("-.") or "model"
    return f"{stem[: 79 - len(ending)]}-{ending}"


def _weights_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
