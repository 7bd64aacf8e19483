"""Flags of other training scripts and what they mean here: tables read by `studio.training.arguments`.

Names that only differ in spelling from a field of `TrainingConfig` are aliases in that field's metadata.
Those that do nothing here are in `trainer_flags` and `script_flags`, each with a sentence.
"""

import json
from collections.abc import Mapping
from typing import Any

from studio.errors import ConfigError
from studio.training.foreign import Foreign
from studio.training.script_flags import SCRIPTS
from studio.training.trainer_flags import TRAINER

SWITCHES: dict[str, tuple[str, Any]] = {
    "fp16": ("precision", "fp16"),
    "bf16": ("precision", "bf16"),
    "pure_bf16": ("precision", "pure_bf16"),
    "use_8bit": ("quantization", "8bit"),
    "load_in_8bit": ("quantization", "8bit"),
    "use_4bit": ("quantization", "4bit"),
    "load_in_4bit": ("quantization", "4bit"),
    "use_dora": ("method", "dora"),
    "use_adalora": ("method", "adalora"),
    "freeze_encoder": ("method", "frozen_encoder"),
    "use_wandb": ("report_to", "wandb"),
    "use_tensorboard": ("report_to", "tensorboard"),
    "do_lower_case": ("normalizer", "lowercase"),
}
"""Boolean flag → the field and the value that it switches on."""

SWITCHED_OFF = {
    "precision": "fp32",
    "quantization": "none",
    "method": "lora",
    "report_to": "none",
    "normalizer": "none",
}
"""What the field gets if its switches are all given as False."""

STRATEGIES = {
    **dict.fromkeys(("MULTI_GPU", "MULTI_CPU", "NO", "DDP"), "ddp"),
    "FSDP": "fsdp",
    "DEEPSPEED": "zero2",
}
"""What accelerate and the trainer call a strategy → the value of `sharding`."""

UNPAGED = {
    "paged_adamw_8bit": "adamw_bnb_8bit",
    "paged_adamw_32bit": "adamw_torch_fused",
    "paged_adamw": "adamw_torch_fused",
}
"""Optimizers whose states may move to the machine's memory → the same without that."""

UNUSED: dict[str, Foreign] = {**TRAINER, **SCRIPTS}
"""Known flag that changes nothing, or is refused → why."""

_CHECKPOINTING = ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs")
_COMPILING = {"torch_compile_backend": "inductor", "torch_compile_mode": "default"}
"""Flag that switches compiling on, too → the one value that is done here."""
_OF_THE_MODEL = ("config_name", "tokenizer_name", "feature_extractor_name")
_DATASET = ("dataset_name", "dataset_config_name", "train_split_name", "eval_split_name")
TRANSLATED = ("warmup_ratio", "save_strategy", *_CHECKPOINTING, *_COMPILING, *_OF_THE_MODEL, *_DATASET)
"""Flags whose value has to be rewritten; see `translate`."""

_TRAINS_ALL = {*_DATASET, "predict_with_generate"}
"""Flags by which a script is known that trains all weights."""
_SAYS_WHICH = ("method", "lora", "quantization", "target_modules", "adapter", "distill")


def is_switch(name: str) -> bool:
    """Whether a foreign flag may stand alone, and takes nothing but a truth value."""
    return name in SWITCHES or (name in UNUSED and UNUSED[name].is_switch)


def known_names() -> set[str]:
    """Every flag of these tables."""
    return {*SWITCHES, *UNUSED, *TRANSLATED}


def translate(
    foreign: Mapping[str, Any], own: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Values of `TrainingConfig` fields for foreign flags, and the sentences about what is read otherwise.

    `foreign` maps flag → value; switches already have a bool. `own` has the fields given by their own names,
    `others` those of the file that the flags override.

    Raises:
        ConfigError: if two flags contradict each other, or one asks for another model than can be made.
    """
    given = {name: value for name, value in foreign.items() if value is not None}
    notes = _unused(given)
    values = _switched(given)
    for name in _CHECKPOINTING:
        if given.get(name):
            values["use_reentrant"] = _use_reentrant(name, given[name])
    if (ratio := given.get("warmup_ratio")) and not float(own.get("warmup_steps", 0)):
        values["warmup_steps"] = ratio
    elif ratio:
        notes.append("--warmup_ratio has no effect here: warmup_steps is given, too.")
    for name, done in _COMPILING.items():
        if given.get(name):
            values["torch_compile"] = True
            if given[name] != done:
                notes.append(f"--{name} {given[name]} is not done here: the model is compiled with {done}.")
    for name in _OF_THE_MODEL:
        if given.get(name) and given[name] != {**others, **own}.get("base_model"):
            raise ConfigError(
                "--{name} {value} is not done here, and without it the run would be another: {advice}.",
                name=name,
                value=given[name],
                advice="a model's own configuration and tokenizer are used, those of base_model",
            )
    values |= _dataset(given, own, others)
    values |= _saving(given.get("save_strategy"), notes)
    return values, notes


def unmade(foreign: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """What a script that trains all weights would have done, and a run with these values does not."""
    if not _TRAINS_ALL & foreign.keys() or "base_model" not in values:
        return []
    notes = []
    if not any(name.startswith(_SAYS_WHICH) for name in values):
        notes.append("This makes a LoRA, a small adapter: add --method full to train all weights.")
    if foreign.get("dataset_name") and not {"normalizer", "do_lower_case"} & {*values, *foreign}:
        notes.append("Texts are learned as they are written: --do_lower_case makes them lower case.")
    return notes


def _unused(given: Mapping[str, Any]) -> list[str]:
    """A sentence for each flag that changes nothing."""
    notes = []
    for name, value in given.items():
        flag = UNUSED.get(name)
        if flag is None or flag.is_usual(value) or (name == "do_eval" and given.get("dataset_name")):
            continue
        if flag.is_refused:
            raise ConfigError(
                "--{name} {value} is not done here, and without it the run would be another: {advice}.",
                name=name,
                value=value,
                advice=flag.reason,
            )
        notes.append(f"--{name} has no effect here: {flag.reason}.")
    return notes


def _switched(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (field, value) in SWITCHES.items():
        if name not in given:
            continue
        if not given[name]:
            values.setdefault(field, SWITCHED_OFF[field])
        elif values.get(field, value) in (value, SWITCHED_OFF[field]):
            values[field] = value
        else:
            raise ConfigError(
                "--{name} cannot be combined with {field} {other}: choose one of them.",
                name=name,
                field=field,
                other=values[field],
            )
    return values


def _dataset(given: Mapping[str, Any], own: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """`dataset_name`, its configuration and its splits as `owner/name:config:split`."""
    named = given.get("dataset_name")
    if not named:
        lonely = next((name for name in _DATASET if given.get(name)), None)
        if lonely and "train_data" not in {**others, **own}:
            raise ConfigError(
                "--{name} belongs to a dataset of the hub: give dataset_name, too, or train_data.",
                name=lonely,
            )
        return {}
    if "train_data" in own:
        raise ConfigError(
            "--{name} cannot be combined with {field} {other}: choose one of them.",
            name="dataset_name",
            field="train_data",
            other=own["train_data"],
        )
    source = f"{named}:{given['dataset_config_name']}" if given.get("dataset_config_name") else str(named)
    data = {"train_data": _part(source, given.get("train_split_name"), "train")}
    is_evaluated = given.get("eval_split_name") or given.get("do_eval")
    if is_evaluated and "test_data" not in own:
        data["test_data"] = _part(source, given.get("eval_split_name"), "test")
    return data


def _part(source: str, split: Any, usual: str) -> str:
    """A split of a dataset, left out where it is what is read anyway."""
    if split in (None, "", usual):
        return source
    return f"{source}:{split}" if ":" in source else f"{source}::{split}"


def _saving(strategy: Any, notes: list[str]) -> dict[str, Any]:
    if strategy in ("epoch", "best"):
        return {"save_steps": 0}
    if strategy in ("no", False):
        notes.append("--save_strategy no has no effect here: checkpoints are what a run is resumed from.")
    elif strategy not in (None, "steps"):
        raise ConfigError(
            "save_strategy must be one of epoch, steps, best, no, got {value!r}.", value=strategy
        )
    return {}


def _use_reentrant(name: str, value: Any) -> Any:
    """The one thing that the options of checkpointing, a mapping or its JSON, can say here."""
    try:
        given = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, Mapping) or set(given) - {"use_reentrant"}:
        raise ConfigError(
            '{name} must be {{"use_reentrant": true}} or false, got {value!r}.',
            name=name,
            value=value,
        )
    return given.get("use_reentrant", "auto")
