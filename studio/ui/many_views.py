"""A list of recordings as the visitor sees it: how far it is, each text, each reason for there being none."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from studio.errors import StudioError
from studio.transcription.batch import Batch
from studio.ui.i18n import N_, tr
from studio.ui.markup import Child, Html, join, table, tag
from studio.ui.pace import Pace
from studio.ui.views import badge, note, progress_bar
from studio.units import format_duration

MOST_ROWS = 200
"""A longer list shows those that failed, those at work, and the latest of the others."""


def batch_progress(batch: Batch, done_seconds: float, pace: Pace, locale: str) -> Html:
    """How many are done, and the time left; `done_seconds` lie behind in the recording at hand."""
    done, total = batch.done_seconds + done_seconds, batch.total_seconds
    text = tr("{done} of {total} recordings are done", locale, done=len(batch.rows), total=len(batch.paths))
    left = pace.left_seconds(total, time.monotonic())
    amount = tr("about {left} left", locale, left=format_duration(left)) if left is not None else ""
    return progress_bar(done / total if total else 0.0, text, amount)


def batch_summary(batch: Batch, before: int, *, was_stopped: bool, locale: str) -> Html:
    """What came of it, when nothing is at work any more; `before` were done earlier."""
    failed = sum(1 for row in batch.rows if row["error"])
    heard = tr(
        "{done} of {total} recordings are done.",
        locale,
        done=len(batch.rows) - failed,
        total=len(batch.paths),
    )
    said = [heard]
    if before:
        said.append(tr("{count} of them were done before.", locale, count=before))
    if failed:
        said.append(tr("{count} could not be used: the reason stands beside each.", locale, count=failed))
    if was_stopped and batch.todo:
        said.append(tr("Cancelled: start it again with the same recordings to go on.", locale))
    return note(" ".join(said), "warning" if failed or (was_stopped and batch.todo) else "good")


def batch_table(batch: Batch, at_work: Collection[Path], locale: str) -> Html:
    """A row a recording: its name, how it stands, its length, its text or the reason for there being none."""
    rows = {row["audio_path"]: row for row in batch.rows}
    shown = _shown(batch.paths, rows, at_work)
    headers = [tr(text, locale) for text in (N_("Recording"), N_("State"), N_("Length"), N_("Text"))]
    cells = [_cells(batch, path, rows.get(str(path)), path in at_work, locale) for path in shown]
    left_out = len(batch.paths) - len(shown)
    more = tr("{count} more are not shown here; the files have all of them.", locale, count=left_out)
    return join(
        [
            table(headers, cells, numeric=(2,), class_="many-table"),
            tag("p", more, class_="subdued") if left_out else None,
        ]
    )


def _shown(paths: list[Path], rows: dict[str, dict[str, Any]], at_work: Collection[Path]) -> list[Path]:
    if len(paths) <= MOST_ROWS:
        return paths
    first = [path for path in paths if path in at_work or rows.get(str(path), {}).get("error")]
    done = [path for path in paths if str(path) in rows and path not in first]
    waiting = [path for path in paths if str(path) not in rows and path not in first]
    wanted = set(first[:MOST_ROWS])
    for path in (*reversed(done), *waiting):
        if len(wanted) >= MOST_ROWS:
            break
        wanted.add(path)
    return [path for path in paths if path in wanted]


def _cells(
    batch: Batch, path: Path, row: dict[str, Any] | None, is_at_work: bool, locale: str
) -> list[Child]:
    seconds, error = batch.seconds[path], batch.errors.get(str(path))
    length = format_duration(seconds) if seconds else "–"
    if row is None and is_at_work:
        return [path.name, badge(tr("at work", locale), "busy"), length, ""]
    if row is None:
        return [path.name, badge(tr("waiting", locale)), length, ""]
    if error is not None:
        return [path.name, badge(tr("failed", locale), "bad"), length, _reason(error, path, locale)]
    text = row["text"].strip() or tr("no speech", locale)
    return [path.name, badge(tr("done", locale), "good"), length, tag("span", text, dir="auto")]


def _reason(error: StudioError, path: Path, locale: str) -> str:
    """Why a recording could not be used. Uploads lie in folders whose names say nothing to the visitor."""
    named = {name: path.name if str(value) == str(path) else value for name, value in error.values.items()}
    return tr(error.template, locale, **named)
