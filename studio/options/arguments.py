"""`TrainingConfig` from flags, dictionaries and files, and back.

Flags are the fields' names and aliases (`--snake_case` or `--kebab-case`; booleans as `--flag`,
`--flag=True`, `--flag False` or `--no_flag`) and those of other scripts (`studio.options.dialects`).
"""

import difflib
import json
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from studio.errors import ConfigError, in_brief
from studio.files import encoding_of, parse_yaml
from studio.messages import Message
from studio.methods import METHODS
from studio.options import dialects
from studio.options.choices import ALL_LINEAR
from studio.options.training import FIELDS as _FIELDS
from studio.options.training import TrainingConfig
from studio.options.values import BOOLEAN_WORDS, UNSET, boolean, convert, is_unset

SCHEMA_VERSION = 6
_MEANT_BEFORE = (
    ("replay_share", 2, 0.0),
    ("adapter_strength", 3, 1.0),
    ("replay_augmentation", 5, False),
)
"""Option, the version of the settings in which it came, and what runs of an earlier one are without it."""
_STRENGTH_BEFORE_IT_WAS_CHOSEN = 0.85
"""Of a new adapter, in version 3."""
_MIXED = 6
"""The version from which a model without an adapter may be mixed with its base."""
_WITHOUT_ADAPTER = frozenset(key for key, method in METHODS.items() if not method.is_adapter)

_MOST_CHARACTERS = 50_000
"""Of a file of settings; the longest that the studio writes has 6,000."""
_SETTINGS = (".json", ".yaml", ".yml")

_ALIASES = {alias: f.name for f in _FIELDS.values() for alias in f.metadata["aliases"]}


def training_flags() -> tuple[str, ...]:
    """Every name accepted after `--`, in snake case: fields, aliases, other dialects, `config`."""
    return (*_FIELDS, *_ALIASES, *sorted(dialects.known_names()), "config")


def parse_training_arguments(argv: Sequence[str]) -> tuple[TrainingConfig, list[Message]]:
    """A configuration from command line arguments, and the sentences to say about them.

    `--config FILE` (YAML or JSON) is the base that the other flags override. A file as the first word
    is that, too, as for `HfArgumentParser`.

    Raises:
        ConfigError: an unknown flag (with the nearest spelling), a value out of range, a file that
            cannot be read.
    """
    values, notes = _given_values(argv)
    return TrainingConfig(**values), notes


def options_given(argv: Sequence[str]) -> set[str]:
    """The options that command line arguments, or the file they name, set.

    Raises:
        ConfigError: as `parse_training_arguments`.
    """
    return set(_given_values(argv)[0])


def _given_values(argv: Sequence[str]) -> tuple[dict[str, Any], list[Message]]:
    given = _tokens(argv)
    if "config" not in given:
        return _config_values(given)
    values, notes = _config_values(_read_mapping(Path(given.pop("config"))))
    from_flags, flag_notes = _config_values(given, values)
    return {**values, **from_flags}, notes + flag_notes


def config_from_dict(values: Mapping[str, Any]) -> TrainingConfig:
    """A configuration from plain values (JSON, YAML, a form); names as on the command line.

    Raises:
        ConfigError: an unknown name or a value that cannot be used.
    """
    return config_and_notes(values)[0]


def config_and_notes(values: Mapping[str, Any]) -> tuple[TrainingConfig, list[Message]]:
    """The same, and the sentences to say about what is read otherwise than it was written.

    Raises:
        ConfigError: as `config_from_dict`.
    """
    meant, notes = _config_values(values)
    return TrainingConfig(**meant), notes


def config_to_dict(config: TrainingConfig) -> dict[str, Any]:
    """Plain values for JSON, with the schema's version."""
    values = {name: getattr(config, name) for name in _FIELDS}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"schema_version": SCHEMA_VERSION, **plain}


def read_config(path: Path) -> TrainingConfig:
    """The configuration in a YAML or JSON file.

    Raises:
        ConfigError: if it cannot be read or used.
    """
    return config_from_dict(_read_mapping(path))


def read_known(path: Path) -> TrainingConfig:
    """What is known here of a configuration that a newer studio wrote; of all others, the defaults.

    Raises:
        ConfigError: if it cannot be read or used.
    """
    given = _read_mapping(path)
    known = {name: value for name, value in given.items() if name in _FIELDS}
    return config_from_dict(known if _is_newer(given.get("schema_version")) else {})


def _is_newer(version: Any) -> bool:
    return isinstance(version, int) and version > SCHEMA_VERSION


def write_yaml(config: TrainingConfig) -> str:
    """The whole configuration as YAML, grouped; `read_config` reads it back."""
    import yaml

    lines: list[str] = []
    group = ""
    for name, f in _FIELDS.items():
        value = getattr(config, name)
        if f.metadata["group"] != group:
            group = f.metadata["group"]
            lines.append(f"\n# {group}" if lines else f"# {group}")
        text = ",".join(value) if isinstance(value, tuple) else value
        lines.append(yaml.safe_dump({name: text}, allow_unicode=True, width=1000).rstrip("\n"))
    return "\n".join(lines) + "\n"


def command_line(config: TrainingConfig) -> str:
    """The command that makes the same run: only what differs from the defaults, quoted for a shell."""
    words = ["python", "-m", "studio", "train"]
    names = {name for name, f in _FIELDS.items() if getattr(config, name) != f.default}
    if "eval_steps" in names:
        names.add("eval_strategy")
    names |= {"base_model", "train_data"}
    for name in (name for name in _FIELDS if name in names):
        value = getattr(config, name)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        if value is True:
            words.append(f"--{name}")
        elif text.startswith("-"):
            words.append(f"--{name}={text}")
        else:
            words += [f"--{name}", text]
    return shlex.join(words)


def help_text() -> str:
    """All options of the schema by group, for `--help`."""
    lines: list[str] = []
    group = ""
    for name, f in _FIELDS.items():
        if f.metadata["group"] != group:
            group = f.metadata["group"]
            lines.append(f"\n{group}:")
        spellings = ", ".join(f"--{each}" for each in (name, *f.metadata["aliases"]))
        default = "all-linear" if f.default == ALL_LINEAR else f.default
        choices = f" One of {', '.join(f.metadata['choices'])}." if f.metadata["choices"] else ""
        shown = "" if default in (None, "") else f" Default: {default}."
        lines.append(f"  {spellings}\n        {f.metadata['help']}{choices}{shown}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _tokens(argv: Sequence[str]) -> dict[str, Any]:
    """Flags and their values as they were written, a bare switch as True."""
    given: dict[str, Any] = {}
    rest = list(argv)
    if rest and rest[0].lower().endswith(_SETTINGS) and not rest[0].startswith("-"):
        given["config"] = rest.pop(0)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            raise ConfigError("{word!r} is not an option: options start with two dashes.", word=word)
        spelling, equals, value = word[2:].partition("=")
        name = spelling.replace("-", "_")
        if name.startswith("no_") and name not in _known() and _is_switch(name[3:]) and not equals:
            given[_canonical(name[3:], spelling)] = False
            continue
        name = _canonical(name, spelling)
        if equals:
            given[name] = value
        elif _is_switch(name):
            is_value = rest and rest[0].lower() in BOOLEAN_WORDS | UNSET
            given[name] = rest.pop(0) if is_value else True
        else:
            given[name] = _values_of(name, spelling, rest)
    return given


_LISTS = ("target_modules", "report_to")
"""Options that take all words that follow."""


def _values_of(name: str, spelling: str, rest: list[str]) -> Any:
    """Takes the value that follows a flag (all that follow, for a list); True for a foreign one alone."""
    taken: list[str] = []
    is_list = name in _LISTS or name in dialects.UNUSED
    while rest and not rest[0].startswith("--") and (not taken or is_list):
        taken.append(rest.pop(0))
    if not taken and name not in dialects.UNUSED:
        raise ConfigError("--{name} needs a value.", name=spelling)
    if not taken:
        return True
    text = ",".join(taken)
    if name in _LISTS and text.startswith("[") and text.endswith("]"):  # as Python writes a list
        return ",".join(word.strip(" '\"") for word in text[1:-1].split(",") if word.strip())
    return text


@cache
def _known() -> frozenset[str]:
    return frozenset(training_flags())


def _canonical(name: str, spelling: str) -> str:
    """The field's name, or the foreign flag's own.

    Raises:
        ConfigError: if nobody knows it; with the nearest spelling.
    """
    if name in _known():
        return _ALIASES.get(name, name)
    near = difflib.get_close_matches(name, sorted(_known()), n=1, cutoff=0.5)
    if near:
        raise ConfigError(
            "There is no option --{name}; the nearest is --{near}.", name=spelling, near=near[0]
        )
    raise ConfigError(
        "There is no option --{name}; python -m studio train --help lists all of them.", name=spelling
    )


def _is_switch(name: str) -> bool:
    if dialects.is_switch(name):
        return True
    f = _FIELDS.get(_ALIASES.get(name, name))
    return f is not None and f.type is bool


def _config_values(
    given: Mapping[str, Any], others: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, Any], list[Message]]:
    """Checked field values from names of any dialect, and notes; a field's own name wins over a switch.

    `others` are the values of fields that hold where none is given here.
    """
    version = given.get("schema_version")
    if not isinstance(version, int | None):
        raise ConfigError(
            "schema_version is {value!r}: it is a whole number, which the studio writes; or leave it out.",
            value=version,
        )
    values: dict[str, Any] = {
        name: before for name, came, before in _MEANT_BEFORE if version is not None and version < came
    }
    if version is not None and version < _MIXED and given.get("method") in _WITHOUT_ADAPTER:
        values["adapter_strength"] = 1.0
    elif version == 3 and not (given.get("adapter") or given.get("distill")):
        values["adapter_strength"] = _STRENGTH_BEFORE_IT_WAS_CHOSEN
    foreign: dict[str, Any] = {}
    notes: list[Message] = []
    for spelling, value in given.items():
        if spelling == "schema_version":
            continue
        if _is_newer(version) and spelling not in _known():
            raise ConfigError(
                "A newer studio wrote these settings, and {name} is not known here: update the studio.",
                name=spelling,
            )
        name = _canonical(str(spelling).replace("-", "_"), str(spelling))
        if name == "method" and value == "qlora":
            value, foreign["load_in_4bit"] = "lora", True
        if name in _FIELDS:
            if not is_unset(name, value):
                values[name] = convert(name, value)
            notes += dialects.taken_for(name, value, values.get(name))
        elif is_unset(name, value):
            foreign[name] = None
        else:
            foreign[name] = boolean(name, value) if dialects.is_switch(name) else value
    translated, more = dialects.translate(foreign, values, others)
    for name in ("warmup_steps", "train_data") & translated.keys():
        values.pop(name, None)
    meant = {name: convert(name, value) for name, value in translated.items()}
    for name in meant.keys() & values.keys():
        if meant[name] not in (values[name], dialects.SWITCHED_OFF.get(name)):
            notes.append(
                Message(
                    "{name} is {value}, as given by its own name, not {other}.",
                    name=name,
                    value=values[name],
                    other=meant[name],
                )
            )
    merged = {**meant, **values}
    said = {name: value for name, value in meant.items() if value != dialects.SWITCHED_OFF.get(name)}
    notes += more + dialects.unmade(foreign, {**others, **said, **values})
    if "eval_steps" in merged and "eval_strategy" not in merged:
        merged["eval_strategy"] = "steps"
    return merged, notes


def _read_mapping(path: Path) -> Mapping[str, Any]:
    """The mapping in a JSON or YAML file; what is null there is left at its default."""
    text = _text_of(path)
    try:
        values = json.loads(text) if path.suffix.lower() == ".json" else parse_yaml(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            "The configuration {path} is not valid YAML or JSON: {reason}",
            path=path,
            reason=in_brief(error),
        ) from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError("The configuration {path} must map option names to values.", path=path)
    return {name: value for name, value in values.items() if value is not None}


def _text_of(path: Path) -> str:
    """The text of a file of settings; a pipe, which would be waited for, or a long file is refused."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(0, Message("not a file"))
        with path.open(encoding=encoding_of(path)) as file:
            text = file.read(_MOST_CHARACTERS + 1)
        if len(text) > _MOST_CHARACTERS:
            raise OSError(0, Message("more than {most} characters", most=_MOST_CHARACTERS))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The configuration {path} cannot be read ({reason}): give a YAML or JSON file.",
            path=path,
            reason=getattr(error, "strerror", None) or Message("not UTF-8 text"),
        ) from error
    return text
