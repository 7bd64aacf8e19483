"""Two or three models on one recording: what each wrote, with the differences marked."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import AudioError, ConfigError, StudioError
from studio.evaluation.side_by_side import SideBySide, hear_side_by_side
from studio.registry.store import ModelRegistry
from studio.reports.language_names import language_choices
from studio.reports.markup import Html, join
from studio.reports.pieces import note, progress_bar
from studio.transcription.engine import EngineChoice, Progress, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from studio.translation import tr
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.evaluation_views import side_by_side_view
from studio.ui.shared.following import QUIET, compared_models, opened, wire_cancel
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import engine_fields
from studio.ui.shared.streaming import Stops, Worked
from studio.ui.shared.transcript_views import download_links
from studio.ui.shared.under_way import Step, shared_note, step_bar, waiting_note
from studio.ui.shared.waiting import Line
from studio.ui.transcribe.form import language_and_task, sample_buttons

MOST_MODELS = 3


def build_compare(registry: ModelRegistry, engines: ModelCache, line: Line, tab: gr.Tab) -> None:
    """The section's content."""
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            audio = gr.Audio(
                sources=["upload", "microphone"],
                type="filepath",
                label=_("Recording"),
                elem_id="compare-audio",
                buttons=["download"],
            )
            sample_buttons(audio)
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
                label=_("What was said"),
                info=_("If you type it in, each model's errors are counted against it."),
                lines=2,
                elem_id="compare-reference",
            )
            with gr.Row():
                start = gr.Button(_("Compare"), variant="primary", elem_id="compare-start")
                cancel = gr.Button(_("Cancel"))
        with gr.Column(scale=3, min_width=320):
            status = gr.HTML(
                _("Here will stand what each model wrote, with the differences marked."),
                elem_id="compare-status",
            )
            table = gr.HTML(elem_id="compare-table")
            download = gr.HTML(elem_id="compare-download")
    form: dict[str, Block] = {"audio": audio, "models": models, **spoken, **played, "reference": reference}
    _wire(registry, engines, line, tab, form, [status, table, download], start, cancel)


def _wire(
    registry: ModelRegistry,
    engines: ModelCache,
    line: Line,
    tab: gr.Tab,
    form: dict[str, Block],
    outputs: list[Block],
    start: gr.Button,
    cancel: gr.Button,
) -> None:
    stops = Stops()

    def refresh(chosen: list[str] | None, request: gr.Request) -> list[Any]:
        locale = request_locale(request)
        return [compared_models(registry, chosen, locale), gr.Dropdown(choices=language_choices(locale))]

    @shows_errors
    async def compare(request: gr.Request, **values: Any) -> AsyncIterator[list[Any]]:
        visitor, locale = str(request.session_hash), request_locale(request)
        async for step in _compare(engines, line, stops, values, visitor, locale):
            yield step

    gr.on(opened(tab), refresh, form["models"], [form["models"], form["language"]], **QUIET)
    start.click(compare, inputs_kwargs=form, outputs=outputs, **QUIET)
    wire_cancel(cancel, stops, outputs[0])


def _bar(step: Progress | Step | None, locale: str) -> Html | None:
    """How far it is; None where nothing can be said yet."""
    if isinstance(step, Step):
        return step_bar(step, locale)
    if step is None or not step.total_seconds:
        return None
    return progress_bar(step.done_seconds / step.total_seconds, tr("Transcribing …", locale))


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


async def _compare(
    engines: ModelCache, line: Line, stops: Stops, values: dict[str, Any], visitor: str, locale: str
) -> AsyncIterator[list[Any]]:
    """Waits for its turn, hears the recording with each model, and shows the differences."""
    path, models = _asked(values)
    options = TranscribeOptions(language=values["language"], task=values["task"])
    choice = EngineChoice(values["engine"], values["precision"])
    event, place = stops.begin(visitor), line.join()
    work: Worked[Progress | Step, SideBySide] = Worked(
        lambda report: hear_side_by_side(
            engines,
            models,
            path,
            options,
            values["reference"],
            report,
            event.is_set,
            choice=choice,
            on_step=lambda doing, share: report(Step(doing, share)),
        )
    )
    try:
        async for before in place.wait():
            if event.is_set():
                yield [note(tr("Cancelled before it began.", locale), "warning"), "", ""]
                return
            yield [waiting_note(before, locale), "", ""]
        told = await asyncio.to_thread(shared_note, engines, locale)
        yield [join([told, progress_bar(0.0, tr("Loading the models and the recording …", locale))]), "", ""]
        async for step in work:
            bar = _bar(step, locale)
            yield [join([told, bar]), "", ""] if bar else [gr.skip()] * 3
        found = work.result
        status = note(tr("Cancelled: these models were done.", locale), "warning") if event.is_set() else ""
        files = {"json": json.dumps(found.to_json(), ensure_ascii=False, indent=2)}
        yield [status, side_by_side_view(found, locale), download_links(files, path.stem, locale)]
    except StudioError as error:
        named = {name: path.name if str(v) == str(path) else v for name, v in error.values.items()}
        raise type(error)(error.template, **named) from error
    finally:
        place.leave()
        stops.end(visitor, event)
