"""`record`: lists of sentences that are read aloud in the Train tab, and the clips of them."""

from collections.abc import Sequence
from pathlib import Path

from studio.cli.output import done, give, table
from studio.cli.parsing import Parser
from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.dataset.recordings import (
    Session,
    begin_session,
    delete_session,
    keep_clip,
    open_session,
    sessions,
)
from studio.errors import ConfigError
from studio.files import encoding_of
from studio.settings import Settings
from studio.units import counted

SCHEMA_VERSION = 1
_ACTIONS = {"list": 0, "create": 2, "show": 1, "add": 3, "delete": 1}
"""Action → how many words it takes."""


def parser() -> Parser:
    """`record list`, `create NAME FILE`, `show NAME`, `add NAME NUMBER AUDIO`, `delete NAME --yes`."""
    made = Parser("record", "List, make and remove lists of sentences to read aloud.")
    made.action(_ACTIONS)
    made.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="Name of the list; then, to create, a text file; to add, a sentence's number and its clip.",
    )
    made.option("language", "Language of the sentences, name or code.", default="auto")
    made.option("speaker", "Who reads them.", default="")
    made.flag("yes", "Delete without being asked again.")
    made.flag("overwrite", "Put another clip in the place of one that was read before.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Does one action."""
    given = parser().read(arguments)
    words: list[str] = given.words
    if _ACTIONS.get(given.action) != len(words):
        raise ConfigError(
            "record takes: list · create NAME FILE · show NAME · add NAME NUMBER AUDIO · delete NAME --yes; "
            "got {given!r}.",
            given=" ".join([given.action, *words]),
        )
    root = settings.recordings
    if given.action == "list":
        _show_all(sessions(root), given.json)
    elif given.action == "create":
        text = _text(Path(words[1]))
        _show(begin_session(root, words[0], text, given.language, given.speaker), given.json)
    elif given.action == "show":
        _show(open_session(root, words[0]), given.json)
    elif given.action == "add":
        _show(_add(root, *words, overwrite=given.overwrite), given.json)
    else:
        if not given.yes:
            raise ConfigError("Deleting {name} cannot be undone: add --yes to do it.", name=words[0])
        delete_session(root, words[0])
        done(f"Deleted {words[0]}.", given.json, deleted=words[0])
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding=encoding_of(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The sentences {path} cannot be read: give a UTF-8 text file, a sentence a line.", path=path
        ) from error


def _add(root: Path, name: str, number: str, audio: str, *, overwrite: bool) -> Session:
    session = open_session(root, name)
    if not number.isdecimal():
        raise ConfigError("record add takes the number of a sentence, got {value!r}.", value=number)
    if int(number) - 1 in session.clips and not overwrite:
        raise ConfigError(
            "Sentence {number} of {name} has been read already: add --overwrite to put {audio} in its place.",
            number=number,
            name=name,
            audio=audio,
        )
    return keep_clip(session, int(number) - 1, read_audio(audio), SAMPLING_RATE)


def _show_all(found: Sequence[Session], as_json: bool) -> None:
    rows = [
        [each.name, f"{len(each.clips)} of {len(each.sentences)}", f"{each.minutes:.1f}", str(each.manifest)]
        for each in found
    ]
    told = {"schema_version": SCHEMA_VERSION, "sessions": [session.to_json() for session in found]}
    give(as_json, told, lambda: table(["NAME", "READ", "MINUTES", "MANIFEST"], rows))


def _show(session: Session, as_json: bool) -> None:
    read, sentences = len(session.clips), counted(len(session.sentences), "sentence")
    lines = [f"{session.name}: {read} of {sentences} read"]
    for number, sentence in enumerate(session.sentences):
        seconds = session.clips.get(number)
        lines.append(f"{number + 1:5d}  {f'{seconds:5.1f} s' if seconds else '      –'}  {sentence}")
    if session.clips:
        lines.append(f"train with: --train_data {session.manifest}")
    give(as_json, session.to_json(), lambda: "\n".join(lines))
