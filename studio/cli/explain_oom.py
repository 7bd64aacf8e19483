"""`explain-oom`: what an out-of-memory error or a log means, and a run that would fit."""

import codecs
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studio.actions.explain_oom import OomAnswer, OomQuestion, explain_oom, question_of_run
from studio.cli.fit import ladder_table
from studio.cli.output import give, say
from studio.cli.parsing import Parser, run_options
from studio.errors import ConfigError, StorageError
from studio.memory.oom import explain
from studio.memory.oom_text import LONGEST_TEXT
from studio.memory.plan import LABEL_LENGTH
from studio.options.arguments import options_given
from studio.options.checks import check_between
from studio.options.sources import OWN_DATA
from studio.services import Services
from studio.settings import Settings
from studio.whisper.constants import TEXT_POSITIONS

_LARGEST_FILE_BYTES = 64 * 2**20


def parser() -> Parser:
    """Where the text is; options of the run belong to `TrainingConfig`."""
    made = Parser(
        "explain-oom",
        "Explain an out-of-memory error in FILE, or on standard input. With the options of the run it also "
        "finds one that fits. Exit code 1: the text says nothing of memory.",
    )
    made.usage = f"{made.prog} [FILE|-] [options]"
    made.option("run", "Explain this run of the studio: its log, with its own plan; see runs.")
    made.option("label_length", "Tokens of the longest text (default: the run's, else 128).", kind=int)
    made.flag("json", "Print JSON.")
    made.add_run_options()
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints what happened and what helps; 1 if the text says nothing of memory."""
    file, rest = _file_first(arguments)
    given, options = parser().read_known(rest)
    if given.run and (options or file != "-"):
        raise ConfigError(
            "--run brings its own log and options: leave {words} out.", words=_others(file, options)
        )
    if given.label_length is not None:
        check_between("label_length", given.label_length, 1, TEXT_POSITIONS)
    answer = _answer(given, file, options, settings)
    told = {**answer.diagnosis.to_json(), "command": answer.command}
    give(given.json, told, lambda: _summary(answer))
    return 0 if answer.diagnosis.report.kind.is_memory else 1


def _answer(given: Any, file: str, options: Sequence[str], settings: Settings) -> OomAnswer:
    """A text alone needs no studio."""
    if not given.run and not options:
        return OomAnswer(explain(_text(file)), None)
    config = run_options(options) if options else None
    if config and "train_data" not in options_given(options):
        config = replace(config, train_data=OWN_DATA)  # the default is the demo speech, which nobody meant
    with Services.open(settings) as services:
        if given.run:
            question = question_of_run(given.run, services, given.label_length)
        else:
            question = OomQuestion(_text(file), config, given.label_length or LABEL_LENGTH)
        return explain_oom(question, services.registry)


def _file_first(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The file stands first: what comes after options may be the value of one."""
    if arguments and (arguments[0] == "-" or not arguments[0].startswith("-")):
        return arguments[0], arguments[1:]
    return "-", arguments


def _text(file: str) -> str:
    if file == "-":
        if sys.stdin.isatty():
            say("Paste the error, then press Ctrl-D (on Windows Ctrl-Z and Enter).")
        data = sys.stdin.buffer.read(_LARGEST_FILE_BYTES)
        return _decoded(data, data[:2])
    path = Path(file)
    if not path.is_file():
        raise ConfigError("There is no file {path}: name a log, or - to paste one.", path=file)
    try:
        with path.open("rb") as log:
            start = log.read(2)
            # At an even place, so that no character of two bytes is cut.
            log.seek(max(0, path.stat().st_size - 4 * LONGEST_TEXT) // 2 * 2)
            return _decoded(log.read(), start)
    except OSError as error:
        raise StorageError("{path} cannot be read: {reason}.", path=file, reason=error.strerror) from error


def _decoded(data: bytes, start: bytes) -> str:
    """The text of a log that begins with `start`; PowerShell on Windows writes UTF-16."""
    encoding = "utf-8"
    if start == codecs.BOM_UTF16_BE:
        encoding = "utf-16-be"
    elif start == codecs.BOM_UTF16_LE or _is_utf16(data):
        encoding = "utf-16-le"
    return data.decode(encoding, errors="replace").removeprefix("\ufeff")


def _is_utf16(data: bytes) -> bool:
    """Without a mark: NULs in every second place; those of a log that was emptied while open are in all."""
    high = data[1::2].count(0)
    return high > len(data) // 8 and high > 4 * data[::2].count(0)


def _others(file: str, options: Sequence[str]) -> str:
    return " ".join([*([file] if file != "-" else []), *options])


def _summary(answer: OomAnswer) -> str:
    diagnosis = answer.diagnosis
    lines = [str(sentence) for sentence in diagnosis.sentences]
    if diagnosis.repaired is not None and diagnosis.repaired.rungs:
        lines += ["", ladder_table(diagnosis.repaired)]
    return "\n".join(lines + (["", answer.command] if answer.command else []))
