"""Rows of data as the visitor sees them, and why some cannot be used: pure functions to HTML."""

import re
from collections.abc import Sequence

from studio.dataset.example import Example, Manifest, RowProblem
from studio.errors import in_short
from studio.evaluation.suspicious import HeardLabel
from studio.reports.markup import Child, Html, table, tag
from studio.reports.pieces import note
from studio.translation import N_, said, tr
from studio.units import format_clock

SHOWN_CHARACTERS = 300
"""Of a text in the preview."""


def manifest_preview(manifest: Manifest, locale: str, rows: int = 5) -> Html:
    """The first rows of a manifest and every row that cannot be used, by line."""
    headers = [
        tr(text, locale) for text in (N_("Line"), N_("Audio"), N_("Text"), N_("Language"), N_("Length"))
    ]
    shown = [_example_row(example, locale) for example in manifest.examples[:rows]]
    summary = tr(
        "Rows that can be read: {good}, unusable: {bad}. Format: {format}. A run leaves out more: by "
        "language, by length of sound and text, and what cannot be heard. The check of every clip finds "
        "those.",
        locale,
        good=len(manifest.examples),
        bad=len(manifest.problems),
        format=manifest.format,
    )
    return tag(
        "div",
        note(summary, "warning" if manifest.problems else "good"),
        table(headers, shown, numeric=[0, 4], class_="stacked"),
        problems_table(manifest.problems, locale) if manifest.problems else None,
    )


def _example_row(example: Example, locale: str) -> list[Child]:
    seconds = example.duration_seconds
    name = example.audio_path.name
    if example.start_seconds:
        name += f" @ {format_clock(example.start_seconds, always_hours=False)}"
    length = tr("{seconds:.1f} s", locale, seconds=seconds) if seconds else ""
    text = str(in_short(example.text, SHOWN_CHARACTERS))
    return [place_of_row(example), name, text, example.language or "", length]


def problems_table(problems: Sequence[RowProblem], locale: str, limit: int = 20) -> Html:
    """Rows that cannot be used, or should be looked at, by line; at most `limit`."""
    rows: list[list[Child]] = [
        [place_of_row(problem), _file_name(problem.audio_path), said(problem.reason, locale)]
        for problem in problems[:limit]
    ]
    more = len(problems) - limit
    headers = [tr("Line", locale), tr("Audio", locale), tr("Problem", locale)]
    rest = tag("p", tr("… and {count} more.", locale, count=more), class_="subdued") if more > 0 else None
    return tag("div", table(headers, rows, numeric=[0], class_="stacked problems"), rest)


def place_of_row(row: Example | RowProblem | HeardLabel) -> Child:
    """Its line, after the name of its list where there are several."""
    return [_file_name(row.source), ": ", row.line] if row.source else row.line


def _file_name(path: str) -> Html:
    """The last part of a path; all of it where the pointer rests."""
    return tag("span", re.split(r"[\\/]", path)[-1], title=path)
