"""The check of the training data on the Train tab: what is wrong with which row, which label is doubted."""

import json
import time
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.components.plot import PlotData

from studio.actions.check_data import TRANSCRIBING, CheckAnswer, CheckQuestion, check
from studio.dataset.report import Histogram
from studio.options.values import whole_number
from studio.reports.data_report import html_report, label_title, report_view
from studio.reports.markup import join
from studio.reports.pieces import BLUE, TEAL, note, progress_bar
from studio.runs.confinement import most_rows, require_own_data
from studio.services import Services
from studio.serving.waiting import Line
from studio.translation import N_, tr
from studio.ui.shared.charts import axis, figure
from studio.ui.shared.following import QUIET, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.tasks import Pace, Task, Tasks, paced_bar
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.visitors import services_for

_ASKED = (
    *("train_data", "test_data", "audio_column", "text_column"),
    *("base_model", "normalizer", "language", "min_audio_len", "max_audio_len"),
)
_LARGEST_LINK = 2**20


def build_data_doctor(services: Services, form: dict[str, Block]) -> None:
    """A folded section that checks the data in `form`; to be built when the form has all its fields."""
    with gr.Accordion(_("Check every clip of the data"), open=False, elem_id="data-doctor"):
        transcribe = gr.Number(
            0,
            label=_("Clips that the base model transcribes"),
            info=_("Labels it disagrees with are listed. 0: none, -1: all; the others are drawn at random."),
            elem_id="data-transcribe",
        )
        with gr.Row():
            start = gr.Button(_("Check"), size="sm", elem_id="data-doctor-start")
            stop = gr.Button(_("Stop"), size="sm", elem_id="data-doctor-cancel")
        status = gr.HTML(elem_id="data-doctor-status")
        durations = gr.Plot(show_label=False, visible=False, elem_id="data-durations")
        lengths = gr.Plot(show_label=False, visible=False, elem_id="data-labels")
        found = gr.HTML(elem_id="data-doctor-report")
        is_filled = gr.State(False)
    tasks = Tasks(Line(at_once=1))

    def checked(request: gr.Request, transcribe: float | None, **values: Any) -> Task[Any, CheckAnswer]:
        """The check that the form asks for."""
        own = services_for(services, request)
        for name in ("train_data", "test_data"):
            require_own_data(own.settings, values[name])
        asked = {name: values[name] for name in _ASKED}
        rows = most_rows(own.settings, 0)
        question = CheckQuestion(transcribe=whole_number("transcribe", transcribe), max_rows=rows, **asked)
        return _check(own, question, request_locale(request))

    asked = {"transcribe": transcribe, "before": is_filled, **{name: form[name] for name in _ASKED}}
    work = tasks.handler(checked, [status, durations, lengths, found, is_filled], asked)
    wire_work([start.click], stop, tasks.stops, status, **work, **QUIET)


def _check(
    services: Services, question: CheckQuestion, locale: str
) -> Task[tuple[str, int, int], CheckAnswer]:
    """The check: how far it is, then what was found."""
    paces: dict[str, Pace] = {}

    def show(step: tuple[str, int, int]) -> list[Any]:
        """A bar of what is being done with the clips."""
        kind, done, total = step
        pace = paces.setdefault(kind, Pace(time.monotonic()))
        pace.note(done, time.monotonic())
        text = N_("Checked {done} of {total} clips")
        if kind == TRANSCRIBING:
            text = N_("Transcribed {done} of {total} clips")
        said = tr(text, locale, done=done, total=total)
        return [paced_bar(said, done, total, pace, locale)]

    return Task(
        work=lambda report, should_stop: check(
            question, services, on_progress=lambda *step: report(step), should_stop=should_stop
        ),
        begun=progress_bar(None, tr("Reading the data", locale)),
        show=show,
        finish=lambda answer, was_stopped: _whole(answer, was_stopped, locale),
        others=4,
        engines=services.engines if question.transcribe else None,
    )


def _whole(answer: CheckAnswer, was_stopped: bool, locale: str) -> list[Any]:
    report = answer.report
    content = json.dumps(answer.to_json(), ensure_ascii=False, indent=1)
    files = {"html": html_report(report, answer.labels, answer.examples, locale)}
    if len(content) < _LARGEST_LINK:
        files["json"] = content
    aside = tr("Rows that cannot be used are listed in {path}.", locale, path=answer.quarantine)
    view = join(
        [
            report_view(report, answer.labels, answer.examples, locale),
            note(aside) if answer.quarantine else None,
            download_links(files, f"check-{Path(report.source).stem[:40]}", locale),
        ]
    )
    has_rows = bool(report.good_rows)
    durations = _bars(report.durations, tr("Length of the clips (seconds)", locale), BLUE)
    lengths = _bars(report.label_lengths, label_title(report, locale), TEAL)
    ended = tr("Cancelled: this is the report so far.", locale)
    return [
        note(ended, "warning") if was_stopped else "",
        gr.Plot(durations, visible=has_rows),
        gr.Plot(lengths, visible=has_rows),
        view,
        True,
    ]


def _bars(histogram: Histogram, title: str, colour: str) -> PlotData:
    bins = list(pairwise(histogram.edges))
    bars = {
        "type": "bar",
        "x": [(low + high) / 2 for low, high in bins],
        "y": list(histogram.counts),
        "width": [high - low for low, high in bins],
        "marker": {"color": colour, "line": {"width": 1, "color": "rgba(255,255,255,0.4)"}},
        "hovertemplate": "%{x:.1f}: %{y}<extra></extra>",
    }
    counts = axis(dtick=max(1, ceil(max(histogram.counts, default=0) / 5)))  # there are no half clips
    return figure([bars], height=220, xaxis=axis(title), yaxis=counts, showlegend=False, bargap=0)
