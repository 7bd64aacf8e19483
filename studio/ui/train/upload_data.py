"""Training data from the visitor's own machine on the Train tab: a zip, or recordings and their list."""

from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.added import Added, add_data, data_sets
from studio.errors import ConfigError
from studio.reports.markup import Html, join
from studio.reports.pieces import note, progress_bar
from studio.runs.confinement import require_room
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.translation import paragraph, said, tr
from studio.ui.shared.access import require_training
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import LATEST, QUIET, UNCHECKED, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.tasks import Task, Tasks
from studio.ui.shared.visitors import settings_for
from studio.units import format_bytes


def build_upload_section(settings: Settings, tab: gr.Tab, source: Block) -> None:
    """A folded section; where what was uploaded lies goes into the field `source`."""
    with gr.Accordion(_("Upload training data"), open=False, elem_id="upload"):
        gr.Markdown(
            _(
                "One zip with the recordings and their list, or the recordings and a list of them (CSV, "
                "TSV, JSON lines) or captions (SRT, VTT). Each file may be up to {size:g} MB. They stay in "
                "this studio's folder.",
                size=settings.max_upload_mb,
            ),
            elem_classes="subdued",
        )
        files = gr.File(
            file_count="multiple",
            label=_("A zip, or recordings and their list"),
            height=180,
            elem_id="upload-files",
        )
        cancel = gr.Button(_("Cancel"), size="sm", elem_id="upload-cancel")
        status = gr.HTML(elem_id="upload-status")
        before = gr.Dropdown([], label=_("Uploaded before"), visible=False, elem_id="upload-before")
    tasks = Tasks(Line(at_once=1))

    def take(request: gr.Request, files: list[str] | None) -> Task[tuple[int, int], Added | None]:
        """The taking in of what was uploaded."""
        own = settings_for(settings, request)
        require_training(own)
        return _taking([Path(file) for file in files or []], own, request_locale(request))

    def find(request: gr.Request) -> Any:
        """What was uploaded before."""
        return _choices(settings_for(settings, request))

    def choose(name: str, request: gr.Request) -> str:
        """Where the chosen data set lies."""
        if name not in (found := data_sets(settings_for(settings, request).datasets)):
            raise ConfigError("There is no data set {name!r} any more.", name=name)
        return str(found[name])

    work = tasks.handler(take, [status, source, before], {"files": files})
    wire_work([files.upload], cancel, tasks.stops, status, **work, **LATEST)
    tab.select(find, None, before, **QUIET)
    before.input(**told_in(status, choose, [source]), inputs=before, **LATEST, **UNCHECKED)


def _taking(files: list[Path], settings: Settings, locale: str) -> Task[tuple[int, int], Added | None]:
    """Unpacking and copying: how much is there, then what was taken."""

    def show(step: tuple[int, int]) -> list[Any]:
        """A bar of the bytes."""
        done, total = map(format_bytes, step)
        text = tr("Unpacking: {done} of {total}", locale, done=done, total=total)
        return [progress_bar(step[0] / max(1, step[1]), text)]

    def finish(added: Added | None, _was_stopped: bool) -> list[Any]:
        """What was taken, or that nothing was."""
        if added is None:
            return [note(tr("Cancelled: nothing was kept.", locale), "warning")]
        return [added_note(added, locale), str(added.source), _choices(settings, added.folder.name)]

    return Task(
        work=lambda report, should_stop: add_data(
            files,
            settings,
            most_bytes=settings.most_upload_bytes,
            require_room=partial(require_room, settings),
            on_progress=lambda *step: report(step),
            should_stop=should_stop,
        ),
        begun=progress_bar(0.0, tr("Reading the files", locale)),
        show=show,
        finish=finish,
        others=2,
    )


def added_note(added: Added, locale: str) -> Html:
    """What was taken and where it lies, and why it cannot be trained with yet, if so."""
    taken = tr(
        "{files:,} files, {size}, are in {folder}; Training data names them now.",
        locale,
        files=added.files,
        size=format_bytes(added.size_bytes),
        folder=added.folder,
    )
    if added.left_out:
        taken = paragraph(
            [taken, tr("Hidden files left out: {count}.", locale, count=added.left_out)], locale
        )
    problem = note(said(added.problem, locale), "warning") if added.problem else None
    unusable = tr("Rows left out, because they cannot be used: {count}.", locale, count=added.unusable_rows)
    return join([note(taken, "good"), problem, note(unusable, "warning") if added.unusable_rows else None])


def _choices(settings: Settings, chosen: str | None = None) -> Any:
    """An update of the list of what was uploaded, which is out of sight while there is nothing."""
    names = list(data_sets(settings.datasets))
    return gr.update(choices=names, visible=bool(names), **({"value": chosen} if chosen else {}))
