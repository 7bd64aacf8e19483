"""What the page shows of a transcription when it is done: the text, the sound, corrections, files."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import ConfigError, DataError
from studio.messages import Message
from studio.reports.markup import Html
from studio.reports.pieces import note
from studio.settings import ASSETS
from studio.transcription.captions import DEFAULT_LAYOUT, FORMATS, CaptionLayout, render
from studio.transcription.corrections import corrected
from studio.transcription.engine import Transcript
from studio.translation import N_, paragraph, said, tr
from studio.ui.shared.errors import fields_of, refusal, told_in
from studio.ui.shared.following import EACH, LATEST, QUIET, Held, changes_of
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.light_page import script
from studio.ui.shared.transcript_views import download_links, segment_list, transcript_facts

SCRIPT = ASSETS / "transcript.js"
KEPT_SECONDS = 3600.0
"""A transcript can be corrected for so long; then the studio forgets it."""


@dataclass(frozen=True)
class ShownTranscript:
    """What the page keeps of a transcription, to correct it and to lay out its captions anew."""

    transcript: Transcript
    path: Path
    peaks: tuple[float, ...] = ()
    caution: Message | None = None
    """What to know about the way in which it was heard."""
    was_stopped: bool = False
    """Whether it ends where it was cancelled."""
    written: tuple[str, ...] = ()
    """What somebody is writing into the segments, until it takes the place of the transcript."""
    mark: str = field(default_factory=lambda: token_hex(4))
    """Tells it from another of the same words: Gradio draws nothing anew that is the same."""

    def as_written(self) -> "ShownTranscript":
        """With what was written so far in place of the transcript."""
        if not self.written:
            return self
        return replace(self, transcript=corrected(self.transcript, self.written), written=())


@dataclass(frozen=True)
class Results:
    """Components on the right."""

    status: gr.HTML
    text: gr.Textbox
    segments: gr.HTML
    refused: gr.HTML
    """Why something cannot be corrected or laid out."""
    captions: gr.Accordion
    downloads: gr.HTML
    facts: gr.HTML
    heard: gr.State

    def all(self) -> list[Block]:
        """In the order in which the handlers give them."""
        captions = [self.captions, self.downloads]
        return [self.status, self.text, self.segments, *captions, self.facts, self.heard]


def build_results(layout: dict[str, Block]) -> Results:
    """The components, in their order on the page; the fields of a caption's layout go into `layout`."""
    status = gr.HTML(
        _("The transcript will appear here: text, a time for each word, and captions to download."),
        elem_id="transcribe-status",
    )
    text = gr.Textbox(
        label=_("Transcript"),
        lines=3,
        max_lines=14,
        buttons=["copy"],
        interactive=False,
        visible=False,
        elem_id="transcript",
    )
    segments = gr.HTML(elem_id="transcript-segments", js_on_load=script(SCRIPT))
    refused = gr.HTML(elem_id="transcript-refused")
    downloads = gr.HTML(elem_id="transcript-downloads")
    with gr.Accordion(_("Layout of the captions"), open=False, visible=False) as captions, gr.Row():
        layout |= layout_fields("caption")
    facts = gr.HTML(elem_id="transcript-facts")
    heard = gr.State(None, time_to_live=KEPT_SECONDS)
    return Results(status, text, segments, refused, captions, downloads, facts, heard)


def layout_fields(prefix: str) -> dict[str, Block]:
    """How long a caption's lines are and how many, under the names of the options."""
    fields: dict[str, Block] = {}
    for name, label in (
        ("max_line_width", _("Longest line (columns)")),
        ("max_line_count", _("Lines of a caption")),
    ):
        fields[name] = gr.Number(
            getattr(CaptionLayout(), name),
            label=label,
            min_width=140,
            elem_id=f"{prefix}-{name}",
        )
    return fields


def shown(heard: ShownTranscript, layout: CaptionLayout, locale: str) -> list[Any]:
    """What is shown at the end, or again; what was being written then stands."""
    heard = heard.as_written()
    transcript = heard.transcript
    status: Html = Html("")
    if heard.was_stopped:
        so_far = N_("Cancelled: this is the text so far.") if transcript.text.strip() else N_("Cancelled.")
        status = note(tr(so_far, locale), "warning")
    elif not transcript.text.strip():
        nothing = tr("No speech was found in this recording.", locale)
        why = [said(caution, locale) for caution in transcript.notes]
        status = note(paragraph([nothing, *why], locale), "warning")
    elif cautions := [*filter(None, [heard.caution]), *transcript.notes]:
        status = note(paragraph([said(caution, locale) for caution in cautions], locale), "warning")
    is_text = bool(transcript.text.strip())
    return [
        status,
        gr.Textbox(transcript.text.strip(), visible=is_text),
        _segments(heard, locale),
        gr.Accordion(visible=is_text),
        _downloads(heard, layout, locale),
        transcript_facts(transcript, locale),
        heard,
    ]


def _segments(heard: ShownTranscript, locale: str) -> Html:
    return segment_list(
        heard.transcript.segments,
        heard.path,
        locale,
        peaks=heard.peaks,
        duration_seconds=heard.transcript.duration_seconds,
        mark=heard.mark,
    )


def _downloads(heard: ShownTranscript, layout: CaptionLayout, locale: str) -> Html:
    files = {ending: render(heard.transcript, ending, layout) for ending in FORMATS}
    return download_links(files, heard.path.stem or "transcript", locale)


# ---------------------------------------------------------------------- corrections and layout


def wire_corrections(layout: dict[str, Block], results: Results) -> None:
    """What a person writes into the segments, and how captions are laid out, goes into text and files."""

    def correct(
        heard: ShownTranscript | None, width: float, count: float, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """Text and files with the corrections so far, which are kept beside the transcript."""
        heard, locale = _with(heard, event._data["texts"]), request_locale(request)
        return [*_corrected_files(heard, width, count, locale), heard, why_not(width, count, locale)]

    def finish(
        heard: ShownTranscript | None, width: float, count: float, event: gr.EventData, request: gr.Request
    ) -> list[Any]:
        """The corrected transcript in place of the one before."""
        after, locale = _with(heard, event._data["texts"]).as_written(), request_locale(request)
        told = why_not(width, count, locale)
        return [*_corrected_files(after, width, count, locale), after, told, _segments(after, locale)]

    def why_not(width: float, count: float, locale: str) -> Html | str:
        """What stands at a field that holds no size of captions; a correction does not take it away."""
        try:
            CaptionLayout(width, count)  # type: ignore[arg-type]
        except ConfigError as error:
            return refusal(error, fields, locale)
        return ""

    def lay_out(heard: ShownTranscript | None, width: float, count: float, request: gr.Request) -> Any:
        """The files with captions of that size."""
        if heard is None:
            return gr.skip()
        return _downloads(heard.as_written(), CaptionLayout(width, count), request_locale(request))  # type: ignore[arg-type]

    inputs = [results.heard, layout["max_line_width"], layout["max_line_count"]]
    refused, fields = results.refused, fields_of(layout)
    files = [results.text, results.downloads, results.heard, refused]
    edited = told_in(refused, correct, files, layout)
    results.segments.edit(**edited, inputs=inputs, **LATEST)
    finished = told_in(refused, finish, [*files, results.segments], layout)
    results.segments.submit(**finished, inputs=inputs, **EACH)
    laid_out = told_in(refused, lay_out, [results.downloads], layout)
    gr.on(changes_of(layout), **laid_out, inputs=inputs, **QUIET)


def held(layout: dict[str, Block], results: Results) -> Held:
    """What the server holds of a visitor's transcript; it is shown in the `layout` that the form has."""

    def show(heard: ShownTranscript, locale: str, width: float, count: float) -> list[Any]:
        """The transcript that the session holds."""
        return shown(heard, layout_or_default(width, count), locale)

    fields = [layout["max_line_width"], layout["max_line_count"]]
    return Held(results.heard, results.all(), show, fields, results.refused, layout)


def _with(heard: ShownTranscript | None, texts: list[Any]) -> ShownTranscript:
    """The transcript with the texts that somebody is writing beside it."""
    if heard is None:
        raise DataError(
            "The studio does not hold this transcript any more, so it cannot be corrected: copy what you "
            "wrote, and transcribe the recording again."
        )
    return replace(heard, written=tuple(map(str, texts)))


def layout_or_default(width: Any, count: Any) -> CaptionLayout:
    """As the form has it; the usual one where it holds no such size: its field says so, and nothing else is
    to suffer."""
    with suppress(ConfigError):
        return CaptionLayout(width, count)
    return DEFAULT_LAYOUT


def _corrected_files(heard: ShownTranscript, width: float, count: float, locale: str) -> list[Any]:
    """The whole text and the files with a person's corrections in them."""
    after = heard.as_written()
    return [after.transcript.text.strip(), _downloads(after, layout_or_default(width, count), locale)]
