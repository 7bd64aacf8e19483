"""Which base a run starts from: found, judged, and with room on the disk for what is made of it."""

from pathlib import Path

from studio.errors import AdapterMismatchError, ConfigError
from studio.files import require_free_space
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.training.checks import check_window
from studio.training.config import TrainingConfig


def base_spec(config: TrainingConfig, registry: ModelRegistry) -> ModelSpec:
    """The base model.

    Raises:
        AdapterMismatchError: if it is an adapter.
        ConfigError: if it is an export, or does not see 30 seconds.
    """
    spec = registry.get(config.base_model)
    if spec.kind is ModelKind.ADAPTER:
        raise AdapterMismatchError(
            "{model} is an adapter, which is no base_model: give its base {base}, and {model} as adapter "
            "to go on training it.",
            model=spec.id,
            base=spec.base_model or "",
        )
    if spec.kind is ModelKind.EXPORT:
        raise ConfigError("{model} is an export, which cannot be trained: choose its base.", model=spec.id)
    check_window(spec)
    return spec


def base_path_of(config: TrainingConfig, registry: ModelRegistry) -> Path:
    """Its folder; downloaded if need be."""
    return registry.local_path(
        config.base_model,
        local_files_only=config.local_files_only,
        cache_dir=Path(config.cache_dir) if config.cache_dir else None,
    )


def check_space(config: TrainingConfig, run: Path, base: Path) -> None:
    """Room for the checkpoints kept, one being written, and the model itself.

    Raises:
        StorageError: if there is none.
    """
    weights = sum(file.stat().st_size for file in base.glob("*.safetensors"))
    checkpoint = weights * config.lora_r // 200 if config.is_adapter else 6 * weights
    require_free_space(run, checkpoint * (config.save_total_limit + 2))
