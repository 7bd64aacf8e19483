"""Flags of other training scripts and what they mean here: tables read by `studio.training.arguments`.

Names that only differ in spelling from a field of `TrainingConfig` are aliases in that field's metadata.
"""

from collections.abc import Mapping
from typing import Any

from studio.errors import ConfigError

SWITCHES: dict[str, tuple[str, str]] = {
    "fp16": ("precision", "fp16"),
    "bf16": ("precision", "bf16"),
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

_RESUME = "a stopped run is continued with Resume on its page, or with python -m studio runs resume ID"
_HUB = "the finished model stays on this machine"
_ALWAYS = "this is always so"
_NEVER = "the studio decides it"

WITHOUT_EFFECT: dict[str, str] = {
    # published after training
    "push_to_hub": _HUB,
    "hub_model_id": _HUB,
    "hub_strategy": _HUB,
    "hub_token": _HUB,
    "hub_private_repo": _HUB,
    # not here yet
    "augment_config_path": "audio is not augmented yet",
    "use_compile": "models are not compiled yet",
    "torch_compile": "models are not compiled yet",
    "deepspeed": "runs use one process",
    "fsdp": "runs use one process",
    "fsdp_config": "runs use one process",
    "ddp_find_unused_parameters": "runs use one process",
    "local_rank": "runs use one process",
    # said elsewhere
    "resume_from_checkpoint": _RESUME,
    "wandb_project": "set the environment variable WANDB_PROJECT instead",
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
    "apply_spec_augment": "audio is not augmented yet",
    # decided here
    "dataloader_pin_memory": _NEVER,
    "dataloader_prefetch_factor": _NEVER,
    "dataloader_persistent_workers": _NEVER,
    "dataloader_drop_last": "no clip is dropped",
    "group_by_length": "every clip is padded to 30 seconds",
    "train_sampling_strategy": "every clip is padded to 30 seconds",
    "length_column_name": "every clip is padded to 30 seconds",
    "auto_find_batch_size": _NEVER,
    "eval_accumulation_steps": _NEVER,
    "gradient_checkpointing_kwargs": _NEVER,
    "fp16_full_eval": _NEVER,
    "bf16_full_eval": _NEVER,
    "tf32": _NEVER,
    "optim": "AdamW is used",
    "data_seed": "seed decides the order, too",
    "logging_strategy": "set logging_steps",
    "logging_first_step": "set logging_steps",
    "preprocessing_num_workers": "features are made while training; set dataloader_num_workers",
    "freeze_feature_encoder": "set method to frozen_encoder to train the decoder alone",
    "use_cpu": "a GPU is used where there is one",
    "no_cuda": "a GPU is used where there is one",
    "ddp_timeout": "runs use one process",
}
"""Known flag that changes nothing → why, for one printed line."""

TRANSLATED = ("warmup_ratio", "save_strategy")
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
