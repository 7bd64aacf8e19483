"""Models side by side on one test set: error rates, whether the difference is real, and every clip's diff."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.manifest import read_manifest
from studio.errors import ConfigError, DataError
from studio.evaluation.compare import KEPT, PLAIN, EvaluationRequest, evaluate, with_references
from studio.evaluation.corrections import (
    Corrections,
    KeptCorrections,
    clip_of,
    evaluated_clips,
    evaluated_rows,
    free_place,
    is_of_the_hub,
    list_lines,
    own_rows,
    save_list,
)
from studio.evaluation.explorer import Explorer
from studio.evaluation.result import Evaluation, read_evaluation
from studio.options.choices import NORMALIZERS
from studio.registry.store import ModelRegistry
from studio.reports.evaluation_report import evaluation_report
from studio.reports.evaluation_views import (
    comparison_sentences,
    left_out_rows,
    normalizers_table,
    rates_table,
    script_note,
    with_names,
)
from studio.reports.language_names import language_choices
from studio.reports.markup import Html, join, tag
from studio.reports.pieces import folded, note, progress_bar
from studio.runs.confinement import most_rows, require_own_data
from studio.serving.waiting import Line
from studio.settings import Settings
from studio.transcription.engine import EngineChoice
from studio.transcription.model_cache import ModelCache
from studio.translation import N_, said, tr
from studio.ui.evaluate.explorer import ExplorerView, Seen, build_explorer, remembered, seen_of, shown
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import LATEST, QUIET, Held, compared_models, wire_work
from studio.ui.shared.forms import choices_of, clips_at_most, languages_at_first, test_data_field
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import engine_fields
from studio.ui.shared.tasks import Pace, Task, Tasks, paced_bar, tells_steps
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.views import model_names
from studio.ui.shared.visitors import settings_for

_LARGEST_LINK = 2**22
"""Characters of a file that is in its link."""
_MOST_SOUND_SECONDS = 300.0
"""With more, a report would be too large in any case: none is made, since packing the clips takes long."""
_FILES = 3
Names = Callable[[str], str]
"""What the model of an id is called."""


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

    evaluation: Evaluation
    explorer: Explorer | None
    """None: nothing was heard."""
    files: dict[str, str]
    """Ending → content, as far as a page can hold them."""
    corrected: dict[int, str] = field(default_factory=dict)
    """What somebody has corrected in the list and has not saved."""


@dataclass(frozen=True)
class EvaluateTab:
    """What the rest of the page needs of it."""

    form: dict[str, Block]
    _results: _Results
    _registry: ModelRegistry

    def wire_again(self, event: Callable[..., Any]) -> None:
        """After `event`, the visitor's evaluation is shown once more, if the studio holds one."""
        view = self._results.explorer

        def show(explorer: Explorer, locale: str, seen: Seen) -> list[Any]:
            """The evaluation that the session holds."""
            named, seen = explorer.named(model_names(self._registry, locale)), seen_of(explorer, seen)
            found = _found(explorer.evaluation, named, locale, dict(seen.corrected))
            return _whole(found, False, locale, seen)

        Held(view.explorer, self._results.all(), show, [view.seen], view.refused).wire_again(event)


def build_evaluate_tab(
    settings: Settings, registry: ModelRegistry, engines: ModelCache, tab: gr.Tab
) -> EvaluateTab:
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
            saved = gr.UploadButton(
                _("Open a saved evaluation (.json)"),  # type: ignore[arg-type]
                file_types=[".json"],
                size="sm",
                visible=not settings.on_spaces,
                elem_id="evaluate-open",
            )
        with gr.Column(scale=3, min_width=320):
            status = gr.HTML(
                _("The error rates will appear here, with every clip and its errors."),
                elem_id="evaluate-status",
            )
            rates = gr.HTML(elem_id="evaluate-rates")
            comparisons = gr.HTML(elem_id="evaluate-comparisons")
            download = gr.HTML(elem_id="evaluate-download")

    def keep(explorer: Explorer, request: gr.Request) -> KeptCorrections | None:
        """Where the visitor's corrections are kept."""
        return _kept_corrections(settings_for(settings, request), explorer.evaluation.source)

    results = _Results(status, rates, comparisons, download, build_explorer(keep))
    tasks = Tasks(Line(at_once=1))
    _wire(settings, registry, engines, tab, form, results, start, cancel, tasks)
    _wire_opening(settings, registry, saved, results, tasks)
    _wire_saving(settings, registry, form, results)
    return EvaluateTab(form, results, registry)


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
    form["data"] = test_data_field("evaluate-data")
    form["language"] = gr.Dropdown(languages_at_first(), value="auto", label=_("Language"))
    with gr.Accordion(_("Engine"), open=False):
        form |= engine_fields("evaluate")
    form["normalizer"] = gr.Dropdown(
        choices_of(NORMALIZERS),
        value="none",
        label=_("Text normalization"),
        info=_("Applied to both sides before errors are counted."),
    )
    form["non_speech"] = gr.Checkbox(
        False,
        label=_("Also measure hallucinations"),
        info=_("Words written per hour of silence, noise, chords and babble: three more minutes of sound."),
    )
    form["embed_audio"] = gr.Checkbox(
        False,
        label=_("Report with sound"),
        info=_("The HTML file then holds the clips, too, and plays them anywhere."),
        elem_id="evaluate-embed_audio",
    )
    form["max_samples"] = gr.Number(
        0, label=_("Clips at most"), info=_("0 = all."), elem_id="evaluate-max_samples"
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
    tasks: Tasks,
) -> None:
    outputs = results.all()

    def refresh(chosen: list[str] | None, request: gr.Request) -> list[Any]:
        """Models, languages, and the button that waits for them."""
        locale = request_locale(request)
        languages = gr.Dropdown(choices=language_choices(locale))
        return [compared_models(registry, chosen, request), languages, gr.Button(interactive=True)]

    def evaluation(request: gr.Request, **values: Any) -> Task[Any, _Found]:
        """The evaluation that the form asks for."""
        own = settings_for(settings, request)
        require_own_data(own, values["data"])
        locale = request_locale(request)
        names = model_names(registry, locale)
        return _evaluation(engines, own, values, locale, names, len(outputs) - 1)

    tab.select(refresh, form["models"], [form["models"], form["language"], start], **QUIET)
    work = tasks.handler(evaluation, outputs, {**form, "before": results.explorer.explorer})
    wire_work([start.click], cancel, tasks.stops, results.status, **work, **QUIET)


def _evaluation(
    engines: ModelCache, settings: Settings, values: dict[str, Any], locale: str, names: Names, others: int
) -> Task[tuple[int, int], _Found]:
    """One evaluation: how far it is, then what came out; there are so many `others` outputs."""
    models = values["models"] or []
    if not models:
        raise ConfigError("No model is chosen: choose one, or two to compare them.")
    asked = EvaluationRequest(
        models,
        values["data"],
        replace(PLAIN, language=values["language"]),
        values["normalizer"],
        max_samples=most_rows(settings, clips_at_most(values["max_samples"])),
        choice=EngineChoice(values["engine"], values["precision"]),
        kept=settings.cache / KEPT if _keeps(settings) else None,
        non_speech=bool(values["non_speech"]),
    )
    pace: list[Pace] = []

    def show(step: tuple[int, int]) -> list[Any]:
        """A bar of the clips."""
        done, total = step
        pace[:] = pace or [Pace(time.monotonic())]
        pace[0].note(done, time.monotonic())
        text = tr("Transcribed {done} of {total} clips", locale, done=done, total=total)
        return [paced_bar(text, done, total, pace[0], locale)]

    return Task(
        work=lambda report, should_stop: _looked_into(
            evaluate(
                engines,
                asked,
                settings,
                on_step=tells_steps(report),
                on_progress=lambda *step: report(step),
                should_stop=should_stop,
            ),
            settings,
            locale,
            names,
            has_sound=bool(values["embed_audio"]),
        ),
        begun=progress_bar(None, tr("Loading the models and the data …", locale)),
        show=show,
        finish=lambda found, was_stopped: _whole(found, was_stopped, locale),
        others=others,
        engines=engines,
    )


def _keeps(settings: Settings) -> bool:
    """Whether anything is kept of an evaluation: of strangers, nothing is."""
    return not settings.is_public and not settings.visitor


def _kept_corrections(settings: Settings, source: str) -> KeptCorrections | None:
    return KeptCorrections(settings.cache / KEPT / "corrections", source) if _keeps(settings) else None


def _looked_into(
    found: Evaluation, settings: Settings, locale: str, names: Names = str, *, has_sound: bool = False
) -> _Found:
    """An evaluation with what was corrected in its list before."""
    if not found.utterances:
        return _found(found, None, locale)
    explorer, kept = Explorer(found).named(names), _kept_corrections(settings, found.source)
    before = kept.read() if kept else {}
    places = {place: before.get(clip_of(clip)) for place, clip in enumerate(explorer.clips)} if before else {}
    corrected = {place: text for place, text in places.items() if text is not None}
    return _found(found, explorer, locale, corrected, has_sound=has_sound)


def _found(
    found: Evaluation,
    explorer: Explorer | None,
    locale: str,
    corrected: dict[int, str] | None = None,
    *,
    has_sound: bool = False,
) -> _Found:
    files: dict[str, str] = {}
    if sum(len(row.reference) + len(row.hypothesis) for row in found.utterances) < _LARGEST_LINK:
        wrong = [explorer.summary(model) for model in range(len(explorer.models))] if explorer else []
        files["json"] = json.dumps({**found.to_json(), "errors": wrong}, ensure_ascii=False, indent=2)
        files["csv"] = found.to_csv()
    packed = explorer.clips if has_sound and explorer else ()
    if sum(clip.duration_seconds for clip in packed) <= _MOST_SOUND_SECONDS:
        files["html"] = evaluation_report(found, explorer, locale, has_sound=has_sound)
    fitting = {end: text for end, text in files.items() if len(text) < _LARGEST_LINK}
    return _Found(found, explorer, fitting, corrected or {})


def _whole(found: _Found, was_stopped: bool, locale: str, seen: Seen | None = None) -> list[Any]:
    """Tables and sentences of a finished evaluation, and the clips: all, or those that were `seen`."""
    status = [
        note(tr("Cancelled: these are the clips done so far.", locale), "warning") if was_stopped else None,
        note(said(taken_up, locale)) if (taken_up := found.evaluation.taken_up) else None,
        left_out_rows(found.evaluation.problems, locale),
    ]
    result = with_names(found.evaluation.figures(), found.explorer)
    metric = found.evaluation.metric
    links = download_links(found.files, "evaluation", locale)
    too_large = tr("Files of this size are written by python -m studio evaluate --output_file.", locale)
    return [
        join(status),
        rates_table(result["models"], locale, metric),
        join(
            [
                comparison_sentences(result, locale, metric),
                script_note(result, locale),
                _normalizers(result["normalizers"], locale, metric),
            ]
        ),
        links if len(found.files) == _FILES else join([links, tag("p", too_large, class_="subdued")]),
        *shown(found.explorer, locale, seen or Seen(corrected=found.corrected)),
    ]


def _wire_opening(
    settings: Settings, registry: ModelRegistry, saved: gr.UploadButton, results: _Results, tasks: Tasks
) -> None:
    """An evaluation that was saved is looked into again; nothing is heard anew."""
    outputs = results.all()

    def opened(request: gr.Request, path: str, **_before: Any) -> Task[Any, _Found]:
        """The evaluation of an uploaded file. It names recordings, which on a Space may be anybody's."""
        own, locale = settings_for(settings, request), request_locale(request)
        if own.on_spaces:
            raise ConfigError("A Space opens no saved evaluation: open it in a studio of your own.")
        names = model_names(registry, locale)
        return Task(
            work=lambda _report, _should_stop: _looked_into(
                replace(read_evaluation(Path(path)), heard_before=0), own, locale, names
            ),
            begun=progress_bar(None, tr("Reading the files", locale)),
            finish=lambda found, was_stopped: _whole(found, was_stopped, locale),
            others=len(outputs) - 1,
            path=Path(path),
        )

    into_view = "() => document.getElementById('evaluate-status').scrollIntoView({block: 'nearest'})"
    saved.upload(None, js=into_view, **QUIET)
    saved.upload(
        **tasks.handler(opened, outputs, {"path": saved, "before": results.explorer.explorer}), **LATEST
    )


# ---------------------------------------------------------------------- the corrected list


def _wire_saving(
    settings: Settings, registry: ModelRegistry, form: dict[str, Block], results: _Results
) -> None:
    """What was corrected becomes a new list, against which the same texts are compared at once."""
    view = results.explorer

    def save(explorer: Explorer | None, seen: Seen, request: gr.Request) -> list[Any]:
        """Writes the list, or on a Space hands it down, and shows the figures against it."""
        own, locale = settings_for(settings, request), request_locale(request)
        explorer = remembered(explorer)
        corrections = {
            clip_of(explorer.clips[place]): text for place, text in seen_of(explorer, seen).corrected.items()
        }
        if not corrections:
            raise DataError("No reference is corrected: correct one in its row, then save the list.")
        if own.on_spaces:
            found, told, data = _brought_down(explorer.evaluation, corrections, own, locale)
        else:
            found, told, data = _saved(explorer.evaluation, corrections, own, locale)
        if kept := _kept_corrections(own, explorer.evaluation.source):
            kept.forget()
        looked_into = Explorer(found).named(model_names(registry, locale))
        return [told, *_whole(_found(found, looked_into, locale), False, locale)[1:], data]

    told = told_in(results.status, save, [*results.all(), form["data"]])
    view.save.click(**told, inputs=[view.explorer, view.seen], **QUIET)


def _saved(
    found: Evaluation, corrections: Corrections, settings: Settings, locale: str
) -> tuple[Evaluation, Html, Any]:
    """The evaluation against the new list, which is written; what is said; and what to evaluate next."""
    place = free_place(found.source, settings.datasets)
    manifest = (
        evaluated_clips(found)
        if is_of_the_hub(found.source)
        else read_manifest(found.source, settings, split="test")
    )
    save_list(manifest, corrections, place)
    lines = {clip_of(example): number for number, example in enumerate(manifest.examples, start=1)}
    text = N_("Saved as {path}. Corrected references: {count}. The figures below are those of this list.")
    told = note(tr(text, locale, count=len(corrections), path=place), "good")
    missing = N_("Rows of the old list that are not in the new one, because they cannot be used: {count}.")
    told = join([told, left_out_rows(manifest.problems, locale, missing)])
    return with_references(found, corrections, str(place), lines), told, str(place)


def _brought_down(
    found: Evaluation, corrections: Corrections, settings: Settings, locale: str
) -> tuple[Evaluation, Html, Any]:
    """The same on a Space, which writes nothing: the visitor takes the rows along that were evaluated."""
    examples, spoken, rows = evaluated_clips(found).examples, corrections, None
    if not is_of_the_hub(found.source):
        require_own_data(settings, found.source)
        with suppress(DataError):  # of a list that is gone there is still what was evaluated
            manifest = read_manifest(found.source, settings, split="test")
            rows = own_rows(manifest.listed_in)
            examples, spoken = evaluated_rows(manifest, found, corrections)
    lines = "".join(list_lines(examples, spoken, None, rows))
    text = N_("The list with {count} corrected references is below; so are the figures against it.")
    told = note(tr(text, locale, count=len(corrections)), "good")
    link = download_links({"jsonl": lines}, "corrected", locale)
    return with_references(found, corrections, found.source), join([told, link]), gr.skip()


def _normalizers(rows: list[dict[str, Any]], locale: str, metric: str) -> Html | None:
    if not rows:
        return None
    return folded(tr("Every text normalization", locale), normalizers_table(rows, locale, metric))
