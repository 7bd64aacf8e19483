"""Which base a run starts from: found, judged, and with room on the disk for what is made of it."""

from pathlib import Path

from studio.errors import AdapterMismatchError, ConfigError
from studio.files import require_free_space
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelKind, ModelSpec
from studio.registry.store import ModelRegistry
from studio.whisper.audio_context import POSITIONS, SECONDS_PER_POSITION


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
    if spec.is_export:
        raise ConfigError("{model} is an export, which cannot be trained: choose its base.", model=spec.id)
    check_window(spec)
    return spec


def check_window(base: ModelSpec) -> None:
    """Refuses a base that does not see 30 seconds: clips are cut, filled up and timed by them.

    Raises:
        ConfigError: says what it sees.
    """
    dimensions = base.dimensions
    if dimensions is not None and dimensions.max_source_positions != POSITIONS:
        raise ConfigError(
            "{model} sees windows of {seconds:g} s (max_source_positions {positions}), and training needs "
            "30 s: choose a Whisper with max_source_positions {wanted}.",
            name="base_model",
            model=base.id,
            seconds=dimensions.max_source_positions * SECONDS_PER_POSITION,
            positions=dimensions.max_source_positions,
            wanted=POSITIONS,
        )


def base_path_of(config: TrainingConfig, registry: ModelRegistry) -> Path:
    """Its folder; downloaded if need be."""
    return registry.local_path(config.base_model, **config.downloads)


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
