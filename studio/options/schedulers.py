"""The learning rate schedulers of transformers, and the arguments that some of them require.

This module imports nothing heavy; `scheduler_values` gives what `lr_scheduler_kwargs` of the trainer takes.
"""

from typing import Any

from studio.errors import ConfigError, in_short
from studio.files import parse_json

_PLATEAU = ("factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps")
_COSINE_TO = ("min_lr", "min_lr_rate", "num_cycles")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "cosine": ("num_cycles",),
    "cosine_with_restarts": ("num_cycles",),
    "cosine_with_min_lr": _COSINE_TO,
    "cosine_warmup_with_min_lr": (*_COSINE_TO, "warmup_lr_rate"),
    "polynomial": ("lr_end", "power"),
    "constant": (),
    "constant_with_warmup": (),
    "inverse_sqrt": ("timescale",),
    "reduce_lr_on_plateau": _PLATEAU,
    "warmup_stable_decay": (
        *("num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio", "num_cycles"),
    ),
    "greedy": (*_PLATEAU, "max_lr", "warmup", "smooth", "window_size", "reset_start"),
}
"""Scheduler → the names of its values (`transformers.optimization`)."""

WITHOUT_WARMUP = ("constant", "reduce_lr_on_plateau", "greedy")
"""To which `warmup_steps` mean nothing."""
_DECAY_SHARE = 0.1
"""Of the steps: what warmup-stable-decay falls in (Hägele et al., "Scaling Laws and Compute-Optimal Training
Beyond Fixed Training Durations", section 4: 10 to 20 %)."""
_LEAST_SHARE = 0.1
"""Of the peak rate: where cosine_with_min_lr ends, as large models are commonly trained."""


def scheduler_options(scheduler: str, text: str) -> dict[str, Any]:
    """The values in a JSON object; empty for an empty text.

    Raises:
        ConfigError: if it is no JSON object, or names a value that the scheduler does not have.
    """
    if not text.strip():
        return {}
    try:
        values = parse_json(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise ConfigError(
            '{name} must be a JSON object such as {{"num_cycles": 3}}, got {value!r}.',
            name="lr_scheduler_kwargs",
            value=in_short(text),
        )
    known = _OPTIONS.get(scheduler, ())
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise ConfigError(
            "{scheduler} has no {unknown}: {name} may have {known}.",
            name="lr_scheduler_kwargs",
            scheduler=scheduler,
            unknown=unknown,
            known=", ".join(known) or "{}",
        )
    return values


def scheduler_values(scheduler: str, text: str, learning_rate: float, max_steps: int) -> dict[str, Any]:
    """What the trainer hands to the scheduler: what was given, and sensible values of what it needs."""
    given = scheduler_options(scheduler, text)
    defaults: dict[str, Any] = {}
    if scheduler in ("cosine_with_min_lr", "cosine_warmup_with_min_lr") and "min_lr" not in given:
        defaults = {"min_lr_rate": _LEAST_SHARE}
    elif scheduler == "warmup_stable_decay":
        defaults = {"num_decay_steps": max(1, round(_DECAY_SHARE * max_steps))}
    elif scheduler == "polynomial":
        defaults = {"lr_end": min(1e-7, learning_rate / 100)}
    elif scheduler == "reduce_lr_on_plateau":
        defaults = {"patience": 1, "factor": 0.5}
    elif scheduler == "greedy":
        # Its own bounds (0.001 to 1) are those of SGD; a rate outside of them would jump at once.
        defaults = {"patience": 1, "min_lr": learning_rate / 100, "max_lr": learning_rate}
    return {**defaults, **given}
