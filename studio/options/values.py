"""Values of a run's options from what people, files and other programs write."""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from studio.errors import ConfigError, in_short
from studio.files import is_unicode
from studio.options import dialects
from studio.options.choices import ALL_LINEAR, TRACKERS
from studio.options.training import FIELDS as _FIELDS

_TORCH_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
UNSET = {"none", "null"}
"""Words by which other programs leave an option at its default."""
_NOTHING = {"", *UNSET, "auto"}
_SPELLINGS = {
    ("precision", "no"): "fp32",
    ("optim", "adamw_8bit"): "adamw_bnb_8bit",
    **{("optim", paged): optim for paged, optim in dialects.UNPAGED.items()},
    ("metric_for_best_model", "eval_wer"): "wer",
    ("metric_for_best_model", "eval_cer"): "cer",
    **{("metric_for_best_model", loss): "auto" for loss in dialects.LOSSES},
    **{("base_dtype", name): dtype for dtype, name in _TORCH_NAMES.items()},
    **{("sharding", name): sharding for name, sharding in dialects.STRATEGIES.items()},
}
"""Field and value as others write it → as it is written here."""
_STEPS = ("eval_steps", "save_steps", "logging_steps")
"""Options that below 1 are a share of all steps, as the trainer has them."""
_TRUE = {"true", "yes", "on", "1", "t", "y"}
_FALSE = {"false", "no", "off", "0", "f", "n"}
BOOLEAN_WORDS = _TRUE | _FALSE
"""Words that are a switch's value."""


def is_unset(name: str, value: Any) -> bool:
    """Whether a value leaves an option, of whichever program, at its default: the word None.

    A number that somebody has emptied in a form is None itself, and a mistake.
    """
    f = _FIELDS.get(name)
    if f is None and value is None:
        return True
    if value is None or str(value).strip().lower() not in UNSET:
        return False
    if f is None or f.type in (bool, int, float):
        return True
    return bool(f.metadata["choices"]) and "none" not in f.metadata["choices"]


def convert(name: str, value: Any) -> Any:
    """A value of the option's type from text or from a plain value of JSON, YAML or a form.

    Raises:
        ConfigError: if it is none of that type.
    """
    kind = _FIELDS[name].type
    if name in _STEPS:
        return number if 0 < (number := _number(name, value)) < 1 else whole_number(name, value)
    if kind is bool:
        return boolean(name, value)
    if kind is float:
        return _number(name, value)
    if kind in (int | None, float | None) and (value is None or str(value).strip().lower() in _NOTHING):
        return None
    if kind == (float | None):
        return _number(name, value)
    if kind in (int, int | None):
        return whole_number(name, value)
    if name == "lr_scheduler_kwargs" and isinstance(value, Mapping):
        return json.dumps(value)
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(part, (Mapping, list)) or not is_unicode(str(part)):
            raise ConfigError("{name} must be a text, got {value}.", name=name, value=_beginning(value))
    if name == "target_modules":
        return _modules(value)
    if name == "report_to":
        return _trackers(_text(name, value))
    if name == "use_reentrant":
        return str(value).strip().lower() if str(value).strip() else "auto"
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)) and (len(value) < 2 or _FIELDS[name].metadata["is_list"]):
        value = ",".join(map(str, value))
    choices = _FIELDS[name].metadata["choices"]
    if isinstance(value, bool):  # YAML reads a plain `on`, `off` and `no` (a strategy, Norwegian) as these
        words = ("on",) if value else ("no", "off", "none")
        value = next((word for word in words if word in choices), value or "no")
    text = "" if value is None else str(value)
    text = _SPELLINGS.get((name, text), text)
    if name == "language" and text.strip().lower() in ("", "none", "null"):
        return "auto"
    if not _FIELDS[name].default and text.strip().lower() in ("none", "null"):
        return ""
    if text.lower() in ("", "none") and "none" in choices:
        return "none"
    return text


def of_kind(kind: Any, name: str, value: Any) -> Any:
    """A value of a plain type (bool, int, float, str, dict) from one of JSON.

    Raises:
        ConfigError: if it is none of that type.
    """
    if kind is bool:
        return boolean(name, value)
    if kind in (int, float):
        return (whole_number if kind is int else _number)(name, value)
    if kind is str and not (isinstance(value, str) and is_unicode(value)):
        raise ConfigError("{name} must be a text, got {value}.", name=name, value=_beginning(value))
    if kind is dict and not isinstance(value, Mapping):
        raise ConfigError(
            "{name} must hold options by name, got {value}.", name=name, value=_beginning(value)
        )
    return value


def check_numbers(record: Any) -> None:
    """Brings the numbers and switches of a dataclass to their kinds, wherever they come from.

    Raises:
        ConfigError: names the first that is none of its kind.
    """
    for field in fields(record):
        if field.type in (bool, int, float):
            value = of_kind(field.type, field.name, getattr(record, field.name))
            object.__setattr__(record, field.name, value)  # it may be frozen, and is being made


def _beginning(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} …"


def boolean(name: str, value: Any) -> bool:
    """True or False, however it is written.

    Raises:
        ConfigError: if it is neither.
    """
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in BOOLEAN_WORDS:
        return word in _TRUE
    raise ConfigError("{name} must be True or False, got {value!r}.", name=name, value=in_short(value))


def _number(name: str, value: Any) -> float:
    if value is None:  # a field that somebody has emptied
        raise ConfigError("{name} is empty: give a number.", name=name)
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            "{name} must be a number, got {value!r}.", name=name, value=in_short(value)
        ) from None


def whole_number(name: str, value: Any) -> int:
    """A whole number, of whatever kind it comes.

    Raises:
        ConfigError: if it is none.
    """
    number = _number(name, value)
    if isinstance(value, int):
        return value
    if not number.is_integer():
        raise ConfigError("{name} must be a whole number, got {value!r}.", name=name, value=in_short(value))
    return int(number)


def _trackers(text: str) -> str:
    """Packages to report to, separated by commas; `all` are those that are installed."""
    words = dict.fromkeys(filter(None, map(str.strip, text.split(","))))
    if "all" in words:
        words = dict.fromkeys(name for name in TRACKERS if find_spec(name))
    return ",".join(word for word in words if word != "none") or "none"


def _modules(value: Any) -> tuple[str, ...]:
    """`q_proj,v_proj`, a list, or all-linear."""
    parts = value if isinstance(value, list | tuple) else str(value or "").split(",")
    names = [str(part).strip() for part in parts if str(part).strip()]
    if [name.replace("_", "-") for name in names] == ["all-linear"]:
        return ALL_LINEAR
    return tuple(names)
