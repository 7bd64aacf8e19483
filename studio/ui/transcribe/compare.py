"""Two or three models on one recording: what each wrote, with the differences marked."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import AudioError, ConfigError
from studio.evaluation.side_by_side import SideBySide, hear_side_by_side
from studio.registry.store import ModelRegistry
from studio.reports.evaluation_views import side_by_side_view
from studio.reports.language_names import language_choices
from studio.reports.pieces import note, progress_bar
from studio.serving.waiting import Line
from studio.transcription.engine import Progress
from studio.transcription.model_cache import ModelCache
from studio.translation import N_, tr
from studio.ui.shared.following import QUIET, Held, compared_models, opened, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import chosen, engine_fields
from studio.ui.shared.tasks import Task, Tasks, tells_steps
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.views import model_names
from studio.ui.transcribe.form import language_and_task, recording_field
from studio.ui.transcribe.results import KEPT_SECONDS

MOST_MODELS = 3


@dataclass(frozen=True)
class _Heard:
    """A comparison, as far as its models were reached."""

    found: SideBySide
    was_stopped: bool


def build_compare(registry: ModelRegistry, engines: ModelCache, line: Line, tab: gr.Tab) -> Held:
    """The section's content; returns what the server holds of it."""
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            audio = recording_field(engines.longest_seconds, "compare")
            models = gr.Dropdown(
                [],
                label=_("Models"),
                info=_("Two or three; the first is the one that the others are compared with."),
                multiselect=True,
                max_choices=MOST_MODELS,
                allow_custom_value=True,
                interactive=True,
                elem_id="compare-models",
            )
            spoken = language_and_task("compare")
            with gr.Accordion(_("Engine"), open=False):
                played = engine_fields("compare")
            reference = gr.Textbox(
                "",
                label=_("Reference"),
                info=_("Optional; each model's errors are counted against it."),
                lines=2,
                elem_id="compare-reference",
            )
            with gr.Row():
                start = gr.Button(_("Compare"), variant="primary", elem_id="compare-start")
                cancel = gr.Button(_("Cancel"), elem_id="compare-cancel")
        with gr.Column(scale=3, min_width=320):
            status = gr.HTML(
                _("What each model wrote will appear here, with the differences marked."),
                elem_id="compare-status",
            )
            table = gr.HTML(elem_id="compare-table")
            download = gr.HTML(elem_id="compare-download")
            heard = gr.State(None, time_to_live=KEPT_SECONDS)
    form: dict[str, Block] = {"audio": audio, "models": models, **spoken, **played, "reference": reference}
    shown = [status, table, download]

    def refresh(chosen: list[str] | None, request: gr.Request) -> list[Any]:
        """The models and the languages."""
        languages = gr.Dropdown(choices=language_choices(request_locale(request)))
        return [compared_models(registry, chosen, request), languages]

    gr.on(opened(tab), refresh, models, [models, form["language"]], **QUIET)
    tasks = Tasks(line)
    asked = {**form, "before": heard}
    work = tasks.handler(partial(_comparison, registry, engines), [*shown, heard], asked)
    wire_work([start.click], cancel, tasks.stops, status, **work, **QUIET)
    return Held(heard, shown, partial(_shown, registry))


def _asked(values: dict[str, Any]) -> tuple[Path, list[str]]:
    """The recording and the models.

    Raises:
        AudioError: if there is no recording.
        ConfigError: if there are too many models.
    """
    if not values["audio"]:
        raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
    models = values["models"] or []
    if len(models) > MOST_MODELS:
        raise ConfigError(
            "{count} models are chosen: choose at most {most}.", count=len(models), most=MOST_MODELS
        )
    return Path(values["audio"]), models


def _comparison(
    registry: ModelRegistry, engines: ModelCache, request: gr.Request, **values: Any
) -> Task[Progress, SideBySide]:
    """Hears the recording with each model, and shows the differences."""
    locale = request_locale(request)
    path, models = _asked(values)
    options, choice = chosen(values)

    def show(step: Progress) -> list[Any]:
        """A bar of the recording; its length is known once it has been read."""
        share = step.done_seconds / step.total_seconds if step.total_seconds else None
        return [progress_bar(share, tr("Transcribing …", locale))]

    def finish(found: SideBySide, was_stopped: bool) -> list[Any]:
        """What each model wrote, also where not all were reached."""
        heard = _Heard(found, was_stopped)
        return [*_shown(registry, heard, locale), heard if found.hearings else None]

    return Task(
        work=lambda report, should_stop: hear_side_by_side(
            engines,
            models,
            path,
            options,
            values["reference"],
            report,
            should_stop,
            choice=choice,
            on_step=tells_steps(report),
        ),
        begun=progress_bar(None, tr("Loading the models and the recording …", locale)),
        show=show,
        finish=finish,
        others=3,
        engines=engines,
        path=path,
    )


def _shown(registry: ModelRegistry, heard: _Heard, locale: str) -> list[Any]:
    """How it ended, the table and the file."""
    found = heard.found
    some = N_("Cancelled. The models that had finished are below.")
    ended = tr(some if found.hearings else N_("Cancelled."), locale)
    files = {"json": json.dumps(found.to_json(), ensure_ascii=False, indent=2)}
    return [
        note(ended, "warning") if heard.was_stopped else "",
        side_by_side_view(found, locale, model_names(registry, locale)),
        download_links(files, Path(found.audio_path).stem, locale),
    ]
