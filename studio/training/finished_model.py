"""A finished run's model: files of the best checkpoint, staged, and moved into the registry in one step."""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.files import read_json, replaced_folder, shortened, storage_errors, write_json
from studio.options.arguments import command_line, config_to_dict
from studio.options.training import TrainingConfig
from studio.publishing.card import README, hub_datasets, write_card
from studio.registry.spec import CARD_FILE, ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.training.data.clips import TrainingData
from studio.training.data.sources import SourceData
from studio.training.strength import mix_files, weaken

_NAME_BYTES = 200
"""Of a model's: what is put before and behind it has room on any disk, too."""
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_MODEL_FILES = ("config.json", "model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
_BASE_FILES = (
    "added_tokens.json",
    "merges.txt",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)


def check_output_dir(config: TrainingConfig, home: Path) -> None:
    """Refuses a folder whose content is not a copy that the studio made, or that cannot be written, before
    any work is done.

    Raises:
        ConfigError: if there is one, or it lies in the studio's own `home`.
        StorageError: if no copy can be put there.
    """
    if config.output_dir:
        _check_content(Path(config.output_dir), home)
        _require_writable(Path(config.output_dir))


def _check_content(folder: Path, home: Path) -> None:
    if folder.resolve().is_relative_to(home.resolve()):
        raise ConfigError(
            "output_dir {folder} lies in the studio's own folder {home}, where the model is kept anyway: "
            "choose another place, or leave it out.",
            folder=folder,
            home=home,
        )
    if folder.exists() and not _is_copy(folder):
        raise ConfigError(
            "output_dir {folder} is not empty and holds no model of the studio, or something beside it: "
            "choose an empty folder.",
            folder=folder,
        )


def _require_writable(folder: Path) -> None:
    """Makes sure that it can be made, or a copy beside it that takes its place; leaves nothing."""
    with storage_errors(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # another run makes its own there, and needs what is around it
            for path in missing:
                path.rmdir()
        if not missing and not os.access(folder.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _is_copy(folder: Path) -> bool:
    """Whether a folder is empty, or a model of a run with nothing beside it that would be lost."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir() if path.is_file()}
    others = any(not path.is_file() for path in folder.iterdir())
    known = (*_ADAPTER_FILES, *_MODEL_FILES, *_BASE_FILES, CARD_FILE, README, "generation_config.json")
    if others or not all(any(fnmatch(name, pattern) for pattern in known) for name in names):
        return False
    try:
        return not names or "run_id" in read_json(folder / CARD_FILE)
    except (OSError, ValueError, TypeError):
        return False


def stage(
    checkpoint: Path,
    staged: Path,
    base: Path,
    base_id: str,
    config: TrainingConfig,
    generation_config: Any,
    strength: float,
) -> None:
    """Copies what makes up the model from `checkpoint` (and, for a whole model, from `base`) to `staged`; of
    what was learned as much as `strength` says.
    """
    with storage_errors(staged):
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        _copy(checkpoint, staged, _ADAPTER_FILES if config.is_adapter else _MODEL_FILES)
        if not config.is_adapter:
            _copy(base, staged, _BASE_FILES)
        generation_config.save_pretrained(staged)
    if not config.is_adapter:
        mix_files(staged, base, strength)
        return
    weaken(staged / "adapter_model.safetensors", base, strength)
    adapter_config = read_json(staged / "adapter_config.json")
    write_json(staged / "adapter_config.json", {**adapter_config, "base_model_name_or_path": base_id})


def set_language_and_task(generation_config: Any, data: TrainingData, is_multilingual: bool) -> None:
    """Sets language and task in the generation config, where all clips have the same."""
    generation_config.forced_decoder_ids = None
    if not is_multilingual:
        return
    if len(data.languages) == 1:
        generation_config.language = data.languages[0]
    tasks = {clip.task for clip in data.train}
    if len(tasks) == 1:
        generation_config.task = tasks.pop()


def keep(
    registry: ModelRegistry, staged: Path, model_id: str, card: Mapping[str, Any], config: TrainingConfig
) -> ModelSpec:
    """Moves the staged model into the registry, and hands it out."""
    kind = ModelKind.ADAPTER if config.is_adapter else ModelKind.BASE
    created = datetime.now(UTC).isoformat(timespec="seconds")
    spec = registry.add(model_id, staged, {**card, "kind": kind, "created": created})
    return hand_out(registry, spec, config)


def hand_out(registry: ModelRegistry, spec: ModelSpec, config: TrainingConfig) -> ModelSpec:
    """Writes `README.md` of a model that is kept, and copies it to `output_dir` if there is one. It is done
    again if it was broken off.

    Raises:
        ConfigError: if meanwhile something was put into `output_dir`.
    """
    write_card(spec)
    spec = registry.get(spec.id)
    if config.output_dir and spec.path is not None:
        target = Path(config.output_dir)
        with replaced_folder(target, spec.card["run_id"]) as copy:
            shutil.copytree(spec.path, copy)
            _check_content(target, registry.models.parent)
    return spec


def update_cards(spec: ModelSpec, config: TrainingConfig) -> None:
    """Has `README.md`, and the copy in `output_dir`, say what the model's card says now."""
    write_card(spec)
    copy = Path(config.output_dir)
    if config.output_dir and spec.path is not None and (copy / CARD_FILE).is_file():
        with storage_errors(copy):
            _copy(spec.path, copy, (CARD_FILE, README))


def made_by(registry: ModelRegistry, run_id: str) -> ModelSpec | None:
    """The model that a run has made already, if there is one."""
    return next((spec for spec in registry.all() if spec.card.get("run_id") == run_id), None)


def describe(
    config: TrainingConfig, base: ModelSpec, base_path: Path, data: TrainingData, source: SourceData
) -> dict[str, Any]:
    """What the card says about where the model comes from."""
    return {
        "title": config.run_name
        or f"{Path(base.title).name}, {config.method} on {Path(config.train_data).name}",
        "base_model": base.id,
        "base_revision": revision_of(base_path),
        "method": config.method,
        "data": {
            "source": config.train_data,
            "hash": source.data_hash,
            "train_samples": len(data.train),
            "train_hours": data.train_hours,
            "datasets": hub_datasets(config.train_data),
            "eval_source": source.eval_source,
            "eval_datasets": hub_datasets(config.test_data or config.train_data),
            "eval_samples": len(data.evaluation),
        },
        "languages": list(data.languages),
        "config": config_to_dict(config),
        "command": command_line(config),
    }


def name_of(config: TrainingConfig, run_id: str) -> str:
    """The run's name as the name of a folder, or the run's id."""
    name = re.sub(r"[^\w.-]+", "-", config.run_name).strip("-.")[:80]
    return shortened(name, _NAME_BYTES) or run_id


def revision_of(base: Path) -> str:
    """Commit of a Hub model in its folder, else a hash of the weights."""
    if base.parent.name == "snapshots":
        return base.name
    digest = hashlib.sha256()
    for file in sorted(base.glob("*.safetensors")):
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _copy(source: Path, target: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for file in source.glob(pattern):
            shutil.copy2(file, target / file.name)
