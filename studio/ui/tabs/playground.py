"""Recording in, transcript out: any model, live progress, times to click on, files to download."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import AudioError, StudioError
from studio.inference.captions import FORMATS, render
from studio.inference.engine import Progress, TranscribeOptions, Transcript
from studio.inference.model_cache import ModelCache
from studio.registry.spec import ModelKind, ModelSource
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.ui.errors import shows_errors
from studio.ui.i18n import _, request_locale, tr
from studio.ui.markup import Html
from studio.ui.samples import SampleClip, sample_clips
from studio.ui.streaming import Stops, Worked
from studio.ui.transcript_views import download_links, language_choices, segment_list, transcript_facts
from studio.ui.views import model_choices, note, progress_bar
from studio.units import format_duration

_ON_LOAD = """
document.addEventListener('keydown', (event) => {
  const button = document.querySelector('#transcribe-start');
  const isAsked = event.key === 'Enter' && (event.ctrlKey || event.metaKey);
  if (isAsked && button && button.offsetParent) button.click();
});
const stopAt = {until: Infinity};
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-seek]');
  const player = element.querySelector('audio');
  if (!button || !player) return;
  player.currentTime = parseFloat(button.dataset.seek);
  stopAt.until = Math.max(parseFloat(button.dataset.until), player.currentTime + 0.3);
  player.play();
});
element.addEventListener('timeupdate', (event) => {
  const player = event.target;
  if (player.currentTime >= stopAt.until) { player.pause(); stopAt.until = Infinity; }
  for (const button of element.querySelectorAll('[data-seek]')) {
    const on = player.currentTime >= +button.dataset.seek && player.currentTime < +button.dataset.until;
    button.toggleAttribute('data-playing', on && !player.paused);
  }
}, true);
"""


@dataclass(frozen=True)
class _Results:
    """Components on the right."""

    status: gr.HTML
    text: gr.Textbox
    segments: gr.HTML
    facts: gr.HTML
    downloads: gr.HTML

    def all(self) -> list[Block]:
        """In the order in which the handlers give them."""
        return [self.status, self.text, self.segments, self.facts, self.downloads]


def build_playground_tab(registry: ModelRegistry, engines: ModelCache, tab: gr.Tab) -> None:
    """The tab's content; transcription runs in a thread and ends when its visitor leaves."""
    gr.Markdown(
        _("Upload a recording or speak, choose a model, and read what it heard."), elem_classes="lead"
    )
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form = _form()
            with gr.Row():
                start = gr.Button(_("Transcribe"), variant="primary", elem_id="transcribe-start")
                cancel = gr.Button(_("Cancel"), elem_id="transcribe-cancel")
        with gr.Column(scale=3, min_width=320):
            results = _Results(
                gr.HTML(elem_id="transcribe-status"),
                gr.Textbox(
                    label=_("Transcript"),
                    lines=4,
                    max_lines=14,
                    buttons=["copy"],
                    interactive=False,
                    elem_id="transcript",
                ),
                gr.HTML(elem_id="transcript-segments", js_on_load=_ON_LOAD),
                gr.HTML(elem_id="transcript-facts"),
                gr.HTML(elem_id="transcript-downloads"),
            )
    _wire(registry, engines, tab, form, results, start, cancel)


def _form() -> dict[str, Block]:
    """Components under the names of the handler's arguments."""
    form: dict[str, Block] = {}
    form["audio"] = gr.Audio(
        sources=["upload", "microphone"],
        type="filepath",
        label=_("Recording"),
        elem_id="transcribe-audio",
        waveform_options={"show_recording_waveform": True},
    )
    gr.Markdown(
        _("Browsers lend the microphone only to pages on https or on this machine (localhost)."),
        elem_classes="subdued",
    )
    samples = sample_clips()
    if samples:
        _sample_buttons(samples, form["audio"])
    form["model"] = gr.Dropdown(
        [],
        label=_("Model"),
        info=_("From the list, or a folder or Hub id."),
        interactive=True,
        allow_custom_value=True,
        elem_id="transcribe-model",
    )
    gr.Markdown(
        _(
            "The demo model is tiny: it knows a small set of spoken commands (lights, timers, weather, "
            "numbers, spelling …) and learned them from a speech synthesizer, so it may mishear you. For "
            "everyday speech choose a released model: it is downloaded at its first use."
        ),
        elem_classes="subdued",
    )
    with gr.Row():
        form["language"] = gr.Dropdown(
            language_choices("en"),
            value="auto",
            label=_("Language"),
            min_width=140,
            elem_id="transcribe-language",
        )
        form["task"] = gr.Dropdown(
            [(_("Transcribe"), "transcribe"), (_("Translate to English"), "translate")],
            value="transcribe",
            label=_("Task"),
            min_width=140,
        )
    form["timestamps"] = gr.Radio(
        [(_("By segment"), "segment"), (_("By word"), "word"), (_("None"), "none")],
        value="segment",
        label=_("Timestamps"),
    )
    with gr.Accordion(_("More options"), open=False):
        form["initial_prompt"] = gr.Textbox(
            "", label=_("Prompt"), info=_("Words to expect: names, terms, spelling."), max_lines=3
        )
        form["num_beams"] = gr.Slider(
            1, 8, value=1, step=1, label=_("Beams"), info=_("More beams: a little better, much slower.")
        )
    return form


def _sample_buttons(samples: tuple[SampleClip, ...], audio: Block) -> None:
    """A button a sample clip, which puts it where a recording goes."""
    with gr.Row(elem_classes="samples"):
        for sample in samples:
            gr.Button(sample.title, size="sm", min_width=90).click(
                functools.partial(str, sample.path),
                None,
                audio,
                api_visibility="private",
                show_progress="hidden",
                concurrency_limit=None,
            )


def _wire(
    registry: ModelRegistry,
    engines: ModelCache,
    tab: gr.Tab,
    form: dict[str, Block],
    results: _Results,
    start: gr.Button,
    cancel: gr.Button,
) -> None:
    stops = Stops()

    def refresh(model: str | None, known: list[str], request: gr.Request) -> list[Any]:
        return _choices(registry, model, known, request_locale(request))

    @shows_errors
    def hear(request: gr.Request, **values: Any) -> Iterator[list[Any]]:
        yield from _transcribe(engines, stops, values, str(request.session_hash), request_locale(request))

    def stop(request: gr.Request) -> None:
        stops.cancel(str(request.session_hash))

    quiet: dict[str, Any] = {
        "api_visibility": "private",
        "show_progress": "hidden",
        "concurrency_limit": None,
    }
    known = gr.State([])
    tab.select(refresh, [form["model"], known], [form["model"], form["language"], known], **quiet)
    start.click(
        hear,
        inputs_kwargs=form,
        outputs=results.all(),
        api_visibility="private",
        show_progress="hidden",
        concurrency_limit=2,
    )
    cancel.click(stop, None, None, **quiet)


def _choices(registry: ModelRegistry, model: str | None, known: list[str], locale: str) -> list[Any]:
    """Models and languages to choose from. The choice made before stays, unless a model was trained since."""
    specs = [spec for spec in registry.all() if not spec.problem and spec.kind is not ModelKind.EXPORT]
    ids = [spec.id for spec in specs]
    trained = [spec.id for spec in specs if spec.source is ModelSource.TRAINED]
    new = [model_id for model_id in trained if model_id not in known]
    chosen = new[0] if new else model
    if not chosen or not registry.has(chosen):
        chosen = DEMO_ID if DEMO_ID in ids else None
    return [
        gr.Dropdown(choices=model_choices(specs, locale), value=chosen),
        gr.Dropdown(choices=language_choices(locale)),
        trained,
    ]


def _transcribe(
    engines: ModelCache, stops: Stops, values: dict[str, Any], visitor: str, locale: str
) -> Iterator[list[Any]]:
    """Runs one transcription and shows it as it grows."""
    audio = values.pop("audio")
    model = values.pop("model")
    if not audio:
        raise AudioError("There is no recording yet: upload a file, press Record, or take a sample.")
    path, options = Path(audio), TranscribeOptions(**values)
    event = stops.begin(visitor)
    work: Worked[Progress, Transcript] = Worked(
        lambda report: engines.transcribe(model, path, options, on_progress=report, should_stop=event.is_set)
    )
    try:
        yield [progress_bar(0.0, tr("Loading the model and the recording …", locale)), "", "", "", ""]
        for progress in work:
            yield _partial(progress, locale)
        yield _whole(work.result, path, event.is_set(), locale)
    except StudioError as error:
        yield [""] * 5
        # The recording lies in a folder of the server, whose name says nothing to the visitor.
        values = {name: path.name if str(v) == str(path) else v for name, v in error.values.items()}
        raise type(error)(error.template, **values) from error
    finally:
        stops.end(visitor, event)


def _partial(progress: Progress, locale: str) -> list[Any]:
    """What is shown while a recording is being worked on."""
    text = tr(
        "Heard {done} of {total}",
        locale,
        done=format_duration(progress.done_seconds),
        total=format_duration(progress.total_seconds),
    )
    share = progress.done_seconds / progress.total_seconds if progress.total_seconds else 0.0
    heard = " ".join(segment.text.strip() for segment in progress.segments)
    return [progress_bar(share, text), heard, segment_list(progress.segments, None, locale), "", ""]


def _whole(transcript: Transcript, path: Path, was_stopped: bool, locale: str) -> list[Any]:
    """What is shown at the end."""
    status: Html = Html("")
    if was_stopped:
        status = note(tr("Cancelled: this is what was heard so far.", locale), "warning")
    elif not transcript.text.strip():
        status = note(tr("The model heard no speech in this recording.", locale), "warning")
    files = {ending: render(transcript, ending) for ending in FORMATS}
    return [
        status,
        transcript.text.strip(),
        segment_list(transcript.segments, path, locale),
        transcript_facts(transcript, locale),
        download_links(files, path.stem or "transcript", locale),
    ]
