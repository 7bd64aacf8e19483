"""Which base a run starts from: found, judged, and with room on the disk for what is made of it."""

from dataclasses import replace
from pathlib import Path

from studio.errors import AdapterMismatchError, ConfigError
from studio.files import require_free_space
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.registry.validate import check_window


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
