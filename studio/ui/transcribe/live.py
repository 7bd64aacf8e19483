"""The microphone, live: words stand on the page while they are spoken."""

import asyncio
import time
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import StudioError
from studio.reports.markup import Html, tag
from studio.settings import ASSETS
from studio.transcription.captions import FORMATS, render
from studio.transcription.engine import EngineChoice, TranscribeOptions
from studio.transcription.model_cache import ModelCache
from studio.translation import N_, said, tr
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET, follow_languages
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.light_page import script
from studio.ui.shared.search_options import engine_fields
from studio.ui.shared.tasks import ExportStep, shared_note
from studio.ui.shared.transcript_views import download_links
from studio.ui.transcribe.form import language_and_task
from studio.ui.transcribe.live_sessions import LiveSessions

SCRIPT = ASSETS / "microphone.js"
_ANSWER_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_WORDS = {
    "begin": N_("Start listening"),
    "end": N_("Stop"),
    "cancel": N_("Cancel"),
    "loading": N_("Loading the model …"),
    "listening": N_("Listening: 0 s"),
    "late": N_("Listening: 0 s, the text is 1 s behind"),
    "rest": N_("Finishing …"),
    "heard": N_("Transcribed: 0 s"),
    "insecure": N_(
        "Browsers allow the microphone only on https and on this machine: open the studio as "
        "http://localhost, or put it behind https."
    ),
    "missing": N_("There is no microphone here: connect one, or upload a recording instead."),
    "refused": N_("The browser blocks the microphone: allow it beside the address."),
    "failed": N_("The microphone cannot be used:"),
    "unready": N_("The model could not be loaded: the studio's log says why."),
}
"""What the script says, by the names it has for it."""


def build_live(engines: ModelCache, model: Block, tab: gr.Tab) -> None:
    """The section's content, for `model`; the sound goes from the browser to the model and is not kept."""
    sessions = LiveSessions(engines)
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form: dict[str, Block] = {"model": model, **language_and_task("live")}
            with gr.Accordion(_("Engine"), open=False):
                form |= engine_fields("live")
        with gr.Column(scale=3, min_width=320):
            view = gr.HTML(
                elem_id="live",
                js_on_load=script(SCRIPT),
                server_functions=_server_functions(sessions),
            )
            downloads = gr.HTML(elem_id="live-downloads")
    _wire_sound(engines, sessions, form, view, downloads)

    follow_languages(form["language"], tab.select)

    def show(request: gr.Request) -> Any:
        return live_view(request_locale(request))

    tab.select(show, None, view, **QUIET)


def _wire_sound(
    engines: ModelCache,
    sessions: LiveSessions,
    form: dict[str, Block],
    view: gr.HTML,
    downloads: gr.HTML,
) -> None:
    """The first sound asks for a model, the end gives the files."""

    def begin(
        model_id: str,
        language: str,
        task: str,
        engine: str,
        precision: str,
        event: gr.EventData,
        request: gr.Request,
    ) -> str:
        """Asks for the model; says whether a run shares the machine."""
        options = TranscribeOptions(language=language, task=task, num_beams=1)  # soon, above all
        sessions.begin(str(event._data["session"]), model_id, options, EngineChoice(engine, precision))
        return shared_note(engines, request_locale(request))

    def end(event: gr.EventData, request: gr.Request) -> str:
        said = sessions.end(str(event._data["session"]))
        if said is None or not said.text:
            return ""
        files = {ending: render(said, ending) for ending in FORMATS}
        return download_links(files, "microphone", request_locale(request))

    asked = [form[name] for name in ("model", "language", "task", "engine", "precision")]
    view.start_recording(**told_in(downloads, begin, [downloads]), inputs=asked, **QUIET)
    view.stop_recording(end, None, downloads, **QUIET)


def _server_functions(sessions: LiveSessions) -> list[Any]:
    """What the page's script may call."""

    async def wait_for(data: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        """Answers when a session's model is ready or cannot be used, when what is done to get it ready is no
        longer what is `shown`, or after a second.
        """
        session_id, locale = str(data["session"]), request_locale(request)
        deadline, shown, doing = time.monotonic() + _ANSWER_SECONDS, str(data.get("shown", "")), ""
        while time.monotonic() < deadline:
            if sessions.knows(session_id):
                return {"ready": True}
            beginning = sessions.beginning(session_id)
            if beginning and beginning.error:
                return {"error": _told(beginning.error, locale)}
            doing = _doing(beginning.step, locale) if beginning and beginning.step else ""
            if doing != shown:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return {"doing": doing, "is_known": beginning is not None}

    def feed(data: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        """Takes sound and answers with the text so far."""
        try:
            text = sessions.feed(
                str(data["session"]), int(data["rate"]), str(data["sound"]), is_last=bool(data["ends"])
            )
        except StudioError as error:
            return {"error": said(error, request_locale(request))}
        return {"settled": text.settled, "tentative": text.tentative, "seconds": text.heard_seconds}

    return [wait_for, feed]


def _told(error: BaseException, locale: str) -> str:
    if isinstance(error, StudioError):
        return said(error, locale)
    return tr(_WORDS["unready"], locale)


def _doing(step: ExportStep, locale: str) -> str:
    """How far an export is, in a line; what is said meanwhile is not heard."""
    doing = said(step.doing, locale)
    return tr(
        "Preparing the model for faster-whisper, {share}: {doing} Speak when this says “Listening”.",
        locale,
        doing=doing,
        share=f"{step.share:.0%}",
    )


def live_view(locale: str) -> Html:
    """The button, what it says, and where the words go."""
    words = {f"data_{name}": tr(text, locale) for name, text in _WORDS.items()}
    button = tag(
        "button", words["data_begin"], type="button", class_="studio-button live-toggle", data_live="toggle"
    )
    hint = tr("Press the button and speak: grey words may still change.", locale)
    text = tag(
        "p",
        tag("span", data_live="settled"),
        tag("span", data_live="tentative", class_="tentative"),
        class_="live-text",
        dir="auto",
        aria_live="polite",
    )
    status = tag("span", hint, data_live="status", role="status", class_="subdued")
    return tag("div", tag("div", button, status, class_="live-bar"), text, data_live="words", **words)
