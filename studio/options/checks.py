"""What a run's options may be, each by itself and together: every sentence says what is accepted.

The value `name` of an error is the option to change: the page marks its field.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from studio.errors import ConfigError, in_short
from studio.methods import METHODS
from studio.options.choices import ADAPTERS, ALL_LINEAR
from studio.options.schedulers import scheduler_options
from studio.options.sources import sources_of

if TYPE_CHECKING:
    from studio.options.training import TrainingConfig


def check(config: "TrainingConfig") -> None:
    """Checks each value, then those that belong together.

    Raises:
        ConfigError: names the option, what came, and what is accepted.
    """
    check_values(config)
    _check_data(config)
    _check_method(config)
    _check_distilled(config)
    _check_evaluated(config)
    _check_processes(config)
    _ = config.weights


def check_values(options: Any) -> None:
    """Checks each option (`studio.options.option`) by itself: its choices, its bounds.

    Raises:
        ConfigError: for the first that is not what it may be.
    """
    for f in fields(options):
        choices, bounds = f.metadata["choices"], f.metadata["bounds"]
        value = getattr(options, f.name)
        if choices:
            for word in value.split(",") if f.metadata["is_list"] else [value]:
                check_choice(f.name, word, choices)
        if bounds and value is not None:
            check_between(f.name, value, *bounds)


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuses a word that is none of the choices.

    Raises:
        ConfigError: names the option, the choices, and what came.
    """
    if value not in choices:
        raise ConfigError(
            "{name} must be one of {choices}, got {value!r}.",
            name=name,
            choices=", ".join(filter(None, choices)),
            value=in_short(value),
        )


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuses a number out of range; NaN is in no range.

    Raises:
        ConfigError: names the option, the range, and what came.
    """
    if not low <= value <= high:
        raise ConfigError(
            "{name} must be between {low:.10g} and {high:.10g}, got {value:.10g}.",
            name=name,
            low=low,
            high=high,
            value=value,
        )


def _check_data(config: "TrainingConfig") -> None:
    for name in ("base_model", "train_data"):
        if not getattr(config, name).strip():
            raise ConfigError("A run needs {name}: it is empty.", name=name)
    if config.min_audio_len >= config.max_audio_len:
        raise ConfigError(
            "min_audio_len must be below max_audio_len, got {low:g} and {high:g}.",
            name="min_audio_len",
            low=config.min_audio_len,
            high=config.max_audio_len,
        )
    for first, second in _ranges(config):
        if getattr(config, first) > getattr(config, second):
            raise ConfigError(
                "{first} must not be above {second}, got {low:g} and {high:g}.",
                first=first,
                second=second,
                low=getattr(config, first),
                high=getattr(config, second),
            )


def _ranges(config: "TrainingConfig") -> Iterator[tuple[str, str]]:
    """Pairs of options of which the first must not be above the second."""
    known = {f.name for f in fields(config)}
    for name in sorted(known):
        if name.startswith("min_") and (most := name.replace("min_", "max_", 1)) in known:
            yield name, most


def _check_method(config: "TrainingConfig") -> None:
    unknown = [name for name in config.target_modules if name not in ALL_LINEAR]
    if unknown or not config.target_modules:
        raise ConfigError(
            "target_modules must be some of {known} or all-linear, got {value!r}.",
            name="target_modules",
            known=", ".join(ALL_LINEAR),
            value=in_short(", ".join(unknown)),
        )
    scheduler_options(config.lr_scheduler_type, config.lr_scheduler_kwargs)
    _check_optimizer(config)
    if config.adapter and not config.training_method.can_go_on:
        raise ConfigError(
            "An adapter can be trained on with method {known}, got {method}: leave adapter out, or "
            "change the method.",
            name="adapter",
            known=", ".join(key for key, method in METHODS.items() if method.can_go_on),
            method=config.method,
        )
    weights = config.quantization, config.precision, config.base_dtype
    check_types(config.method, *weights, config.attn_implementation)


def _check_optimizer(config: "TrainingConfig") -> None:
    """What only AdamW reads is not given to another optimizer in vain."""
    for f in fields(config):
        value = getattr(config, f.name)
        if f.name.startswith("adam_") and value != f.default and not config.optim.startswith("adamw"):
            raise ConfigError(
                "{name} {value:g} is for AdamW, and optim is {optim}: leave it out, or choose "
                "adamw_torch_fused.",
                name=f.name,
                value=value,
                optim=config.optim,
            )


def _check_distilled(config: "TrainingConfig") -> None:
    """A student learns what its teacher makes of the clips, and nothing else."""
    if not config.distill:
        return
    reteaching = (f.name for f in fields(config) if f.metadata["reteaches"])
    wrong = next((name for name in reteaching if getattr(config, name)), None)
    if wrong is not None:
        raise ConfigError(
            "{name} {value} does not go with distill, which teaches what the base itself reads: leave it "
            "out.",
            name=wrong,
            value=getattr(config, wrong),
        )
    if not config.is_adapter:
        raise ConfigError(
            "distill makes an adapter, got method {method}: choose one of {known}.",
            name="method",
            method=config.method,
            known=ADAPTERS,
        )
    if config.short_audio == "off":
        raise ConfigError("distill is for short audio: set short_audio to auto.", name="short_audio")
    if config.num_processes > 1:
        raise ConfigError(
            "distill runs in one process, got {count}: set num_processes to 1.",
            name="num_processes",
            count=config.num_processes,
        )


def _check_evaluated(config: "TrainingConfig") -> None:
    """What waits for evaluations needs some."""
    waits = {
        "early_stopping_patience": config.early_stopping_patience > 0,
        "lr_scheduler_type": config.lr_scheduler_type in ("reduce_lr_on_plateau", "greedy"),
    }
    for name, is_waiting in waits.items():
        if is_waiting and not config.evaluates:
            raise ConfigError(
                "{name} {value} needs evaluations: set eval_strategy to epoch or steps.",
                name=name,
                value=getattr(config, name),
            )


def _check_processes(config: "TrainingConfig") -> None:
    if config.num_processes % config.num_machines:
        raise ConfigError(
            "{processes} processes cannot be shared out evenly among {machines} machines: give a multiple.",
            name="num_processes",
            processes=config.num_processes,
            machines=config.num_machines,
        )
    if config.machine_rank >= config.num_machines:
        raise ConfigError(
            "machine_rank counts from 0, so that of {machines} machines the last is {last}; got {rank}.",
            name="machine_rank",
            machines=config.num_machines,
            last=config.num_machines - 1,
            rank=config.machine_rank,
        )
    if config.has_machines and not config.main_process_ip.strip():
        raise ConfigError(
            "Several machines need main_process_ip, the address of machine 0.", name="main_process_ip"
        )
    check_division(config.quantization, config.sharding, config.num_processes)


def check_division(quantization: str, sharding: str, gpus: int) -> None:
    """Refuses to divide packed weights among GPUs.

    Raises:
        ConfigError: says what goes.
    """
    if gpus > 1 and quantization != "none" and sharding in ("zero3", "fsdp"):
        raise ConfigError(
            "{quantization} weights cannot be divided among GPUs: give sharding ddp, zero1 or zero2.",
            name="sharding",
            quantization=quantization,
        )


def weights_of(config: "TrainingConfig") -> tuple[float, ...]:
    """`train_weights` as numbers; empty if there are none.

    Raises:
        ConfigError: if they are none, or not as many as manifests.
    """
    words = config.train_weights.replace(",", " ").split()
    count = len(sources_of(config.train_data))
    try:
        weights = tuple(float(word) for word in words)
    except ValueError:
        weights = (-1.0,)
    if words and (len(weights) != count or not all(0 < weight < math.inf for weight in weights)):
        raise ConfigError(
            "train_weights must be numbers above 0, one a manifest in train_data ({count}), got {value!r}.",
            count=count,
            value=in_short(config.train_weights),
        )
    return weights


def check_types(method: str, quantization: str, precision: str, base_dtype: str, attention: str) -> None:
    """Refuses types that no trainer can put together, and says what comes nearest. `auto` goes with anything.

    Raises:
        ConfigError: its value `name` is the option to change.
    """
    _check_weights(METHODS[method].is_adapter, quantization, base_dtype)
    _check_arithmetic(quantization, precision, base_dtype)
    if attention == "flash_attention_2" and precision == "fp32":
        raise ConfigError(
            "Flash attention needs half precision: give precision bf16 or fp16, or sdpa.",
            name="attn_implementation",
        )


def _check_weights(is_adapter: bool, quantization: str, base_dtype: str) -> None:
    """Weights that are trained themselves need more than 8 bits, and gradients that can be scaled."""
    if is_adapter:
        return
    if quantization != "none":
        raise ConfigError(
            "{quantization} weights cannot be trained themselves: use one of the methods {known}, or "
            "quantization none.",
            name="quantization",
            quantization=quantization,
            known=ADAPTERS,
        )
    if base_dtype == "fp16":
        raise ConfigError(
            "Weights in fp16 cannot be trained themselves (their gradients cannot be scaled): give "
            "base_dtype fp32 or bf16.",
            name="base_dtype",
        )


def _check_arithmetic(quantization: str, precision: str, base_dtype: str) -> None:
    """Arithmetic in one type on weights in another is refused where torch would raise both."""
    if quantization != "none" and precision == "pure_bf16":
        raise ConfigError(
            "Beside {quantization} weights everything is raised to fp32: give precision bf16.",
            name="precision",
            quantization=quantization,
        )
    if precision == "fp32" and base_dtype in ("fp16", "bf16") and quantization == "none":
        raise ConfigError(
            "A {base_dtype} base cannot be fed with fp32: give both the same type.",
            name="base_dtype",
            base_dtype=base_dtype,
        )
    arithmetic = precision.removeprefix("pure_")
    if not {"fp32", "auto"} & {precision, base_dtype} and arithmetic != base_dtype:
        raise ConfigError(
            "A {base_dtype} base under {precision} autocast is promoted to fp32 everywhere: give both "
            "the same type.",
            name="base_dtype",
            base_dtype=base_dtype,
            precision=precision,
        )
