"""Flags of other training scripts and what they mean here: tables read by `studio.options.arguments`.

Names that only differ in spelling from a field of `TrainingConfig` are aliases in that field's metadata.
Those that do nothing here are in `trainer_flags` and `script_flags`, each with a sentence.
"""

from collections.abc import Mapping
from typing import Any

from studio.errors import ConfigError
from studio.files import parse_json, user_path
from studio.messages import Message
from studio.methods import METHODS
from studio.options.foreign import Foreign
from studio.options.script_flags import SCRIPTS
from studio.options.sources import has_splits, is_own_folder
from studio.options.trainer_flags import TRAINER

SWITCHES: dict[str, tuple[str, Any]] = {
    "fp16": ("precision", "fp16"),
    "bf16": ("precision", "bf16"),
    "pure_bf16": ("precision", "pure_bf16"),
    "use_8bit": ("quantization", "8bit"),
    "load_in_8bit": ("quantization", "8bit"),
    "use_4bit": ("quantization", "4bit"),
    "load_in_4bit": ("quantization", "4bit"),
    **{flag: ("method", key) for key, method in METHODS.items() for flag in method.switches},
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

LOSSES = ("loss", "eval_loss")
"""What the trainer may choose its best checkpoint by, and no run here does."""

UNUSED: dict[str, Foreign] = {**TRAINER, **SCRIPTS}
"""Known flag that changes nothing, or is refused → why."""

_CHECKPOINTING = ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs")
_COMPILING = {"torch_compile_backend": "inductor", "torch_compile_mode": "default"}
"""Flag that switches compiling on, too → the one value that is done here."""
_OF_THE_MODEL = ("config_name", "tokenizer_name", "feature_extractor_name")
_PARTS = ("dataset_config_name", "train_split_name", "eval_split_name")
_DATASET = ("dataset_name", *_PARTS)
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
) -> tuple[dict[str, Any], list[Message]]:
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
        notes.append(_no_effect("warmup_ratio", Message("warmup_steps is given, too")))
    for name, done in _COMPILING.items():
        if given.get(name):
            values["torch_compile"] = True
            if given[name] != done:
                notes.append(
                    Message(
                        "--{name} {value} is not done here: the model is compiled with {done}.",
                        name=name,
                        value=given[name],
                        done=done,
                    )
                )
    for name in _OF_THE_MODEL:
        if given.get(name) and given[name] != {**others, **own}.get("base_model"):
            raise ConfigError(
                "--{name} {value} is not done here, and without it the run would be another: {advice}.",
                name=name,
                value=given[name],
                advice=Message("a model's own configuration and tokenizer are used, those of base_model"),
            )
    values |= _dataset(given, own, others, notes)
    if given.get("do_eval") is False:
        values["eval_strategy"] = "no"
    values |= _saving(given.get("save_strategy"), notes)
    return values, notes


def taken_for(name: str, given: Any, taken: Any) -> list[Message]:
    """The remark on a value of an option that is read as another one."""
    if name == "optim" and str(given) in UNPAGED:
        reason = Message("its states stay on the GPU")
    elif name == "metric_for_best_model" and given in LOSSES:
        reason = Message("the best checkpoint is the one whose texts have the fewest errors")
    elif name == "report_to" and "all" in str(given):
        reason = Message("those are installed here")
    else:
        return []
    return [
        Message(
            "--{name} {value} is taken for {taken}: {reason}.",
            name=name,
            value=given,
            taken=taken,
            reason=reason,
        )
    ]


def unmade(foreign: Mapping[str, Any], values: Mapping[str, Any]) -> list[Message]:
    """Remarks on what the scripts that train all weights do, and a run with these values does not."""
    if not _TRAINS_ALL & foreign.keys() or "base_model" not in values:
        return []
    notes = []
    if not any(name.startswith(_SAYS_WHICH) for name in values):
        notes.append(Message("This makes a LoRA, a small adapter: add --method full to train all weights."))
    if foreign.get("dataset_name") and not {"normalizer", "do_lower_case"} & {*values, *foreign}:
        notes.append(Message("Texts are learned as they are written: --do_lower_case makes them lower case."))
    return notes


def _no_effect(name: str, reason: Message) -> Message:
    return Message("--{name} has no effect here: {reason}.", name=name, reason=reason)


def _unused(given: Mapping[str, Any]) -> list[Message]:
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
                advice=Message(flag.reason),
            )
        notes.append(_no_effect(name, Message(flag.reason)))
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
        elif field == "report_to":
            values[field] += f",{value}"
        else:
            raise _contrary(name, field, values[field])
    return values


def _dataset(
    given: Mapping[str, Any], own: Mapping[str, Any], others: Mapping[str, Any], notes: list[Message]
) -> dict[str, Any]:
    """`dataset_name` (else `train_data`) with its configuration and splits, as `owner/name:config:split`."""
    named = given.get("dataset_name")
    parts = {name: str(given[name]) for name in _PARTS if given.get(name)}
    source = str(named or {**others, **own}.get("train_data", ""))
    if not named and not parts:
        return {}
    if not source:
        raise ConfigError(
            "--{name} belongs to a dataset of the hub: give dataset_name, too, or train_data.",
            name=next(iter(parts)),
        )
    if named and "train_data" in own:
        raise _contrary("dataset_name", "train_data", own["train_data"])
    if not named and not has_splits(source):
        reason = Message("train_data is no single folder or dataset of the hub, and is read whole")
        notes += [_no_effect(name, reason) for name in parts]
        return {}
    return _divided(source, parts, own, notes, is_evaluated=bool(named and given.get("do_eval")))


def _divided(
    source: str, parts: Mapping[str, str], own: Mapping[str, Any], notes: list[Message], *, is_evaluated: bool
) -> dict[str, Any]:
    """What is trained on and what evaluates, of a folder or a dataset of the hub."""
    is_here = is_own_folder(source)
    name, config, split, *_ = (*([source] if is_here else source.split(":")), "", "")
    for flag, has in (("dataset_config_name", config), ("train_split_name", split)):
        if has and parts.get(flag, has) != has:
            raise _contrary(flag, "train_data", source)
    config = config or parts.get("dataset_config_name", "")
    if is_here and config:
        name, config = _folder_in(name, config), ""
    split = split or parts.get("train_split_name", "")
    data = {"train_data": _part(name, config, "" if split == "train" else split)}
    test_split = parts.get("eval_split_name", "")
    if "test_data" in own:
        reason = Message("test_data is given, too")
        notes += [_no_effect("eval_split_name", reason)] if test_split else []
    elif test_split or is_evaluated:
        test_split = test_split or "test"
        # A folder without splits would be read whole for either: there, the name has to be found.
        data["test_data"] = _part(name, config, "" if test_split == "test" and not is_here else test_split)
    return data


def _folder_in(folder: str, part: str) -> str:
    """Configurations of a folder are the folders in it; `default` is itself.

    Raises:
        ConfigError: if there is no such folder.
    """
    path = user_path(folder) / ("" if part == "default" else part)
    if not is_own_folder(str(path)):
        raise ConfigError(
            "There is no folder {part!r} in {folder}, which dataset_config_name asks for: leave that out, or "
            "name the folder that has the data.",
            folder=folder,
            part=part,
        )
    return str(path)


def _part(name: str, config: str, split: str) -> str:
    """`owner/name:config:split`, without what is empty."""
    return f"{name}:{config}:{split}" if split else f"{name}:{config}" if config else name


def _contrary(flag: str, field: str, other: Any) -> ConfigError:
    return ConfigError(
        "--{name} cannot be combined with {field} {other}: choose one of them.",
        name=flag,
        field=field,
        other=other,
    )


def _saving(strategy: Any, notes: list[Message]) -> dict[str, Any]:
    if strategy in ("epoch", "best"):
        return {"save_steps": 0}
    if strategy in ("no", False):
        reason = Message("checkpoints are what a run is resumed from")
        notes.append(_no_effect("save_strategy no", reason))
    elif strategy not in (None, "steps"):
        raise ConfigError(
            "save_strategy must be one of epoch, steps, best, no, got {value!r}.", value=strategy
        )
    return {}


def _use_reentrant(name: str, value: Any) -> Any:
    """The one thing that the options of checkpointing, a mapping or its JSON, can say here."""
    try:
        given = parse_json(value) if isinstance(value, str) else value
    except ValueError:
        given = None
    if not isinstance(given, Mapping) or set(given) - {"use_reentrant"}:
        raise ConfigError(
            '{name} must be {{"use_reentrant": true}} or false, got {value!r}.',
            name=name,
            value=value,
        )
    return given.get("use_reentrant", "auto")
