"""What the TAB key offers: commands, options and their choices, languages, models and runs, else files.

A shell asks through argcomplete. To say what options there are, all commands are imported, which takes a
second: their table is kept in the studio's cache until a file of the program changes.
"""

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import argcomplete

from studio.cli.main import COMMANDS, command
from studio.cli.parsing import Argument
from studio.errors import StorageError
from studio.files import read_json, write_json
from studio.options.training import FIELDS
from studio.registry.catalog import RELEASED
from studio.registry.languages import LANGUAGES
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_MODEL, Settings

_PACKAGE = Path(__file__).resolve().parent.parent
MODELS = {"model", "models", "names", "base_model", "lora_model", "adapter"}
"""Options and words that name models, whatever command they are of."""
_RUNS = {"run", "run_id"}
_AFTER_ACTION = {"names", "run_id"}

Table = dict[str, list[dict[str, Any]]]
"""By command, the fields of its `Argument`s."""


def answer(settings: Settings) -> None:
    """Writes what can follow to the shell that has asked, and ends this process."""
    parser = argparse.ArgumentParser(add_help=False)
    commands = parser.add_subparsers()
    for name, rows in _table(settings).items():
        made = commands.add_parser(name, help=COMMANDS[name], add_help=False)
        for row in rows:
            how: dict[str, Any] = {"help": row["text"].replace("%", "%%")}
            if row["is_switch"]:
                how |= {"action": "store_true"}
            else:
                how |= {"nargs": row["nargs"]}
            action = made.add_argument(*(row["spellings"] or [row["name"]]), **how)
            completer = _completer(row, settings)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _completer(row: dict[str, Any], settings: Settings) -> Callable[..., Any] | None:
    """Who knows the values of an option or a word; None where any text is taken, such as a file's path."""
    if row["name"] in MODELS | _RUNS:
        return partial(_made_or_known, settings, row["name"])
    known = ["auto", *LANGUAGES, *LANGUAGES.values()] if row["name"] == "language" else row["known"]
    return (lambda **_: known) if known else None


def _made_or_known(
    settings: Settings, kind: str, prefix: str, parsed_args: argparse.Namespace, **_: object
) -> dict[str, str]:
    """Models or runs: name → title; of several, separated by commas, the last is completed."""
    if kind in _AFTER_ACTION and not getattr(parsed_args, "action", None):
        return {}
    if kind in _RUNS:
        return {run.name: "" for run in settings.runs.glob("[!.]*")}
    demo = DEMO_MODEL if DEMO_MODEL.is_dir() else None
    registry = ModelRegistry(settings.models, demo=demo, hf_cache=settings.hf_cache)
    named = {name: released.title for released in RELEASED for name in released.names}
    named |= {spec.id: spec.title for spec in registry.all()}
    before = "".join(prefix.rpartition(",")[:2])
    return {before + name: title for name, title in named.items()}


def _table(settings: Settings) -> Table:
    """What each command takes: from the cache, or from the commands if a file of the program has changed."""
    files = [path.stat() for path in _PACKAGE.rglob("*.py")]
    made_of = [str(_PACKAGE), len(files), max(file.st_mtime_ns for file in files)]
    kept = settings.cache / "completion.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # none yet, or not one of ours
        told = read_json(kept)
        if told["made_of"] == made_of:
            return dict(told["commands"])
    table = _told_by_commands()
    with suppress(StorageError):  # where nothing can be kept, each answer takes its second
        write_json(kept, {"made_of": made_of, "commands": table})
    return table


def _told_by_commands() -> Table:
    of_a_run = [
        Argument(
            tuple(f"--{name}" for name in (field.name, *field.metadata["aliases"])),
            field.name,
            field.metadata["help"],
            tuple(field.metadata["choices"]),
            is_switch=field.type is bool,
        )
        for field in FIELDS.values()
    ]
    table: Table = {}
    for name in COMMANDS:
        made = command(name).parser()
        rows = made.arguments()
        for other in (*(of_a_run if made.has_run_options else ()), *made.others):
            taken = {spelling for row in rows for spelling in row.spellings}
            if not taken & set(other.spellings):
                rows.append(other)
        table[name] = [asdict(row) for row in rows]
    return table
