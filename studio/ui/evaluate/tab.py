"""Models side by side on one test set: error rates, whether the difference is real, and every clip's diff."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import ConfigError
from studio.evaluation.compare import evaluate
from studio.evaluation.result import Evaluation
from studio.options.choices import NORMALIZERS
from studio.registry.store import ModelRegistry
from studio.reports.language_names import language_choices
from studio.reports.markup import Html, join
from studio.reports.pieces import note, progress_bar
from studio.settings import Settings
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from studio.translation import tr
from studio.ui.shared.access import require_public_data
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.evaluation_views import comparison_sentences, rates_table, script_note, utterance_table
from studio.ui.shared.following import QUIET, compared_models, wire_cancel
from studio.ui.shared.forms import choices_of
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import engine_fields
from studio.ui.shared.streaming import Stops, Worked
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.under_way import Step, shared_note, step_bar


@dataclass(frozen=True)
class _Results:
    """Components on the right."""

    status: gr.HTML
    rates: gr.HTML
    comparisons: gr.HTML
    utterances: gr.HTML
    download: gr.HTML

    def all(self) -> list[Block]:
        """In the order in which the handlers give them."""
        return [self.status, self.rates, self.comparisons, self.download, self.utterances]


def build_evaluate_tab(settings: Settings, registry: ModelRegistry, engines: ModelCache, tab: gr.Tab) -> None:
    """The tab's content; an evaluation runs in a thread and ends when its visitor leaves."""
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
                _("Here will stand the error rates, whether they differ, and every clip with its errors."),
                elem_id="evaluate-status",
            )
            rates = gr.HTML(elem_id="evaluate-rates")
            comparisons = gr.HTML(elem_id="evaluate-comparisons")
            download = gr.HTML(elem_id="evaluate-download")
            utterances = gr.HTML(elem_id="evaluate-utterances")
    results = _Results(status, rates, comparisons, utterances, download)
    _wire(settings, registry, engines, tab, form, results, start, cancel)


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
    form["max_samples"] = gr.Number(
        0, label=_("Clips at most"), info=_("0: all of them."), precision=0, minimum=0
    )
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
    stops = Stops()

    def refresh(chosen: list[str] | None, request: gr.Request) -> list[Any]:
        locale = request_locale(request)
        languages = gr.Dropdown(choices=language_choices(locale))
        return [compared_models(registry, chosen, locale), languages, gr.Button(interactive=True)]

    @shows_errors
    def run(request: gr.Request, **values: Any) -> Iterator[list[Any]]:
        require_public_data(settings, values["data"])
        yield from _evaluate(
            engines, settings.cache, stops, values, str(request.session_hash), request_locale(request)
        )

    tab.select(refresh, form["models"], [form["models"], form["language"], start], **QUIET)
    start.click(run, inputs_kwargs=form, outputs=results.all(), **{**QUIET, "concurrency_limit": 1})
    wire_cancel(cancel, stops, results.status)


def _evaluate(
    engines: ModelCache, cache_dir: Path, stops: Stops, values: dict[str, Any], visitor: str, locale: str
) -> Iterator[list[Any]]:
    """Runs one evaluation and shows how far it is, then what came out."""
    models = values["models"] or []
    if not models:
        raise ConfigError("No model is chosen: choose one, or two to compare them.")
    event = stops.begin(visitor)

    def work(report: Any) -> Evaluation:
        """In a thread of its own."""
        return evaluate(
            engines,
            models,
            values["data"],
            options=TranscribeOptions(language=values["language"], timestamps="none"),
            normalizer=values["normalizer"],
            max_samples=int(values["max_samples"] or 0) or None,
            cache_dir=cache_dir,
            choice=EngineChoice(values["engine"], values["precision"]),
            on_step=lambda doing, share: report(Step(doing, share)),
            on_progress=lambda *step: report(step),
            should_stop=event.is_set,
        )

    running: Worked[Any, Evaluation] = Worked(work)
    try:
        told = shared_note(engines, locale)
        bar = progress_bar(0.0, tr("Loading the models and the data …", locale))
        yield [join([told, bar]), "", "", "", ""]
        for step in running:
            yield [join([told, _progress(step, locale)]), *[gr.skip()] * 4]
        yield _whole(running.result.to_json(), event.is_set(), locale)
    finally:
        stops.end(visitor, event)


def _progress(step: Any, locale: str) -> Html:
    if isinstance(step, Step):
        return step_bar(step, locale)
    done, total = step
    text = tr("Transcribed {done} of {total} clips", locale, done=done, total=total)
    return progress_bar(done / total if total else 0.0, text)


def _whole(found: dict[str, Any], was_stopped: bool, locale: str) -> list[Any]:
    """Tables and sentences of a finished evaluation."""
    status = note(tr("Cancelled: these are the clips done so far.", locale), "warning") if was_stopped else ""
    content = json.dumps(found, ensure_ascii=False, indent=2)
    return [
        status,
        rates_table(found["models"], locale),
        join([comparison_sentences(found["comparisons"], locale), script_note(found, locale)]),
        download_links({"json": content}, "evaluation", locale),
        utterance_table(found["utterances"], locale),
    ]
