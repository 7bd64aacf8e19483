"""`explain-oom`: what an out-of-memory error or a log means, and a run that would fit."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.cli.fit import ladder_table
from studio.cli.output import say, show, show_json
from studio.cli.parsing import Parser, run_options
from studio.errors import ConfigError, StorageError
from studio.memory.oom import OomDiagnosis, explain
from studio.memory.oom_text import LONGEST_TEXT, OomKind
from studio.options.arguments import command_line, help_text
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.runs.oom import USUAL_LABEL_LENGTH, ended_run
from studio.services import Services
from studio.settings import Settings
from studio.training.fitting import LARGEST_LABEL, check_between, shape_of
from studio.training.plan import config_of, planned

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
    made.epilog = "Options of the run:\n\n" + help_text()
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints what happened and what helps; 1 if the text says nothing of memory."""
    file, rest = _file_first(arguments)
    given, options = parser().read_known(rest)
    if given.run and (options or file != "-"):
        raise ConfigError(
            "--run brings its own log and options: leave {words} out.", words=_others(file, options)
        )
    asked = _of_run(given.run, settings) if given.run else _of_text(file, options, settings)
    label_length = asked.label_length if given.label_length is None else given.label_length
    check_between("label_length", label_length, 1, LARGEST_LABEL)
    config = asked.config
    plan = planned(config, label_length) if config else None
    diagnosis = explain(asked.text, plan, asked.dimensions)
    if given.json:
        show_json({**diagnosis.to_json(), "command": _command(diagnosis, config)})
    else:
        show(_summary(diagnosis, config))
    return 1 if diagnosis.report.kind is OomKind.UNKNOWN else 0


def _file_first(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The file stands first: what comes after options may be the value of one."""
    if arguments and (arguments[0] == "-" or not arguments[0].startswith("-")):
        return arguments[0], arguments[1:]
    return "-", arguments


def _text(file: str) -> str:
    if file == "-":
        if sys.stdin.isatty():
            say("Paste the error, then press Ctrl-D (on Windows Ctrl-Z and Enter).")
        return sys.stdin.buffer.read(_LARGEST_FILE_BYTES).decode("utf-8", errors="replace")
    path = Path(file)
    if not path.is_file():
        raise ConfigError("There is no file {path}: name a log, or - to paste one.", path=file)
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 4 * LONGEST_TEXT))
            return log.read().decode("utf-8", errors="replace")
    except OSError as error:
        raise StorageError("{path} cannot be read: {reason}.", path=file, reason=error.strerror) from error


def _run(options: Sequence[str], settings: Settings) -> tuple[TrainingConfig, ModelDimensions]:
    config = run_options(options)
    services = Services.open(settings)
    try:
        return config, shape_of(config.base_model, services.registry)
    finally:
        services.close()


def _others(file: str, options: Sequence[str]) -> str:
    return " ".join([*([file] if file != "-" else []), *options])


@dataclass(frozen=True)
class _Asked:
    """What is to be explained, and by which run it was said."""

    text: str
    label_length: int
    config: TrainingConfig | None = None
    dimensions: ModelDimensions | None = None


def _of_text(file: str, options: Sequence[str], settings: Settings) -> _Asked:
    if not options:
        return _Asked(_text(file), USUAL_LABEL_LENGTH)
    config, dimensions = _run(options, settings)
    return _Asked(_text(file), USUAL_LABEL_LENGTH, config, dimensions)


def _of_run(run_id: str, settings: Settings) -> _Asked:
    services = Services.open(settings)
    try:
        ended = ended_run(services.jobs, run_id)
        shape = shape_of(ended.config.base_model, services.registry)
        return _Asked(ended.text, ended.label_length, ended.config, shape)
    finally:
        services.close()


def _command(diagnosis: OomDiagnosis, config: TrainingConfig | None) -> str | None:
    if config is None or diagnosis.repaired is None or not diagnosis.repaired.fits:
        return None
    return command_line(config_of(diagnosis.repaired.plan, config))


def _summary(diagnosis: OomDiagnosis, config: TrainingConfig | None) -> str:
    lines = [str(sentence) for sentence in diagnosis.sentences]
    if diagnosis.repaired is not None and diagnosis.repaired.rungs:
        lines += ["", ladder_table(diagnosis.repaired)]
    command = _command(diagnosis, config)
    return "\n".join(lines + (["", command] if command else []))
