"""One recording in, its transcript out: progress and partial text, times to click on, corrections, files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.audio import stream_audio
from studio.dataset.waveform import waveform_peaks
from studio.errors import AudioError, ConfigError
from studio.evaluation.reading_short import cost_of
from studio.registry.store import ModelRegistry
from studio.reports.markup import Html
from studio.reports.pieces import progress_bar
from studio.serving.waiting import Line
from studio.transcription.captions import LAYOUT_BOUNDS
from studio.transcription.engine import Progress, TranscribeOptions, Transcript
from studio.transcription.languages import join_texts
from studio.transcription.model_cache import ModelCache
from studio.translation import tr
from studio.ui.shared.following import QUIET, follow_languages, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.search_options import chosen, search_options
from studio.ui.shared.tasks import Pace, Task, Tasks, paced_bar, tells_steps
from studio.ui.shared.transcript_views import segment_list
from studio.ui.transcribe.form import NO_MODEL, language_and_task, recording_field, timestamps_field
from studio.ui.transcribe.results import (
    Results,
    ShownTranscript,
    build_results,
    layout_or_default,
    shown,
    wire_corrections,
)
from studio.units import duration_message
from studio.watching import ShouldStop

_WAVE_COLUMNS = 600


@dataclass(frozen=True)
class RecordingSection:
    """What the page wires to its other parts."""

    form: dict[str, Block]
    layout: dict[str, Block]
    results: Results


def build_recording(
    registry: ModelRegistry, engines: ModelCache, line: Line, model: Block, tab: gr.Tab
) -> RecordingSection:
    """The section's content, for `model`; transcription runs in a thread and ends when its visitor leaves."""
    form: dict[str, Block] = {"model": model}
    layout: dict[str, Block] = {}
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form["audio"] = recording_field(engines.longest_seconds)
            form |= language_and_task()
            form["timestamps"] = timestamps_field()
            form |= search_options()
            with gr.Row():
                start = gr.Button(_("Transcribe"), variant="primary", elem_id="transcribe-start")
                cancel = gr.Button(_("Cancel"), elem_id="transcribe-cancel")
        with gr.Column(scale=3, min_width=320):
            results = build_results(layout)
    follow_languages(form["language"], tab.select)
    tasks = Tasks(line)
    # Those who wait do so in the line, which tells them their place: Gradio's own queue lets all pass.
    # Who has spoken wants to read: the end of a recording starts it, too.
    triggers = [start.click, form["audio"].stop_recording]  # type: ignore[attr-defined]
    asked = {**form, **layout, "before": results.heard}
    work = tasks.handler(partial(_transcription, registry, engines), results.all(), asked)
    wire_work(triggers, cancel, tasks.stops, **work, **QUIET)
    wire_corrections(layout, results)
    return RecordingSection(form, layout, results)


def _transcription(
    registry: ModelRegistry,
    engines: ModelCache,
    request: gr.Request,
    *,
    before: ShownTranscript | None,
    audio: str | None,
    model: str | None,
    **values: Any,
) -> Task[Progress, tuple[Transcript, Sequence[float]]]:
    """A transcription as it grows; if it is cancelled or fails, the one before it is shown again."""
    if not audio:
        raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
    if not model:
        raise ConfigError(NO_MODEL)
    locale, path = request_locale(request), Path(audio)
    layout = layout_or_default(*(values[name] for name in LAYOUT_BOUNDS))
    options, choice = chosen(values)
    is_known = registry.has(model)
    caution = cost_of(registry.get(model).card, options.audio_context) if is_known else None
    growing = _Growing(locale, options)

    def put_back() -> list[Any]:
        """What stood there before, if something else stands there now."""
        return shown(before, layout, locale)[1:] if before and growing.has_shown else [gr.skip()] * 6

    def work(report: Callable[[Any], None], should_stop: ShouldStop) -> tuple[Transcript, Sequence[float]]:
        """The transcript and the picture of the sound: one answer, as somebody may correct it at once."""
        steps = tells_steps(report)
        heard = engines.transcribe(model, path, options, report, should_stop, choice=choice, on_step=steps)
        return heard, waveform_peaks(stream_audio(path), _WAVE_COLUMNS).tolist()

    def finish(found: tuple[Transcript, Sequence[float]], was_stopped: bool) -> list[Any]:
        """The whole transcript."""
        heard, peaks = found
        whole = ShownTranscript(heard, path, tuple(peaks), caution=caution, was_stopped=was_stopped)
        return shown(whole, layout, locale)

    return Task(
        work=work,
        begun=progress_bar(None, tr("Loading the model and the recording …", locale)),
        show=growing.show,
        show_time=growing.show_time,
        finish=finish,
        others=6,
        back=put_back if before else None,
        engines=engines,
        path=path,
    )


class _Growing:
    """A transcription under way."""

    def __init__(self, locale: str, options: TranscribeOptions) -> None:
        self._locale = locale
        self._options = options
        self._pace: Pace | None = None
        self._latest: Progress | None = None

    @property
    def has_shown(self) -> bool:
        """Whether it stands where the one before stood."""
        return self._latest is not None

    def show(self, progress: Progress) -> list[Any]:
        """What has been heard so far."""
        self._latest = progress
        self._pace = self._pace or Pace(time.monotonic())
        self._pace.note(progress.done_seconds, time.monotonic())
        language = self._options.written_in(progress.language)
        return _partial(progress, self._pace, language, self._locale)

    def show_time(self) -> list[Any] | None:
        """Of time that passes, only the bar."""
        self._pace = self._pace or Pace(time.monotonic())
        return [heard_bar(self._latest, self._pace, self._locale)] if self._latest else None


def heard_bar(progress: Progress, pace: Pace, locale: str) -> Html:
    """How much of a recording has been heard."""
    done, total = progress.done_seconds, progress.total_seconds
    text = tr(
        "Transcribed {done} of {total}", locale, done=duration_message(done), total=duration_message(total)
    )
    return paced_bar(text, done, total, pace, locale)


def _partial(progress: Progress, pace: Pace, language: str, locale: str) -> list[Any]:
    """What is shown while a recording is being worked on, the text in the `language` of that code."""
    heard = join_texts([segment.text for segment in progress.segments], language)
    segments = segment_list(progress.segments, None, locale)
    text = gr.Textbox(heard, visible=True)
    return [heard_bar(progress, pace, locale), text, segments, gr.Accordion(visible=False), "", "", gr.skip()]
