"""`check-data`: listens to every clip of a data set and names what is wrong, row by row."""

import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from studio.actions.check_data import TRANSCRIBING, CheckAnswer, CheckQuestion, check
from studio.cli.output import ProgressLine, give, require_places, say, say_shared
from studio.cli.parsing import Parser, seconds
from studio.dataset.example import place_of
from studio.dataset.report import WARNINGS
from studio.errors import ConfigError
from studio.evaluation.suspicious import doubted
from studio.files import write_text
from studio.options.choices import NORMALIZERS
from studio.services import Services
from studio.settings import Settings
from studio.units import counted, duration_message, format_percent
from studio.whisper.constants import TEXT_POSITIONS

_SHOWN_LABELS = 10
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
    made.option("audio_column", "Column with the audio.", aliases=("audio_column_name",), default="")
    made.option("text_column", "Column with the text.", aliases=("text_column_name",), default="")
    made.option("base_model", "Model whose tokenizer measures the labels.", aliases=("model",))
    made.option("min_audio_len", "Shortest clip, in seconds.", kind=seconds, default=0.2)
    made.option("max_audio_len", "Longest clip, in seconds.", kind=seconds, default=30.0)
    made.option("max_rows", "Check at most this many rows.", kind=int)
    made.option(
        "quarantine",
        "File for the rows that cannot be used (default: in STUDIO_HOME/quarantine).",
        kind=Path,
    )
    made.option(
        "transcribe",
        "Transcribe this many clips, or all, with base_model; list the labels it disagrees with.",
    )
    made.option("language", "Language of the clips, name or code, or auto.", default="auto")
    made.option("normalizer", "Normalization of labels to show.", choices=NORMALIZERS, default="none")
    made.option("html", "Write the report to this HTML file.", kind=Path)
    made.flag("local_files_only", "Never ask the model hub.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Checks the data; 1 if there are rows that cannot be used."""
    given = parser().read(arguments)
    given.source = given.source or given.train_data
    if not given.source:
        raise ConfigError("check-data needs the data: name a manifest, an audio folder or a Hub dataset.")
    require_places(given, ("quarantine", "html"), (given.source, given.test_data))
    named = {f.name: getattr(given, f.name) for f in fields(CheckQuestion)}
    values = {name: value for name, value in named.items() if value is not None}
    transcribe = _count(given.transcribe, given.base_model)
    question = CheckQuestion(**{**values, "train_data": given.source, "transcribe": transcribe})
    answer = _answer(question, settings, given.quarantine)
    if given.html:
        from studio.reports.data_report import html_report

        write_text(given.html, html_report(answer.report, answer.labels, answer.examples, "en"))
        say(f"The report is in {given.html}.")
    give(given.json, answer.to_json(), lambda: _summary(answer))
    if answer.quarantine:
        say(f"Rows that cannot be used are in {answer.quarantine}.")
    return 0 if answer.report.good_rows == answer.report.rows else 1


def _count(text: str | None, base_model: str | None) -> int:
    """`--transcribe`: a number of clips, or -1 for all."""
    if text is None:
        return 0
    if not base_model:
        raise ConfigError("--transcribe needs --base_model: name the model that transcribes.")
    if text.lower() == "all":
        return -1
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError("--transcribe takes a number of clips or all, got {value!r}.", value=text)
    return int(text)


def _answer(question: CheckQuestion, settings: Settings, quarantine: Path | None) -> CheckAnswer:
    began: dict[str, float] = {}

    def progress(kind: str, done: int, total: int) -> None:
        """Says how far it is, and how long it will take."""
        seconds = time.monotonic() - began.setdefault(kind, time.monotonic())
        doing = "transcribed" if kind == TRANSCRIBING else "checked"
        left = f", {duration_message(seconds / done * (total - done))} left" if seconds > 1 else ""
        line.update(f"{doing} {done} of {counted(total, 'clip')}{left}")

    with Services.open(settings) as services, ProgressLine() as line:
        if question.transcribe:
            say_shared(services.engines)
        return check(question, services, quarantine=quarantine, on_progress=progress)


def _summary(answer: CheckAnswer) -> str:
    report = answer.report
    lines = [
        f"{report.source} ({report.format}): {report.good_rows} of {counted(report.rows, 'row')} can be "
        f"used, {report.hours:.2f} hours"
    ]
    if report.shared and report.shared.count:
        lines.append(str(report.shared.sentence))
    for language, count in report.languages.items():
        share = format_percent(count / report.good_rows)
        lines.append(f"  {language or 'no language named'}: {counted(count, 'row')} ({share})")
    for kind, count in report.kinds.items():
        seriousness = "to check" if kind in WARNINGS else "cannot be used"
        lines.append(f"  {kind.replace('_', ' ')}: {count} ({seriousness})")
    if report.uncounted:
        lines.append(
            f"  label perhaps longer than the {TEXT_POSITIONS} tokens of a model: {report.uncounted} "
            "(--base_model has them counted)"
        )
    for problem in report.problems[:_SHOWN]:
        lines.append(f"{problem.place}: {problem.reason}")
    if len(report.problems) > _SHOWN:
        lines.append(f"… and {len(report.problems) - _SHOWN} more: --quarantine or --json has all of them.")
    wrong = doubted(answer.labels)
    if answer.labels and not wrong:
        lines.append(f"The model transcribes what the labels say ({counted(len(answer.labels), 'clip')}).")
    for label in wrong[:_SHOWN_LABELS]:
        rate = format_percent(label.error_rate)
        place = place_of(label.line, label.source)
        lines.append(f"{place}: {rate} of {label.text!r} differs from {label.heard!r}")
    for before, after in answer.examples:
        lines.append(f"{before!r} is taught as {after!r}")
    return "\n".join(lines)
