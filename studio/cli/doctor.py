"""`doctor`: what is here, what works, and what to do about the rest."""

from collections.abc import Sequence

from studio.cli.output import give
from studio.cli.parsing import Parser
from studio.doctor.examine import examine
from studio.doctor.report import DoctorReport, Health
from studio.settings import Settings

_MARKS = {Health.OK: "ok", Health.NOTE: "note", Health.PROBLEM: "PROBLEM"}


def parser() -> Parser:
    """It needs to be told nothing."""
    made = Parser("doctor", "Check this machine. Exit code 1: something that the studio needs fails.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints the checks; 1 if there is a problem."""
    given = parser().read(arguments)
    settings.prepare()
    report = examine(settings)
    give(given.json, report.to_json(), lambda: _summary(report))
    return 1 if report.has_problem else 0


def _summary(report: DoctorReport) -> str:
    width = max(len(str(check.name)) for check in report.checks)
    lines = []
    for check in report.checks:
        lines.append(f"{_MARKS[check.health]:<9}{check.name!s:<{width}}  {check.finding}")
        if check.advice:
            lines.append(f"{'':<9}{'':<{width}}  → {check.advice}")
    return "\n".join(lines)
