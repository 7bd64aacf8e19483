"""What the numbers and words of a plan may be."""

from typing import Any

from studio.errors import ConfigError
from studio.whisper.audio_context import POSITIONS

BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("lora_r", 1, 2048),
    ("lora_dropout", 0, 0.9),
    ("batch_size", 1, 1024),
    ("gradient_accumulation_steps", 1, 4096),
    ("label_length", 1, 448),
    ("label_smoothing_factor", 0, 0.9),
    ("loss_chunk_size", 0, 10**6),
    ("audio_positions", 1, POSITIONS),
    ("eval_batch_size", 0, 1024),
    ("generation_max_length", 1, 448),
    ("generation_num_beams", 1, 32),
    ("num_gpus", 1, 1024),
)


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


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuses a word that is none of the choices.

    Raises:
        ConfigError: names the option, the choices, and what came.
    """
    if value not in choices:
        raise ConfigError(
            "{name} must be one of {choices}, got {value!r}.",
            name=name,
            choices=", ".join(choices),
            value=value,
        )
