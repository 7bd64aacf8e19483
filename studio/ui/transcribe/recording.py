"""One recording in, its transcript out: progress and partial text, times to click on, corrections, files."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.audio import stream_audio
from studio.dataset.waveform import waveform_peaks
from studio.errors import AudioError, ConfigError, StudioError
from studio.evaluation.reading_short import cost_of
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html, join
from studio.reports.pieces import note, progress_bar
from studio.sentences import Sentence
from studio.transcription.captions import LAYOUT_BOUNDS, CaptionLayout
from studio.transcription.engine import EngineChoice, Progress, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from studio.translation import tr
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.following import QUIET
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.pace import Pace
from studio.ui.shared.search_options import chosen, search_options
from studio.ui.shared.streaming import Stops, Worked
from studio.ui.shared.transcript_views import segment_list
from studio.ui.shared.under_way import Step, shared_note, step_bar, waiting_note
from studio.ui.shared.waiting import Line
from studio.ui.transcribe.form import (
    NO_MODEL,
    choices,
    language_and_task,
    model_field,
    recording_field,
    timestamps_field,
)
from studio.ui.transcribe.results import Heard, Results, build_results, empty, shown, wire_corrections
from studio.units import format_duration

_WAVE_COLUMNS = 600


def build_recording(registry: ModelRegistry, engines: ModelCache, line: Line, tab: gr.Tab) -> None:
    """The section's content; transcription runs in a thread and ends when its visitor leaves."""
    form: dict[str, Block] = {}
    layout: dict[str, Block] = {}
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form["audio"] = recording_field()
            form["model"] = model_field()
            form |= language_and_task()
            form["timestamps"] = timestamps_field()
            form |= search_options()
            with gr.Row():
                start = gr.Button(_("Transcribe"), variant="primary", elem_id="transcribe-start")
                cancel = gr.Button(_("Cancel"), elem_id="transcribe-cancel")
        with gr.Column(scale=3, min_width=320):
            results = build_results(layout)
    _wire_start(registry, engines, line, tab, form, layout, results, start, cancel)
    wire_corrections(layout, results)


def _wire_start(
    registry: ModelRegistry,
    engines: ModelCache,
    line: Line,
    tab: gr.Tab,
    form: dict[str, Block],
    layout: dict[str, Block],
    results: Results,
    start: gr.Button,
    cancel: gr.Button,
) -> None:
    stops = Stops()

    def refresh(model: str | None, known: list[str], request: gr.Request) -> list[Any]:
        return choices(registry, model, known, request_locale(request))

    @shows_errors
    async def hear(request: gr.Request, **values: Any) -> AsyncIterator[list[Any]]:
        visitor, locale = str(request.session_hash), request_locale(request)
        is_known = registry.has(values["model"] or "")
        caution = cost_of(registry.get(values["model"]).card, values["audio_context"]) if is_known else None
        async for step in _transcribe(engines, line, stops, values, visitor, locale, caution):
            yield step

    def stop(request: gr.Request) -> None:
        stops.cancel(str(request.session_hash))

    known = gr.State([])
    tab.select(refresh, [form["model"], known], [form["model"], form["language"], known], **QUIET)
    # Those who wait do so in the line, which tells them their place: Gradio's own queue lets all pass.
    # Who has spoken wants to read: the end of a recording starts it, too.
    triggers = [start.click, form["audio"].stop_recording]  # type: ignore[attr-defined]
    gr.on(triggers, hear, inputs_kwargs={**form, **layout}, outputs=results.all(), **QUIET)
    cancel.click(stop, None, None, **QUIET)


async def _transcribe(
    engines: ModelCache,
    line: Line,
    stops: Stops,
    values: dict[str, Any],
    visitor: str,
    locale: str,
    caution: Sentence | None,
) -> AsyncIterator[list[Any]]:
    """Waits for its turn, runs one transcription and shows it as it grows."""
    layout = CaptionLayout(*(int(values.pop(name) or 0) for name in LAYOUT_BOUNDS))
    audio, model = values.pop("audio"), values.pop("model")
    if not audio:
        raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
    if not model:
        raise ConfigError(NO_MODEL)
    path = Path(audio)
    options, choice = chosen(values)
    event, place = stops.begin(visitor), line.join()
    try:
        async for before in place.wait():
            if event.is_set():
                yield [note(tr("Cancelled before it began.", locale), "warning"), *empty()]
                return
            yield [waiting_note(before, locale), *empty()]
        told = await asyncio.to_thread(shared_note, engines, locale)
        async for step in _work(engines, model, path, (options, choice), event.is_set, locale):
            if isinstance(step, Heard):
                yield shown(replace(step, caution=caution), layout, event.is_set(), locale)
            else:
                yield [join([told, step[0]]), *step[1:]]
    except StudioError as error:
        yield ["", *empty()]
        # The recording lies in a folder of the server, whose name says nothing to the visitor.
        named = {name: path.name if str(v) == str(path) else v for name, v in error.values.items()}
        raise type(error)(error.template, **named) from error
    finally:
        place.leave()
        stops.end(visitor, event)


async def _work(
    engines: ModelCache,
    model: str,
    path: Path,
    asked: tuple[TranscribeOptions, EngineChoice],
    should_stop: Any,
    locale: str,
) -> AsyncIterator[list[Any] | Heard]:
    """What the page shows while the engine works, then what it heard: first without the sound's picture."""
    work: Worked[Progress | Step, Transcript] = Worked(
        lambda report: engines.transcribe(
            model,
            path,
            asked[0],
            on_progress=report,
            should_stop=should_stop,
            choice=asked[1],
            on_step=lambda doing, share: report(Step(doing, share)),
        )
    )
    # Before the page hears of it: bringing it the first line takes a while, in which the model can hear.
    work.begin()
    pace, latest = Pace(time.monotonic()), None
    yield [progress_bar(0.0, tr("Loading the model and the recording …", locale)), *empty()]
    async for progress in work:
        if isinstance(progress, Step):
            yield [step_bar(progress, locale), *empty()]
        elif progress is not None:
            latest = progress
            pace.note(progress.done_seconds, time.monotonic())
            yield _partial(progress, pace, locale)
        elif latest is not None:
            yield [_bar(latest, pace, locale), *[gr.skip()] * 6]
    heard = Heard(work.result, path)
    yield heard
    drawing: Worked[None, tuple[float, ...]] = Worked(
        lambda _report: tuple(waveform_peaks(stream_audio(path), _WAVE_COLUMNS).tolist())
    )
    async for _nothing in drawing:
        pass
    yield replace(heard, peaks=drawing.result)


def _bar(progress: Progress, pace: Pace, locale: str) -> Html:
    text = tr(
        "Heard {done} of {total}",
        locale,
        done=format_duration(progress.done_seconds),
        total=format_duration(progress.total_seconds),
    )
    share = progress.done_seconds / progress.total_seconds if progress.total_seconds else 0.0
    left = pace.left_seconds(progress.total_seconds, time.monotonic())
    return progress_bar(
        share, text, tr("about {left} left", locale, left=format_duration(left)) if left is not None else ""
    )


def _partial(progress: Progress, pace: Pace, locale: str) -> list[Any]:
    """What is shown while a recording is being worked on."""
    heard = " ".join(segment.text.strip() for segment in progress.segments)
    segments = segment_list(progress.segments, None, locale)
    text = gr.Textbox(heard, visible=True)
    return [_bar(progress, pace, locale), text, segments, gr.Accordion(visible=False), "", "", None]
