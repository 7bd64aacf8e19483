"""`check-data`: listens to every clip of a data set and names what is wrong, row by row."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from studio.cli.output import ProgressLine, require_place, say, show, show_json
from studio.cli.parsing import Parser
from studio.dataset.labels import label_counter
from studio.dataset.report import WARNINGS, DatasetReport, check_dataset
from studio.errors import ConfigError
from studio.services import Services
from studio.settings import Settings
from studio.units import format_percent

_SHOWN = 50
"""Problems printed for people; JSON and the quarantine have all."""


def parser() -> Parser:
    """The data, and where to put what is wrong with it."""
    made = Parser("check-data", "Find what is wrong with a data set. Exit code 1: rows cannot be used.")
    made.add_argument(
        "source", nargs="?", metavar="DATA", help="Manifest, audio folder, Hub dataset id or demo."
    )
    made.option("train_data", "The same as DATA.", aliases=("train_file", "data"))
    made.option("test_data", "Test data, to find clips that are in both.", aliases=("validation_file",))
    made.option("base_model", "Model whose tokens labels are counted in.", aliases=("model",))
    made.option("min_audio_len", "Shortest clip, in seconds.", kind=float, default=0.2)
    made.option("max_audio_len", "Longest clip, in seconds.", kind=float, default=30.0)
    made.option("max_rows", "Look at so many rows.", kind=int)
    made.option("quarantine", "Write the rows that cannot be used to this JSONL file.", kind=Path)
    made.flag("local_files_only", "Never ask the model hub.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Checks the data; 1 if there are rows that cannot be used."""
    given = parser().read(arguments)
    given.source = given.source or given.train_data
    if not given.source:
        raise ConfigError("check-data needs the data: name a manifest, an audio folder or a Hub dataset.")
    if given.quarantine:
        require_place(given.quarantine)
    report = _check(given, _label_length(given, settings))
    if given.json:
        show_json(report.to_json())
    else:
        show(_summary(report))
    if given.quarantine:
        say(f"Rows that cannot be used are in {given.quarantine}.")
    return 0 if report.good_rows == report.rows else 1


def _label_length(given: argparse.Namespace, settings: Settings) -> Callable[[str], int] | None:
    """Counts tokens as the model does that was named; None if none was."""
    if not given.base_model:
        return None
    services = Services.open(settings)
    try:
        folder = services.registry.local_path(given.base_model, local_files_only=given.local_files_only)
    finally:
        services.close()
    return label_counter(folder)


def _check(given: argparse.Namespace, label_length: Callable[[str], int] | None) -> DatasetReport:
    line = ProgressLine()
    try:
        return check_dataset(
            given.source,
            label_length=label_length,
            test_source=given.test_data,
            min_audio_len=given.min_audio_len,
            max_audio_len=given.max_audio_len,
            quarantine=given.quarantine,
            on_progress=lambda done, total: line.update(f"listened to {done} of {total} clips"),
            max_rows=given.max_rows,
            local_files_only=given.local_files_only,
        )
    finally:
        line.end()


def _summary(report: DatasetReport) -> str:
    lines = [
        f"{report.source} ({report.format}): {report.good_rows} of {report.rows} rows can be used, "
        f"{report.hours:.2f} hours"
    ]
    for language, count in report.languages.items():
        share = format_percent(count / report.good_rows)
        lines.append(f"  {language or 'no language named'}: {count} rows ({share})")
    for kind, count in report.kinds.items():
        seriousness = "look at" if kind in WARNINGS else "cannot be used"
        lines.append(f"  {kind.replace('_', ' ')}: {count} ({seriousness})")
    for problem in report.problems[:_SHOWN]:
        lines.append(f"line {problem.line}: {problem.reason}")
    if len(report.problems) > _SHOWN:
        lines.append(f"… and {len(report.problems) - _SHOWN} more: --quarantine or --json has all of them.")
    return "\n".join(lines)
