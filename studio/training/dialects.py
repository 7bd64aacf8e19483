"""Flags of other training scripts and what they mean here: tables read by `studio.training.arguments`.

Names that only differ in spelling from a field of `TrainingConfig` are aliases in that field's metadata.
"""

import json
from collections.abc import Mapping
from typing import Any

from studio.errors import ConfigError

SWITCHES: dict[str, tuple[str, str]] = {
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
}
"""Boolean flag → the field and the value that it switches on."""

SWITCHED_OFF = {"precision": "fp32", "quantization": "none", "method": "lora", "report_to": "none"}
"""What the field gets if its switches are all given as False."""

STRATEGIES = {
    **dict.fromkeys(("MULTI_GPU", "MULTI_CPU", "NO", "DDP"), "ddp"),
    "FSDP": "fsdp",
    "DEEPSPEED": "zero2",
}
"""What accelerate and the trainer call a strategy → the value of `sharding`."""

_RESUME = "a stopped run is continued with Resume on its page, or with python -m studio runs resume ID"
_HUB = "the finished model stays on this machine"
_ALWAYS = "this is always so"
_NEVER = "the studio decides it"
_LENGTHS = "clips are padded to 30 seconds, or sorted by length with short_audio"

WITHOUT_EFFECT: dict[str, str] = {
    # published after training
    "push_to_hub": _HUB,
    "hub_model_id": _HUB,
    "hub_strategy": _HUB,
    "hub_token": _HUB,
    "hub_private_repo": _HUB,
    # not here yet
    "deepspeed": "set sharding",
    "fsdp": "set sharding",
    "fsdp_config": "set sharding",
    "ddp_find_unused_parameters": _NEVER,
    "local_rank": "set num_processes; the launcher numbers them",
    # said elsewhere
    "resume_from_checkpoint": _RESUME,
    "logging_dir": "set the environment variable TENSORBOARD_LOGGING_DIR instead",
    # always so
    "do_train": _ALWAYS,
    "do_eval": "set eval_strategy",
    "predict_with_generate": "evaluation always generates text",
    "load_best_model_at_end": "the best checkpoint is always the one that is kept",
    "greater_is_better": "error rates are always to be small",
    "remove_unused_columns": _NEVER,
    "label_names": _NEVER,
    "overwrite_output_dir": "a folder that the studio did not write is never replaced",
    "disable_tqdm": "progress goes into the run's events",
    "save_safetensors": _ALWAYS,
    "trust_remote_code": "code from a model repository is never run",
    # decided here
    "dataloader_pin_memory": _NEVER,
    "dataloader_prefetch_factor": _NEVER,
    "dataloader_persistent_workers": _NEVER,
    "dataloader_drop_last": "no clip is dropped",
    "group_by_length": _LENGTHS,
    "train_sampling_strategy": _LENGTHS,
    "length_column_name": _LENGTHS,
    "auto_find_batch_size": _NEVER,
    "eval_accumulation_steps": _NEVER,
    "fp16_full_eval": _NEVER,
    "bf16_full_eval": _NEVER,
    "tf32": _NEVER,
    "data_seed": "seed decides the order, too",
    "logging_strategy": "set logging_steps",
    "logging_first_step": "set logging_steps",
    "preprocessing_num_workers": "features are made while training; set dataloader_num_workers",
    "freeze_feature_encoder": "set method to frozen_encoder to train the decoder alone",
    "use_cpu": "a GPU is used where there is one",
    "no_cuda": "a GPU is used where there is one",
}
"""Known flag that changes nothing → why, for one printed line."""

TRANSLATED = ("warmup_ratio", "save_strategy", "gradient_checkpointing_kwargs")
"""Flags whose value has to be rewritten; see `translate`."""

BOOLEAN_WITHOUT_EFFECT = frozenset(
    name
    for name in WITHOUT_EFFECT
    if name.startswith(("do_", "use_", "push_", "predict_", "load_", "disable_", "no_", "overwrite_"))
)
"""Of those, the ones that are switches: a word after them that is not a truth value is a mistake."""


def known_names() -> set[str]:
    """Every flag of these tables."""
    return {*SWITCHES, *WITHOUT_EFFECT, *TRANSLATED}


def translate(foreign: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values of `TrainingConfig` fields for foreign flags, and the sentences about those without effect.

    `foreign` maps flag → value; switches already have a bool.

    Raises:
        ConfigError: if two switches contradict each other.
    """
    values: dict[str, Any] = {}
    notes = [
        f"--{name} has no effect here: {reason}."
        for name, reason in WITHOUT_EFFECT.items()
        if name in foreign and foreign[name] not in (False, None, "")
    ]
    for name, (field, value) in SWITCHES.items():
        if name not in foreign:
            continue
        if not foreign[name]:
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
    if foreign.get("gradient_checkpointing_kwargs"):
        values["use_reentrant"] = _use_reentrant(foreign["gradient_checkpointing_kwargs"])
    if "warmup_ratio" in foreign:
        values["warmup_steps"] = foreign["warmup_ratio"]
    strategy = foreign.get("save_strategy")
    if strategy in ("epoch", "best"):
        values["save_steps"] = 0
    elif strategy in ("no", False):
        notes.append("--save_strategy no has no effect here: checkpoints are what a run is resumed from.")
    elif strategy not in (None, "steps"):
        raise ConfigError(
            "save_strategy must be one of epoch, steps, best, no, got {value!r}.", value=strategy
        )
    return values, notes


def _use_reentrant(value: Any) -> Any:
    """The one thing that `gradient_checkpointing_kwargs`, a mapping or its JSON, can say here."""
    try:
        given = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, Mapping) or set(given) - {"use_reentrant"}:
        raise ConfigError(
            '{name} must be {{"use_reentrant": true}} or false, got {value!r}.',
            name="gradient_checkpointing_kwargs",
            value=value,
        )
    return given.get("use_reentrant", "auto")
