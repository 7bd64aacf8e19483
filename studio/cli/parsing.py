"""Options as people write them: `--snake_case` or `--kebab-case`, booleans as `--flag`, `--flag=True` or
`--flag True`, and a slip answered with the nearest spelling."""

import argparse
import difflib
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import Field, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from studio.cli.output import say
from studio.errors import ConfigError
from studio.options.arguments import help_text, parse_training_arguments
from studio.options.foreign import Foreign
from studio.options.option import explanation
from studio.options.training import TrainingConfig
from studio.options.values import BOOLEAN_WORDS, boolean

PROGRAM = "python -m studio"


@dataclass(frozen=True)
class Argument:
    """An option or a word of a command, as completion offers it."""

    spellings: tuple[str, ...]
    """As `--snake_case`; none: a word in its place."""
    name: str
    text: str
    known: tuple[str, ...]
    """Values that are offered; others may be taken, too."""
    is_switch: bool = False
    nargs: str | int | None = None
    """As argparse has it."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose mistakes are `ConfigError`s: the command line ends in one sentence."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}".strip(),
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._flags: set[str] = set()
        self._foreign: dict[str, Foreign] = {}
        self._known: dict[str, tuple[str, ...]] = {}
        self.has_run_options = False
        """Whether it hands on the options of `TrainingConfig`."""
        self.others: list[Argument] = []
        """What another parser reads of the same words."""

    def action(self, actions: Collection[str]) -> None:
        """Adds the word that says what is done: `list` unless given."""
        self._known["action"] = tuple(actions)
        self.add_argument("action", nargs="?", default="list", help=f"{', '.join(actions)} (default: list)")

    def add_run_options(self) -> None:
        """Says in its help that it hands on the options of a run, which `run_options` reads."""
        self.has_run_options = True
        self.epilog = "Options of the run:\n\n" + help_text()

    def option(
        self,
        name: str,
        text: str,
        *,
        aliases: Sequence[str] = (),
        kind: Callable[[str], Any] = str,
        default: Any = None,
        choices: Collection[str] = (),
        known: Collection[str] = (),
        metavar: str | None = None,
    ) -> None:
        """Adds `--name VALUE`; `name` and `aliases` are in snake_case, or one letter; `text` may tell the
        default itself.

        `choices` are all that is taken; `known` is what completion offers where more is taken.
        """
        self._known[name] = tuple(choices or known)
        if default not in (None, "", inf) and "default" not in text:
            text += f" Default: {default}."
        self.add_argument(
            *(f"{'--' if spelling[1:] else '-'}{spelling}" for spelling in (name, *aliases)),
            dest=name,
            type=kind,
            default=default,
            choices=tuple(choices) or None,
            metavar=None if choices else metavar or "VALUE",
            help=text,
        )

    def flag(
        self, name: str, text: str, *, aliases: Sequence[str] = (), default: bool | None = False
    ) -> None:
        """Adds a boolean, off unless `default`; None: it matters whether it is given."""
        spellings = [f"--{spelling}" for spelling in (name, *aliases)]
        self._flags.update(spellings)
        self.add_argument(
            *spellings,
            dest=name,
            type=partial(boolean, name),
            default=default,
            metavar="[True|False]",
            help=f"{text} Default: True." if default else text,
        )

    def of_schema(self, f: Field[Any], usual: Any, known: Collection[str] = ()) -> None:
        """Adds an option of a schema (`studio.options.option`); `usual` is its value as it is written."""
        name, text, aliases = f.name, explanation(f), f.metadata["aliases"]
        if f.type is bool:
            self.flag(name, text, aliases=aliases, default=usual)
        else:
            choices, kind = f.metadata["choices"], type(usual)
            self.option(name, text, aliases=aliases, kind=kind, default=usual, choices=choices, known=known)

    def foreign(self, table: Mapping[str, Foreign]) -> None:
        """Takes flags of other scripts that do nothing here; `read` says so."""
        self._foreign.update(table)
        for name, flag in table.items():
            if flag.is_switch:
                self.flag(name, argparse.SUPPRESS, default=None)
            else:
                self.add_argument(f"--{name}", nargs="?", const="True", help=argparse.SUPPRESS)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values; anything unknown is refused.

        Raises:
            ConfigError: for an unknown option, a missing value or one that cannot be used.
        """
        values, rest = self.parse_known_intermixed_args(self._plain(arguments))
        if rest:
            raise unknown_option(rest[0], self.spellings())
        for name, flag in self._foreign.items():
            if not flag.is_usual(given := getattr(values, name)):
                say(f"--{name} {given} has no effect here: {flag.reason}.")
        return values

    def named(self, arguments: Sequence[str]) -> set[str]:
        """The options that are given, whatever their value; `arguments` are those that `read` takes."""
        unsaid, names = object(), {action.dest for action in self._actions if action.option_strings}
        nothing = argparse.Namespace(**dict.fromkeys(names, unsaid))
        values, _ = self.parse_known_args(self._plain(arguments), nothing)
        return {name for name in names if getattr(values, name) is not unsaid}

    def read_known(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The values, and what this parser does not know, in its order; for parsers without positionals."""
        return self.parse_known_args(self._plain(arguments))

    def arguments(self) -> list[Argument]:
        """What completion offers: all but its help, and flags of other scripts that do nothing here."""
        return [
            Argument(
                tuple(action.option_strings),
                action.dest,
                action.help or "",
                self._known.get(action.dest, ()),
                is_switch=bool(self._flags.intersection(action.option_strings)),
                nargs=action.nargs,
            )
            for action in self._actions
            if action.help != argparse.SUPPRESS and action.dest != "help"
        ]

    def spellings(self) -> list[str]:
        """Every option, as `--snake_case`."""
        return [spelling for spelling in self._option_string_actions if spelling.startswith("--")]

    def error(self, message: str) -> NoReturn:
        """argparse's own complaints, as our errors."""
        raise ConfigError("{message}: see {program} --help.", message=message, program=self.prog)

    def _plain(self, arguments: Sequence[str]) -> list[str]:
        """The same arguments in snake_case, each boolean with its value attached."""
        plain: list[str] = []
        for argument in arguments:
            is_value = bool(plain) and plain[-1] in self._flags
            if is_value and _is_truth(argument):
                plain[-1] += f"={argument}"
            else:
                plain.append(snake_case(argument))
        return [f"{argument}=True" if argument in self._flags else argument for argument in plain]


def snake_case(argument: str) -> str:
    """`--audio-path=my-file.wav` → `--audio_path=my-file.wav`; anything but an option stays as it is."""
    if not argument.startswith("--") or argument == "--":
        return argument
    name, equals, value = argument[2:].partition("=")
    return "--" + name.replace("-", "_") + equals + value


def unknown_option(argument: str, known: Sequence[str]) -> ConfigError:
    """The error for an option (or a stray word) that means nothing here, with the nearest that does."""
    name = argument.partition("=")[0]
    nearest = difflib.get_close_matches(name, known, n=1)
    if nearest:
        return ConfigError("Unknown option {name}: did you mean {nearest}?", name=name, nearest=nearest[0])
    return ConfigError("Unknown option {name}: --help lists what there is.", name=name)


def options_among(names: Sequence[str], named: Set[str]) -> str:
    """Which of these options are `named`, as they are written; empty if none is."""
    return ", ".join(f"--{name}" for name in names if name in named)


def seconds(text: str) -> float:
    """A length of time; `nan` is none."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 on is needed, got {text!r}")
    return value


def run_options(arguments: Sequence[str]) -> TrainingConfig:
    """The options of a run, in any of their spellings; what is read otherwise than it was written is said.

    Raises:
        ConfigError: names the option, what came, and what is accepted.
    """
    config, notes = parse_training_arguments(arguments)
    for note in notes:
        say(str(note))
    return config


def _is_truth(word: str) -> bool:
    """Whether a word behind a switch is its value; all but true and false may also be a recording."""
    return word.lower() in BOOLEAN_WORDS and (word.lower() in ("true", "false") or not Path(word).exists())
