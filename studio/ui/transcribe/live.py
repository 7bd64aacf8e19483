"""The microphone, live: words stand on the page while they are spoken."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.utils import get_upload_folder

from studio.errors import AudioError, ConfigError, StudioError
from studio.reports.markup import Html, tag
from studio.reports.pieces import button, progress_bar
from studio.serving.uploads import UPLOADS_KEPT_SECONDS, VOICES
from studio.serving.waiting import Line
from studio.settings import ASSETS
from studio.transcription.captions import FORMATS, render
from studio.transcription.engine import Progress, Transcript
from studio.transcription.model_cache import ModelCache
from studio.translation import N_, said, tr
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import QUIET, Held, follow_languages, wire_work
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.light_page import script
from studio.ui.shared.search_options import chosen, engine_fields, option_field
from studio.ui.shared.tasks import ExportStep, Pace, Task, Tasks, shared_note, tells_steps
from studio.ui.shared.transcript_views import download_links
from studio.ui.transcribe.form import NO_MODEL, language_and_task
from studio.ui.transcribe.live_sessions import LiveSessions, Spoken
from studio.ui.transcribe.recording import heard_bar

SCRIPT = ASSETS / "microphone.js"
_ANSWER_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_NOT_OURS = N_("This is no question of the page: reload it and try again.")
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


@dataclass(frozen=True)
class _Shown:
    """Components on the right."""

    view: gr.HTML
    downloads: gr.HTML
    status: gr.HTML
    """How far hearing it again is."""
    offer: gr.Row
    """What can be done with the sound once it is there."""
    spoken: gr.State


def build_live(engines: ModelCache, line: Line, model: Block, tab: gr.Tab) -> Held:
    """The section's content, for `model`; the sound goes from the browser to the model, and is kept until its
    visitor leaves or speaks anew, an hour at most: in turn with others, they may have it heard again.

    Returns what the server holds of it.
    """
    sessions = LiveSessions(engines, lambda: Path(get_upload_folder()) / VOICES)
    tasks = Tasks(line)
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            form: dict[str, Block] = {"model": model, **language_and_task("live")}
            with gr.Accordion(_("Engine"), open=False):
                form |= engine_fields("live")
            with gr.Accordion(_("More options"), open=False):
                form["chinese_script"] = option_field("chinese_script", "live", choose=gr.Radio)
        with gr.Column(scale=3, min_width=320):
            view = gr.HTML(
                elem_id="live",
                js_on_load=script(SCRIPT),
                server_functions=_server_functions(sessions),
            )
            with gr.Row(visible=False) as offer:
                again = gr.Button(_("Transcribe the recording again"), elem_id="live-again")
                cancel = gr.Button(_("Cancel"), elem_id="live-cancel")
            status = gr.HTML(elem_id="live-status")
            downloads = gr.HTML(elem_id="live-downloads")
    spoken = gr.State(None, time_to_live=UPLOADS_KEPT_SECONDS, delete_callback=_forget)
    shown = _Shown(view, downloads, status, offer, spoken)
    _wire_sound(engines, sessions, tasks, form, shown)
    _wire_again(engines, tasks, form, shown, again, cancel)

    follow_languages(form["language"], tab.select)

    def show(spoken: Spoken | None, view: str | None, request: gr.Request) -> Any:
        """The section with what was said. While somebody speaks it is left alone: only the browser has their
        words."""
        if spoken is None and view:
            return gr.skip()
        return live_view(request_locale(request), spoken.transcript if spoken else None)

    tab.select(show, [spoken, view], view, **QUIET)
    return Held(spoken, [view, downloads, offer], _whole)


def _whole(spoken: Spoken, locale: str) -> list[Any]:
    """The section with what was said, its files, and the offer to hear it again."""
    return [live_view(locale, spoken.transcript), *_said(spoken, locale)]


def _said(spoken: Spoken, locale: str) -> list[Any]:
    return [_files(spoken.transcript, locale), gr.Row(visible=spoken.sound is not None)]


def _forget(spoken: Spoken | None) -> None:
    if spoken is not None:
        spoken.forget()


def _wire_sound(
    engines: ModelCache, sessions: LiveSessions, tasks: Tasks, form: dict[str, Block], shown: _Shown
) -> None:
    """The first sound asks for a model, the end gives the files."""

    def clear(spoken: Spoken | None, request: gr.Request) -> list[Any]:
        """Who speaks anew is done with what was said before."""
        tasks.stops.cancel(str(request.session_hash))
        _forget(spoken)
        return [gr.Row(visible=False), "", None]

    def begin(model: str, event: gr.EventData, request: gr.Request, **values: str) -> str:
        """Asks for the model; says whether a run shares the machine."""
        options, choice = chosen(values)
        sessions.begin(str(event._data["session"]), model, options, choice)
        return shared_note(engines, request_locale(request))

    def end(event: gr.EventData, request: gr.Request) -> list[Any]:
        """The files of what was said, and the sound if it is kept; for a page that is there again, which had
        been left meanwhile, the words, too.
        """
        is_again, locale = bool(event._data.get("again")), request_locale(request)
        spoken = sessions.end(str(event._data["session"]), finishes=is_again)
        if spoken is None:
            return [gr.skip() if is_again else "", *[gr.skip()] * 3]
        view = live_view(locale, spoken.transcript) if is_again else gr.skip()
        return [*_said(spoken, locale), spoken, view]

    view, downloads = shown.view, shown.downloads
    view.start_recording(clear, shown.spoken, [shown.offer, shown.status, shown.spoken], **QUIET)
    view.start_recording(**told_in(downloads, begin, [downloads]), inputs_kwargs=form, **QUIET)
    view.stop_recording(end, None, [downloads, shown.offer, shown.spoken, view], **QUIET)


def _files(transcript: Transcript, locale: str) -> Html:
    if not transcript.text:
        return Html("")
    files = {ending: render(transcript, ending) for ending in FORMATS}
    return download_links(files, "microphone", locale)


def _wire_again(
    engines: ModelCache,
    tasks: Tasks,
    form: dict[str, Block],
    shown: _Shown,
    again: gr.Button,
    cancel: gr.Button,
) -> None:
    """The sound is heard again as a whole, as a file would be; its text takes the place of the live one."""

    def task_of(
        request: gr.Request, before: Spoken | None, model: str, **values: str
    ) -> Task[Progress, Transcript]:
        """The hearing of what was spoken, with what the form says now."""
        locale = request_locale(request)
        if before is None or before.sound is None or not before.sound.is_file():
            raise AudioError("The sound is not kept any more: press Start and speak again.")
        if not model:
            raise ConfigError(NO_MODEL)
        path = before.sound
        options, choice = chosen(values)
        options, pace = replace(options, timestamps="word"), Pace(time.monotonic())

        def show(step: Progress) -> list[Any]:
            """A bar of the sound."""
            pace.note(step.done_seconds, time.monotonic())
            return [heard_bar(step, pace, locale)]

        def finish(found: Transcript, _was_stopped: bool) -> list[Any]:
            """The text in place of the live one."""
            heard = replace(before, transcript=found)
            return ["", live_view(locale, found), _files(found, locale), heard]

        return Task(
            work=lambda report, should_stop: engines.transcribe(
                model, path, options, report, should_stop, choice=choice, on_step=tells_steps(report)
            ),
            begun=progress_bar(None, tr("Loading the model and the recording …", locale)),
            show=show,
            finish=finish,
            others=3,
            engines=engines,
        )

    inputs = {"before": shown.spoken, **form}
    work = tasks.handler(task_of, [shown.status, shown.view, shown.downloads, shown.spoken], inputs)
    wire_work([again.click], cancel, tasks.stops, shown.status, **work, **QUIET)


def _server_functions(sessions: LiveSessions) -> list[Any]:
    """What the page's script may call."""

    async def wait_for(data: Any, request: gr.Request) -> dict[str, Any]:
        """Answers when a session's model is ready or cannot be used, when what is done to get it ready is no
        longer what is `shown`, or after a second.
        """
        locale = request_locale(request)
        if not _is_asked(data, session=str, shown=str):
            return {"error": tr(_NOT_OURS, locale)}
        session_id, shown, doing = data["session"], data["shown"], ""
        deadline = time.monotonic() + _ANSWER_SECONDS
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

    def feed(data: Any, request: gr.Request) -> dict[str, Any]:
        """Takes sound and answers with the text so far."""
        if not _is_asked(data, session=str, rate=int, sound=str, ends=bool):
            return {"error": tr(_NOT_OURS, request_locale(request))}
        try:
            text = sessions.feed(data["session"], data["rate"], data["sound"], is_last=data["ends"])
        except StudioError as error:
            return {"error": said(error, request_locale(request))}
        return {"settled": text.settled, "tentative": text.tentative, "seconds": text.heard_seconds}

    return [wait_for, feed]


def _is_asked(data: Any, **kinds: type) -> bool:
    """Whether the script's question has these fields, of these kinds: anybody may ask."""
    return isinstance(data, dict) and all(type(data.get(name)) is kind for name, kind in kinds.items())


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


def live_view(locale: str, heard: Transcript | None = None) -> Html:
    """The button, the hint beside it, and the text: that of `heard`, or room for one."""
    words = {f"data_{name}": tr(text, locale) for name, text in _WORDS.items()}
    toggle = button(words["data_begin"], "studio-button live-toggle", data_live="toggle")
    hint = tr("Press the button and speak: grey words may still change, and any once you press Stop.", locale)
    if heard is not None:
        hint = words["data_heard"].replace("0", str(round(heard.duration_seconds)))
    text = tag(
        "p",
        tag("span", heard.text if heard else None, data_live="settled"),
        tag("span", data_live="tentative", class_="tentative"),
        class_="live-text",
        dir="auto",
        aria_live="polite",
    )
    status = tag("span", hint, data_live="status", role="status", class_="subdued")
    return tag("div", tag("div", toggle, status, class_="live-bar"), text, data_live="words", **words)
