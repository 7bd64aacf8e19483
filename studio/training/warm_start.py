"""What a run starts from: its base, with room on the disk for what is made of it; or an adapter, whose
method, rank and layers become those of the run.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.errors import AdapterMismatchError, ConfigError, StudioError
from studio.files import read_json, require_free_space
from studio.methods import METHODS
from studio.options.choices import ALL_LINEAR
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.registry.validate import check_window

_DEFAULTS = TrainingConfig()


def called_now(config: TrainingConfig, registry: ModelRegistry) -> TrainingConfig:
    """With base model and adapter under the names that they have now: since the run was asked for, they may
    have been renamed."""
    adapter = config.adapter and registry.called_now(config.adapter)
    return replace(config, base_model=registry.called_now(config.base_model), adapter=adapter)


def base_spec(config: TrainingConfig, registry: ModelRegistry) -> ModelSpec:
    """The base model.

    Raises:
        AdapterMismatchError: if it is an adapter.
        ConfigError: if it is an export.
        ModelBrokenError: if it does not see 30 seconds.
    """
    spec = registry.get(config.base_model)
    if spec.kind is ModelKind.ADAPTER:
        raise AdapterMismatchError(
            "{model} is an adapter, which is no base_model: give its base {base}, and {model} as adapter "
            "to go on training it.",
            model=spec.id,
            base=spec.base_model or "",
        )
    if spec.is_export:
        raise ConfigError("{model} is an export, which cannot be trained: choose its base.", model=spec.id)
    check_window(spec.id, spec.dimensions)
    return spec


def check_space(config: TrainingConfig, run: Path, base: Path) -> int:
    """Room for the checkpoints kept, one being written, and the model itself; how many bytes that is.

    Raises:
        StorageError: if there is none.
    """
    weights = sum(file.stat().st_size for file in base.glob("*.safetensors"))
    checkpoint = weights * config.lora_r // 200 if config.is_adapter else 6 * weights
    needed_bytes = checkpoint * (config.save_total_limit + 2)
    require_free_space(run, needed_bytes)
    return needed_bytes


def adapter_named(name: str, registry: ModelRegistry) -> ModelSpec:
    """An adapter by its id or folder.

    Raises:
        ModelNotFoundError: if there is none of that name.
        AdapterMismatchError: if it is another model.
    """
    spec = registry.get(name)
    if spec.kind is not ModelKind.ADAPTER:
        raise AdapterMismatchError(
            "{model} is no adapter: give it as base_model, or leave adapter empty.", model=spec.id
        )
    return spec


def warm_started(config: TrainingConfig, registry: ModelRegistry) -> TrainingConfig:
    """`config` with what its adapter decides; as it is if it names none.

    An option left at its default, or that says the same, follows the adapter.

    Raises:
        ModelNotFoundError: if there is no such adapter.
        AdapterMismatchError: if it is none, belongs to another base, or an option contradicts it.
        ConfigError: if it is of a kind that cannot be trained on.
    """
    if not config.adapter:
        return config
    spec = adapter_named(config.adapter, registry)
    if spec.base_model != registry.get(config.base_model).id:
        raise AdapterMismatchError(
            "The adapter {adapter} belongs to {base}, and base_model is {model}: give base_model {base}.",
            adapter=spec.id,
            base=spec.base_model or "",
            model=config.base_model,
        )
    own = _options_of(adapter_folder(config, registry), spec.id)
    for name, value in own.items():
        given = getattr(config, name)
        if given not in (value, getattr(_DEFAULTS, name)):
            raise AdapterMismatchError(
                "{name} is {given}, and the adapter {adapter} has {value}: leave {name} out.",
                name=name,
                given=_shown(given),
                adapter=spec.id,
                value=_shown(value),
            )
    return replace(config, **own)


def shaped(config: TrainingConfig, registry: ModelRegistry) -> TrainingConfig:
    """`warm_started` without a download; `config` as it is if its adapter is not here or contradicts it."""
    try:
        found = warm_started(replace(config, local_files_only=True), registry)
    except StudioError:
        return config
    return replace(found, local_files_only=config.local_files_only)


def adapter_folder(config: TrainingConfig, registry: ModelRegistry) -> Path:
    """Where the adapter's files are; downloaded if need be.

    Raises:
        HubUnreachableError: if that fails.
    """
    return registry.local_path(config.adapter, **config.downloads)


def _options_of(folder: Path, adapter: str) -> dict[str, Any]:
    """Method, rank, scale and layers, under the names of `TrainingConfig`."""
    saved = read_json(folder / "adapter_config.json")
    modules = saved.get("target_modules")
    method = next((key for key, row in METHODS.items() if row.can_go_on and row.goes_on_from(saved)), None)
    is_known = isinstance(modules, list) and bool(modules) and set(modules) <= set(ALL_LINEAR)
    if method is None or saved.get("rank_pattern") or not is_known or saved.get("modules_to_save"):
        raise ConfigError(
            "The adapter {adapter} ({kind}) cannot be trained on: choose a LoRA or DoRA adapter of one rank "
            "on some of {known}.",
            name="adapter",
            adapter=adapter,
            kind=saved.get("peft_type"),
            known=", ".join(ALL_LINEAR),
        )
    return {
        "method": method,
        "lora_r": int(saved["r"]),
        "lora_alpha": int(saved["lora_alpha"]),
        "target_modules": tuple(name for name in ALL_LINEAR if name in modules),
    }


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
