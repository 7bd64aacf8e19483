"""Models side by side on one test set: error rates, whether the difference is real, and every clip's diff."""

import json
import time
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.manifest import MOST_ROWS
from studio.errors import ConfigError
from studio.evaluation.compare import KEPT, evaluate
from studio.evaluation.explorer import Explorer
from studio.evaluation.result import Evaluation
from studio.options.choices import NORMALIZERS
from studio.options.values import check_between, whole_number
from studio.registry.store import ModelRegistry
from studio.reports.evaluation_report import evaluation_report
from studio.reports.evaluation_views import (
    comparison_sentences,
    normalizers_table,
    rates_table,
    script_note,
)
from studio.reports.language_names import language_choices
from studio.reports.markup import Html, join, tag
from studio.reports.pieces import note, progress_bar
from studio.runs.confinement import most_rows, require_own_data
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from studio.translation import tr
from studio.ui.evaluate.explorer import ExplorerView, build_explorer, shown
from studio.ui.shared.following import QUIET, compared_models, wire_work
from studio.ui.shared.forms import choices_of
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import engine_fields
from studio.ui.shared.tasks import ExportStep, Pace, Task, Tasks, paced_bar, step_bar, tells_steps
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.visitors import settings_for

_LARGEST_LINK = 2**22
"""Characters of a file that is in its link."""
_FILES = 3


@dataclass(frozen=True)
class _Results:
    """Components on the right."""

    status: gr.HTML
    rates: gr.HTML
    comparisons: gr.HTML
    download: gr.HTML
    explorer: ExplorerView

    def all(self) -> list[Block]:
        """In the order in which the handlers give them."""
        return [self.status, self.rates, self.comparisons, self.download, *self.explorer.all()]


@dataclass(frozen=True)
class _Found:
    """An evaluation, looked into, and its files: made by the thread that has done it."""

    evaluation: dict[str, Any]
    explorer: Explorer | None
    """None: nothing was heard."""
    files: dict[str, str]
    """Ending → content, as far as a page can hold them."""


def build_evaluate_tab(
    settings: Settings, registry: ModelRegistry, engines: ModelCache, tab: gr.Tab
) -> dict[str, Block]:
    """The tab's content, of which the form is returned; an evaluation runs in a thread and ends when its
    visitor leaves.
    """
    gr.Markdown(
        _(
            "Compare models on the same clips: how many errors each makes, and whether the "
            "difference is real."
        ),
        elem_classes="lead",
    )
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form = _form()
            with gr.Row():
                # Greyed until the models to choose from are there, a moment after the tab opens.
                start = gr.Button(
                    _("Evaluate"), variant="primary", interactive=False, elem_id="evaluate-start"
                )
                cancel = gr.Button(_("Cancel"), elem_id="evaluate-cancel")
        with gr.Column(scale=3, min_width=320):
            status = gr.HTML(
                _("The error rates will appear here, with every clip and its errors."),
                elem_id="evaluate-status",
            )
            rates = gr.HTML(elem_id="evaluate-rates")
            comparisons = gr.HTML(elem_id="evaluate-comparisons")
            download = gr.HTML(elem_id="evaluate-download")
    results = _Results(status, rates, comparisons, download, build_explorer())
    _wire(settings, registry, engines, tab, form, results, start, cancel)
    return form


def _form() -> dict[str, Block]:
    """Components under the names of the handler's arguments."""
    form: dict[str, Block] = {}
    form["models"] = gr.Dropdown(
        [],
        label=_("Models"),
        info=_("Two or more are compared pair by pair; folders and Hub ids, too."),
        multiselect=True,
        allow_custom_value=True,
        interactive=True,
        elem_id="evaluate-models",
    )
    form["data"] = gr.Textbox(
        "demo:test",
        label=_("Test data"),
        info=_("demo:test, a manifest, an audio folder, or a dataset of the Hub."),
        max_lines=1,
        elem_id="evaluate-data",
    )
    form["language"] = gr.Dropdown(language_choices("en"), value="auto", label=_("Language"))
    with gr.Accordion(_("Engine"), open=False):
        form |= engine_fields("evaluate")
    form["normalizer"] = gr.Dropdown(
        choices_of(NORMALIZERS),
        value="none",
        label=_("Text normalisation"),
        info=_("Applied to both sides before errors are counted."),
    )
    form["max_samples"] = gr.Number(0, label=_("Clips at most"), info=_("0: all of them."))
    return form


def _wire(
    settings: Settings,
    registry: ModelRegistry,
    engines: ModelCache,
    tab: gr.Tab,
    form: dict[str, Block],
    results: _Results,
    start: gr.Button,
    cancel: gr.Button,
) -> None:
    tasks, outputs = Tasks(Line(at_once=1)), results.all()

    def refresh(chosen: list[str] | None, request: gr.Request) -> list[Any]:
        locale = request_locale(request)
        languages = gr.Dropdown(choices=language_choices(locale))
        return [compared_models(registry, chosen, request), languages, gr.Button(interactive=True)]

    def evaluation(request: gr.Request, **values: Any) -> Task[Any, _Found]:
        own = settings_for(settings, request)
        require_own_data(own, values["data"])
        return _evaluation(engines, own, values, request_locale(request), len(outputs) - 1)

    tab.select(refresh, form["models"], [form["models"], form["language"], start], **QUIET)
    work = tasks.handler(evaluation, outputs, form)
    wire_work([start.click], cancel, tasks.stops, results.status, **work, **QUIET)


def _evaluation(
    engines: ModelCache, settings: Settings, values: dict[str, Any], locale: str, others: int
) -> Task[ExportStep | tuple[int, int], _Found]:
    """One evaluation: how far it is, then what came out; there are so many `others` outputs."""
    models = values["models"] or []
    if not models:
        raise ConfigError("No model is chosen: choose one, or two to compare them.")
    max_samples = whole_number("max_samples", values["max_samples"])
    check_between("max_samples", max_samples, 0, MOST_ROWS)
    pace: list[Pace] = []
    stays = [gr.skip()] * others

    def show(step: ExportStep | tuple[int, int] | None) -> list[Any] | None:
        if step is None:
            return None
        if isinstance(step, ExportStep):
            return [step_bar(step, locale), *stays]
        done, total = step
        pace[:] = pace or [Pace(time.monotonic())]
        pace[0].note(done, time.monotonic())
        text = tr("Transcribed {done} of {total} clips", locale, done=done, total=total)
        return [paced_bar(text, done, total, pace[0], locale), *stays]

    return Task(
        work=lambda report, should_stop: _found(
            evaluate(
                engines,
                models,
                values["data"],
                options=TranscribeOptions(language=values["language"], timestamps="none"),
                normalizer=values["normalizer"],
                max_samples=most_rows(settings, max_samples),
                cache_dir=settings.cache,
                choice=EngineChoice(values["engine"], values["precision"]),
                kept=None if settings.is_public or settings.visitor else settings.cache / KEPT,
                on_step=tells_steps(report),
                on_progress=lambda *step: report(step),
                should_stop=should_stop,
            ),
            locale,
        ),
        begun=progress_bar(None, tr("Loading the models and the data …", locale)),
        show=show,
        finish=lambda found, was_stopped: _whole(found, was_stopped, locale),
        others=others,
        engines=engines,
    )


def _found(found: Evaluation, locale: str) -> _Found:
    explorer = Explorer(found) if found.utterances else None
    content = found.to_json()
    files = {
        "json": json.dumps(content, ensure_ascii=False, indent=2),
        "csv": found.to_csv(),
        "html": evaluation_report(found, explorer, locale, has_sound=False),
    }
    return _Found(content, explorer, {end: text for end, text in files.items() if len(text) < _LARGEST_LINK})


def _whole(found: _Found, was_stopped: bool, locale: str) -> list[Any]:
    """Tables and sentences of a finished evaluation."""
    status = note(tr("Cancelled: these are the clips done so far.", locale), "warning") if was_stopped else ""
    result, links = found.evaluation, download_links(found.files, "evaluation", locale)
    left_out = tr("Files of this size are written by python -m studio evaluate --output_file.", locale)
    return [
        status,
        rates_table(result["models"], locale),
        join(
            [
                comparison_sentences(result["comparisons"], locale),
                script_note(result, locale),
                _normalizers(result["normalizers"], locale),
            ]
        ),
        links if len(found.files) == _FILES else join([links, tag("p", left_out, class_="subdued")]),
        *shown(found.explorer, locale),
    ]


def _normalizers(rows: list[dict[str, Any]], locale: str) -> Html | None:
    if not rows:
        return None
    title = tag("summary", tr("Every text normalisation", locale))
    return tag("details", title, normalizers_table(rows, locale))
