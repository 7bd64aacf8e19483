"""Many files: a list of recordings in turn, its progress, and all results at once to take away."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.audio import SOUND_FILES
from studio.errors import AudioError, ConfigError, StudioError
from studio.files import user_path
from studio.registry.store import ModelRegistry
from studio.reports.markup import Child, Html, join, table, tag
from studio.reports.pieces import badge, note, progress_bar
from studio.room import SMALL, Room
from studio.runs.confinement import require_own_data
from studio.serving.uploads import UPLOADS_KEPT_SECONDS
from studio.serving.waiting import Line
from studio.serving.work import named
from studio.settings import Settings
from studio.transcription.batch import KEPT_SECONDS, Asked, Batch
from studio.transcription.captions import LAYOUT_BOUNDS, CaptionLayout
from studio.transcription.engine import Progress
from studio.transcription.model_cache import ModelCache
from studio.transcription.transcriber import WINDOWS_TOGETHER
from studio.transcription.transcription_jobs import groups, recordings_named, transcribe_many
from studio.translation import N_, paragraph, said, tr
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import LATEST, QUIET, Held, follow_languages, opened, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import chosen, search_options
from studio.ui.shared.tasks import Pace, Task, Tasks, paced_bar, tells_steps
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.visitors import settings_for
from studio.ui.transcribe.form import NO_MODEL, language_and_task, timestamps_field
from studio.ui.transcribe.results import KEPT_SECONDS as SHOWN_SECONDS
from studio.ui.transcribe.results import layout_fields
from studio.units import duration_message
from studio.watching import ShouldStop

MOST_ROWS = 200
"""A longer list shows those that failed, those at work, and the latest of the others."""


def batch_progress(batch: Batch, done_seconds: float, pace: Pace, locale: str) -> Html:
    """How many are done, and the time left; `done_seconds` lie behind in the recording at hand."""
    done, total = batch.done_seconds + done_seconds, batch.total_seconds
    text = tr("{done} of {total} recordings are done", locale, done=len(batch.rows), total=len(batch.paths))
    return paced_bar(text, done, total, pace, locale)


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
        said.append(tr("Done before: {count}.", locale, count=before))
    if failed:
        said.append(tr("{count} could not be used: the reason stands beside each.", locale, count=failed))
    if was_stopped and batch.todo:
        said.append(tr("Cancelled: start it again with the same recordings to go on.", locale))
    return note(paragraph(said, locale), "warning" if failed or (was_stopped and batch.todo) else "good")


def batch_table(batch: Batch, at_work: Collection[Path], locale: str) -> Html:
    """A row a recording: its name, how it stands, its length, its text or the reason for there being none."""
    rows = {row["audio_path"]: row for row in batch.rows}
    shown = _in_sight(batch.paths, rows, at_work)
    headers = [tr(text, locale) for text in (N_("Recording"), N_("State"), N_("Length"), N_("Text"))]
    cells = [_cells(batch, path, rows.get(str(path)), path in at_work, locale) for path in shown]
    left_out = len(batch.paths) - len(shown)
    more = tr("{count} more are not shown here; the files have all of them.", locale, count=left_out)
    return join(
        [
            table(headers, cells, numeric=(2,), class_="many-table stacked"),
            tag("p", more, class_="subdued") if left_out else None,
        ]
    )


def _in_sight(paths: list[Path], rows: dict[str, dict[str, Any]], at_work: Collection[Path]) -> list[Path]:
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
    length = said(duration_message(seconds), locale) if seconds else "–"
    if row is None and is_at_work:
        return [path.name, badge(tr("at work", locale), "busy"), length, ""]
    if row is None:
        return [path.name, badge(tr("waiting", locale)), length, ""]
    if error is not None:
        return [path.name, badge(tr("failed", locale), "bad"), length, said(named(error, path), locale)]
    text = row["text"].strip() or tr("no speech", locale)
    notes = paragraph([said(each, locale) for each in batch.notes(row)], locale)
    told = tag("p", notes, class_="subdued") if notes else None
    return [path.name, badge(tr("done", locale), "good"), length, join([tag("span", text, dir="auto"), told])]


RESULTS_FOLDER = "transcripts"
"""Under the studio's cache: results of lists that are not finished."""


@dataclass(frozen=True)
class _Studio:
    """What the section works with."""

    settings: Settings
    registry: ModelRegistry
    engines: ModelCache
    tasks: Tasks


@dataclass(frozen=True)
class _Heard:
    """A list of recordings when the work on it has ended, at its end or by Cancel."""

    batch: Batch
    before: int
    """How many of its recordings were done earlier."""
    was_stopped: bool
    layout: CaptionLayout


def build_many(
    settings: Settings, registry: ModelRegistry, engines: ModelCache, line: Line, model: Block, tab: gr.Tab
) -> Held:
    """The section's content, for `model`; recordings are heard one by one, in turn with other visitors.

    Returns what the server holds of it.
    """
    kept = gr.State(None, time_to_live=SHOWN_SECONDS)
    form: dict[str, Block] = {"model": model, "before": kept}
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            _file_fields(form, is_public=settings.is_public)
            form |= language_and_task("many")
            form["timestamps"] = timestamps_field("many")
            form |= search_options("many")
            with gr.Accordion(_("Layout of the captions"), open=False), gr.Row():
                form |= layout_fields("many")
            with gr.Row():
                start = gr.Button(_("Transcribe all"), variant="primary", elem_id="many-start")
                cancel = gr.Button(_("Cancel"), elem_id="many-cancel")
        with gr.Column(scale=3, min_width=320):
            status = gr.HTML(
                _("The transcripts will appear here, and can be downloaded together."),
                elem_id="many-status",
            )
            download = gr.HTML(elem_id="many-download")
            table = gr.HTML(elem_id="many-table")
    studio = _Studio(settings, registry, engines, Tasks(line))

    async def hear(request: gr.Request, **values: Any) -> AsyncIterator[list[Any]]:
        """The recordings, as this visitor may name them."""
        own = replace(studio, settings=settings_for(settings, request))
        async for step in _hear_all(own, values, request):
            yield step

    follow_languages(form["language"], *opened(tab))
    shown = [status, download, table]
    heard = told_in(status, hear, [*shown, kept], form)
    wire_work([start.click], cancel, studio.tasks.stops, status, **heard, inputs_kwargs=form, **QUIET)
    return Held(kept, shown, _shown)


def _file_fields(form: dict[str, Block], *, is_public: bool) -> None:
    files = gr.File(
        file_count="multiple",
        file_types=list(SOUND_FILES),
        type="filepath",
        label=_("Recordings"),
        height=180,
        elem_id="many-files",
    )
    gr.HTML(_("Left out, being neither sound nor video:"), elem_id="many-files-neither")
    folder = gr.UploadButton(
        _("Add a folder"),  # type: ignore[arg-type]
        file_count="directory",
        type="filepath",
        size="sm",
        elem_id="many-folder",
    )
    folder.upload(_with_folder, [files, folder], files, **LATEST)
    form["files"] = files
    form["place"] = gr.Textbox(
        "",
        label=_("Or a folder or a list on this machine"),
        info=_("A list is a text file with the path of a recording on each line."),
        max_lines=1,
        visible=not is_public,
        elem_id="many-place",
    )


def _with_folder(files: list[str] | None, folder: list[str] | None) -> list[str]:
    """The recordings of a folder behind those that are there already."""
    added = [path for path in folder or [] if Path(path).suffix.lower() in SOUND_FILES]
    return [*(files or []), *added]


async def _hear_all(studio: _Studio, values: dict[str, Any], request: gr.Request) -> AsyncIterator[list[Any]]:
    """Hears what has no result yet, some recordings at a time, and between them lets others have a turn."""
    layout = CaptionLayout(*(values.pop(name) for name in LAYOUT_BOUNDS))
    files, place, model = values.pop("files") or [], values.pop("place").strip(), values.pop("model")
    last: _Heard | None = values.pop("before")
    options, choice = chosen(values)
    locale, visitor = request_locale(request), str(request.session_hash)
    event = studio.tasks.stops.begin(visitor)
    try:
        yield [progress_bar(None, tr("Reading the recordings …", locale)), *[gr.skip()] * 3]
        paths = await asyncio.to_thread(_paths, studio.settings, files, place)
        if not model:
            raise ConfigError(NO_MODEL)
        asked = Asked(studio.registry.get(model).id, options, choice)
        kept = studio.settings.cache / RESULTS_FOLDER
        await asyncio.to_thread(lambda: Room.of(studio.settings, SMALL).take(kept.glob("*.json")))
        kept_seconds = UPLOADS_KEPT_SECONDS if studio.settings.on_spaces else KEPT_SECONDS
        batch = await asyncio.to_thread(Batch, paths, asked, kept, kept_seconds)
        before = len(batch.rows)
        pace = Pace(time.monotonic(), batch.done_seconds)
        size = options.batch_size or WINDOWS_TOGETHER
        for group in await asyncio.to_thread(lambda: list(groups(batch.todo, size))):
            # A visitor who leaves gives the turn back at once.
            async with aclosing(_hear_group(studio, batch, group, pace, event.is_set, request)) as steps:
                async for step in steps:
                    yield step
            if event.is_set():
                break
        heard = _Heard(batch, before, event.is_set(), layout)
        yield [*_shown(heard, locale), heard]
    except StudioError:  # nothing is at work, and what was heard now is there again at the next start
        yield [gr.skip(), *(_shown(last, locale)[1:] if last else ["", ""]), gr.skip()]
        raise
    finally:
        studio.tasks.stops.end(visitor, event)


def _paths(settings: Settings, files: list[str], place: str) -> list[Path]:
    named = [Path(file) for file in files]
    if place:
        require_own_data(settings, place)
        path = user_path(place)
        if not path.exists():
            raise ConfigError("{path} is not there: name a folder or a text file.", path=place)
        named += recordings_named([], path)
    if not named:
        raise AudioError("There are no recordings yet: upload files, or add a folder.")
    return named


async def _hear_group(
    studio: _Studio, batch: Batch, group: list[Path], pace: Pace, should_stop: ShouldStop, request: gr.Request
) -> AsyncGenerator[list[Any]]:
    """Waits for a turn, then hears a few recordings."""
    asked, locale = batch.asked, request_locale(request)

    def bar(done_seconds: float = 0.0) -> list[Any]:
        """How far all of them are, with so much of the recording at hand behind."""
        return [batch_progress(batch, done_seconds, pace, locale)]

    def finish(_nothing: object, _was_stopped: bool) -> list[Any]:
        """How far all of them are now."""
        pace.note(batch.done_seconds, time.monotonic())
        return bar()

    task: Task[Progress, object] = Task(
        work=lambda report, should_stop: transcribe_many(
            studio.engines,
            asked.model_id,
            group,
            asked.options,
            on_result=batch.add,
            should_stop=should_stop,
            on_progress=report,
            choice=asked.choice,
            on_step=tells_steps(report),
        ),
        begun=bar()[0],
        show=lambda step: bar(step.done_seconds),
        show_time=bar,
        finish=finish,
        others=3,
        filled=["", batch_table(batch, group, locale)],
        engines=studio.engines,
    )
    try:
        async with aclosing(studio.tasks.turn(task, should_stop, request)) as steps:
            async for step in steps:
                yield step
    finally:
        await asyncio.to_thread(batch.save)


def _shown(heard: _Heard, locale: str) -> list[Any]:
    """What came of a list, its files and its rows."""
    batch = heard.batch
    return [
        batch_summary(batch, heard.before, was_stopped=heard.was_stopped, locale=locale),
        _downloads(batch, heard.layout, locale),
        batch_table(batch, (), locale),
    ]


def _downloads(batch: Batch, layout: CaptionLayout, locale: str) -> Any:
    if not batch.rows:
        return ""
    files: dict[str, str | bytes] = {"json": batch.to_json()}
    if any(not row["error"] for row in batch.rows):
        files["zip"] = batch.captions(layout)
    return download_links(files, "transcripts", locale)
