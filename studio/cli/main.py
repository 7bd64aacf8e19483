"""`python -m studio COMMAND`: finds the command, and turns what goes wrong into a sentence and an exit code.

Exit codes: 0 done · 1 a run failed, or a check found something · 2 something given cannot be used ·
130 interrupted.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Protocol, cast

from studio import __version__
from studio.cli.output import say, show, speak_utf8
from studio.cli.parsing import PROGRAM, Parser
from studio.errors import ConfigError, StudioError
from studio.settings import Settings

COMMANDS = {
    "app": "Open the page.",
    "models": "List, show, rename and delete models.",
    "train": "Fine-tune a model.",
    "runs": "List, follow, stop and resume training runs.",
    "transcribe": "Turn recordings into text and captions.",
    "serve": "Answer programs as OpenAI's endpoint for speech does, without the page.",
    "export": "Make a model for faster-whisper or whisper.cpp, or merge an adapter into its base.",
    "publish": "Put a model onto the Hugging Face Hub, with its card.",
    "evaluate": "Compare models on a test set.",
    "estimate": "Estimate the memory of a training run or a transcription.",
    "fit": "Find the training run that fits on a GPU.",
    "probe": "Measure two steps of a run on this machine.",
    "explain-oom": "Explain an out-of-memory error, and find a run that fits.",
    "doctor": "Check this machine: what works, and what to do about the rest.",
    "record": "List, make and remove lists of sentences to read aloud.",
    "add-data": "Take a zip, or recordings and their list, to train with.",
    "check-data": "Find what is wrong with a data set.",
    "demo": "A tour in five minutes: estimate, train, compare, transcribe.",
}
COMPLETION = 'eval "$(activate-global-python-argcomplete --dest=-)"'
"""What switches completion on, in bash and zsh, for `python -m studio` and `whisper-studio`."""


class Command(Protocol):
    """What each module of this package but the shared ones offers."""

    def parser(self) -> Parser:
        """Its options."""
        ...

    def run(self, arguments: Sequence[str], settings: Settings) -> int:
        """Does it; returns the exit code."""
        ...


def command(name: str) -> Command:
    """The module of a command; loaded only now, so that `--help` is quick."""
    return cast(Command, importlib.import_module(f"studio.cli.{name.replace('-', '_')}"))


def main(arguments: Sequence[str], read_settings: Callable[[], Settings] = Settings.from_env) -> int:
    """Runs one command and returns the exit code; its settings are read when it is known which it is."""
    speak_utf8()
    try:
        code = _dispatch(list(arguments), read_settings)
        sys.stdout.flush()
        return code
    except StudioError as error:
        say(f"Error: {error}")
        return 2
    except KeyboardInterrupt:
        say("Interrupted.")
        return 130
    except BrokenPipeError:
        # The reader (such as `head`) has left: nothing more to say, and no complaint at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str], read_settings: Callable[[], Settings]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        show(_overview())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        show(f"whisper-studio {__version__}")
        return 0
    name = arguments[0].replace("_", "-")
    if name not in COMMANDS:
        raise _unknown_command(arguments[0])
    chosen = command(name)
    if any(argument in ("-h", "--help") for argument in arguments[1:]):
        show(chosen.parser().format_help())
        return 0
    return chosen.run(arguments[1:], read_settings())


def _unknown_command(name: str) -> ConfigError:
    nearest = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    if nearest:
        return ConfigError("Unknown command {name}: did you mean {nearest}?", name=name, nearest=nearest[0])
    return ConfigError("Unknown command {name}: there are {known}.", name=name, known=", ".join(COMMANDS))


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = "\n".join(f"  {name.ljust(width)}{text}" for name, text in COMMANDS.items())
    return (
        f"usage: {PROGRAM} COMMAND [options]\n\n{rows}\n\n{PROGRAM} COMMAND --help lists its options.\n"
        f"TAB completes them, models and runs, too, after this line in bash or zsh:\n\n  {COMPLETION}"
    )
