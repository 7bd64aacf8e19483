"""Recordings of one's own on the Train tab: sentences, the microphone, and a manifest that grows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.recordings import Session, begin_session, keep_clip, open_session, sessions
from studio.errors import AudioError, ConfigError
from studio.files import encoding_of
from studio.reports.markup import Html, tag
from studio.reports.pieces import note, progress_bar
from studio.runs.confinement import require_room
from studio.settings import Settings
from studio.translation import tr
from studio.ui.shared.access import require_training
from studio.ui.shared.errors import told_in
from studio.ui.shared.following import LATEST, QUIET
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.visitors import settings_for

_LARGEST_LIST_BYTES = 2**20


@dataclass(frozen=True)
class _Reader:
    """Where a sentence is shown and read."""

    name: gr.Dropdown
    number: gr.Number
    """Of the sentence; a field, so that it comes back with the recording that was made of it."""
    sentence: gr.HTML
    audio: gr.Audio
    panel: gr.Column
    refused: gr.HTML

    def outputs(self) -> list[Block]:
        """In the order of `_shown`."""
        return [self.name, self.number, self.sentence, self.audio, self.panel]


def build_recording_section(settings: Settings, tab: gr.Tab, form: dict[str, Block]) -> None:
    """A folded section of the Train tab; its manifest goes into `form` with a click."""
    with gr.Accordion(_("Record your own"), open=False, elem_id="record"):
        gr.Markdown(
            _(
                "Read sentences aloud, one after the other. Record yourself, or people who have agreed to it "
                "and know what for: the recordings stay in this studio's folder, and a model learns the "
                "voice."
            )
        )
        name = gr.Dropdown(
            [],
            label=_("Your lists"),
            info=_("Goes on at the next sentence."),
            allow_custom_value=True,  # a session knows its choices only once the section was opened in it
            elem_id="record-session",
        )
        new = _new_list()
        with gr.Column(visible=False) as panel:
            sentence = gr.HTML(elem_id="record-sentence")
            audio = gr.Audio(
                label=_("Your recording"),
                sources=["microphone"],
                type="numpy",
                buttons=["download"],  # and none that sends the voice to the Hub
                elem_id="record-audio",
            )
            steps = _steps()
        refused = gr.HTML(elem_id="record-refused")
    number = gr.Number(0, label=_("Sentence"), precision=0, visible="hidden")
    reader = _Reader(name, number, sentence, audio, panel, refused)
    _wire_lists(settings, tab, reader, new, form["language"])
    _wire_reading(settings, reader, steps)

    def manifest(chosen: str, request: gr.Request) -> str:
        """The list's manifest, if a sentence of it is read."""
        session = _opened(settings_for(settings, request), chosen)
        if not session.clips:
            raise ConfigError("There is no recording yet: read a sentence and keep it.")
        return str(session.manifest)

    steps["use"].click(**told_in(refused, manifest, [form["train_data"]]), inputs=name, **QUIET)


def _new_list() -> tuple[dict[str, Block], gr.UploadButton, gr.Button]:
    """The fields of a list that is made, what fills them from a file, and what begins it."""
    with gr.Accordion(_("A new list of sentences"), open=False, elem_id="record-new"):
        fields: dict[str, Block] = {
            "new_name": gr.Textbox(label=_("Name of the list"), max_lines=1, elem_id="record-name"),
            "sentences": gr.Textbox(
                label=_("Sentences, one per line"), lines=5, max_lines=12, elem_id="record-sentences"
            ),
        }
        upload = gr.UploadButton(_("Take them from a text file"), file_types=[".txt"], size="sm")  # type: ignore[arg-type]
        return fields, upload, gr.Button(_("Begin"), size="sm", elem_id="record-begin")


def _steps() -> dict[str, gr.Button]:
    """From one sentence to another, and to the training."""
    labels = {"back": _("Previous"), "again": _("Record again"), "skip": _("Skip")}
    with gr.Row():
        steps = {
            name: gr.Button(label, size="sm", min_width=80, elem_id=f"record-{name}")
            for name, label in labels.items()
        }
    steps["keep"] = gr.Button(_("Keep, next sentence"), variant="primary", elem_id="record-keep")
    steps["use"] = gr.Button(_("Train with these recordings"), size="sm", elem_id="record-use")
    return steps


def _wire_lists(
    settings: Settings,
    tab: gr.Tab,
    reader: _Reader,
    new: tuple[dict[str, Block], gr.UploadButton, gr.Button],
    language: Block,
) -> None:
    """Choosing a list, making one, and finding the last one when the page is opened."""

    def find(chosen: str | None, number: int, sentence: str | None, request: gr.Request) -> list[Any]:
        """The lists, and the newest of them if none is chosen; who comes back to one finds it open."""
        found = {session.name: session for session in _all(settings_for(settings, request))}
        if not found or (chosen in found and sentence):
            return [gr.update(choices=[*found]), *[gr.skip()] * 4]
        session = found.get(chosen or "", next(iter(found.values())))
        is_back = session.name == chosen and number in range(len(session.sentences))
        shown = _shown(session, number if is_back else session.next_unread, request, [*found])
        if is_back:  # with what was recorded and not kept yet
            shown[reader.outputs().index(reader.audio)] = gr.skip()
        return shown

    def choose(chosen: str, request: gr.Request) -> list[Any]:
        """The chosen list at its next sentence."""
        session = _opened(settings_for(settings, request), chosen)
        return _shown(session, session.next_unread, request)

    def make(new_name: str, sentences: str, language: str, request: gr.Request) -> list[Any]:
        """A new list, at its first sentence."""
        own = settings_for(settings, request)
        require_training(own)
        require_room(own, len(sentences.encode()))
        session = begin_session(own.recordings, new_name, sentences, language)
        names = [each.name for each in _all(own)]
        return _shown(session, session.next_unread, request, names)

    def read(path: str, request: gr.Request) -> str:
        """The sentences of a text file."""
        del request
        return _text_of(Path(path))

    shown, refused = reader.outputs(), reader.refused
    tab.select(**told_in(refused, find, shown), inputs=[reader.name, reader.number, reader.sentence], **QUIET)
    reader.name.input(**told_in(refused, choose, shown), inputs=reader.name, **LATEST)
    fields, upload, begin = new
    asked = {**fields, "language": language}
    begin.click(**told_in(refused, make, shown), inputs_kwargs=asked, **QUIET)
    upload.upload(**told_in(refused, read, [fields["sentences"]]), inputs=upload, **LATEST)


def _wire_reading(settings: Settings, reader: _Reader, steps: dict[str, gr.Button]) -> None:
    """From one sentence to another; a recording is kept before the next is shown."""

    def move(by: int) -> Any:
        """A handler that goes on, or back, by so many sentences."""

        def handler(chosen: str, number: int, request: gr.Request) -> list[Any]:
            """The sentence that many places on; after the last comes the first that nobody has read."""
            session = _opened(settings_for(settings, request), chosen)
            place = max(number + by, 0)
            return _shown(session, place if place < len(session.sentences) else session.next_unread, request)

        return handler

    def save(chosen: str, number: int, recording: Any, request: gr.Request) -> list[Any]:
        """Keeps the recording and shows the next sentence that nobody has read."""
        own = settings_for(settings, request)
        require_training(own)
        if recording is None:
            raise AudioError("There is no recording yet: press Record, read the sentence, press Stop.")
        rate, samples = recording
        require_room(own, samples.nbytes)
        session = keep_clip(_opened(own, chosen), number, samples, rate)
        following = number + 1 if number + 1 < len(session.sentences) else session.next_unread
        if following in session.clips:
            following = session.next_unread
        return _shown(session, following, request)

    at, shown, refused = [reader.name, reader.number], reader.outputs(), reader.refused
    steps["back"].click(**told_in(refused, move(-1), shown), inputs=at, **QUIET)
    steps["skip"].click(**told_in(refused, move(1), shown), inputs=at, **QUIET)
    steps["again"].click(lambda: None, None, reader.audio, **QUIET)
    steps["keep"].click(**told_in(refused, save, shown), inputs=[*at, reader.audio], **QUIET)


def _shown(session: Session, number: int, request: gr.Request, names: list[str] | None = None) -> list[Any]:
    """Values for `_Reader.outputs`."""
    clip = session.clip(number)
    chosen = gr.update(value=session.name, choices=names) if names else gr.update(value=session.name)
    view = sentence_view(session, number, request_locale(request))
    return [chosen, number, view, _sound(clip) if clip else None, gr.update(visible=True)]


def _sound(clip: Path) -> tuple[int, Any]:
    return SAMPLING_RATE, (32767 * read_audio(clip)).astype("int16")


def sentence_view(session: Session, number: int, locale: str) -> Html:
    """How far the list is read, and the sentence to read now."""
    done, total = len(session.clips), len(session.sentences)
    read = tr("{done} of {total} sentences read", locale, done=done, total=total)
    place = tr("Sentence {number}", locale, number=number + 1)
    minutes = tr("{minutes:.1f} minutes", locale, minutes=session.minutes)
    state = tr("Already recorded: record it again to replace it.", locale) if number in session.clips else ""
    everything = note(tr("All sentences are read.", locale), "good") if done == total else None
    return tag(
        "div",
        progress_bar(done / total, read, minutes),
        everything,
        tag("p", place, " · " if state else "", tag("span", state, class_="subdued"), class_="subdued"),
        tag("p", session.sentences[number], class_="read-aloud", dir="auto"),
        class_="sentence",
    )


def _all(settings: Settings) -> list[Session]:
    return sessions(settings.recordings)


def _opened(settings: Settings, name: str | None) -> Session:
    if not name:
        raise ConfigError("There is no list of sentences yet: make one first.")
    return open_session(settings.recordings, name)


def _text_of(path: Path) -> str:
    """The text of an uploaded file.

    Raises:
        ConfigError: if it is too large, or not UTF-8.
    """
    if path.stat().st_size > _LARGEST_LIST_BYTES:
        raise ConfigError("{name} is larger than a list of sentences can be (1 MB).", name=path.name)
    try:
        return path.read_text(encoding=encoding_of(path))
    except UnicodeDecodeError as error:
        raise ConfigError("{name} is not UTF-8 text: save it again in UTF-8.", name=path.name) from error
