"""What the numbers of a plan may be."""

from typing import Any

from studio.errors import ConfigError
from studio.options.training import bounds_of
from studio.whisper.audio_context import POSITIONS

_OPTIONS = {
    "batch_size": "per_device_train_batch_size",
    "label_length": "generation_max_length",
    "num_gpus": "num_processes",
    **{name: name for name in ("lora_dropout", "gradient_accumulation_steps", "label_smoothing_factor")},
    **{name: name for name in ("loss_chunk_size", "generation_max_length", "generation_num_beams")},
}
"""Number of a plan → option of a run that it stands for, or that has the same bounds."""
BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("lora_r", 1, 2 * bounds_of("lora_r")[1]),  # AdaLoRA begins with more than it keeps
    ("audio_positions", 1, POSITIONS),
    ("eval_batch_size", 0, bounds_of("per_device_eval_batch_size")[1]),
    *((name, *bounds_of(option)) for name, option in _OPTIONS.items()),
)
"""Name, least and greatest value."""


def require_between(plan: Any, name: str, low: float, high: float) -> None:
    """Refuses a number of a plan out of its range.

    Raises:
        ConfigError: names the option, its limit, and what came.
    """
    value = getattr(plan, name)
    if value < low:
        raise ConfigError(
            "{name} must be at least {low:.10g}, got {value:.10g}.", name=name, low=low, value=value
        )
    if not value <= high:
        raise ConfigError(
            "{name} must be at most {high:.10g}, got {value:.10g}.", name=name, high=high, value=value
        )
