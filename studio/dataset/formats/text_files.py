"""Texts in files of their own: `a.txt` beside `a.wav` or in a folder of texts as VCTK has it, THCHS-30's
`a.wav.trn`, captions of a recording (`subtitles`), or one file for many sounds with lines such as
`84-121123-0000 GO DO YOU HEAR`, as those of LibriSpeech, MLS, AISHELL and JSUT.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar
from unicodedata import normalize

from studio.dataset.audio import SOUND_FILES, audio_duration
from studio.dataset.delimited import Row
from studio.dataset.formats import subtitles, timed_texts
from studio.dataset.rows import WINDOW_SECONDS
from studio.errors import DataError, ManifestError
from studio.files import encoding_of, files_below

_WITH_SYLLABLES = ".trn"
"""THCHS-30: the text is the first line, its syllables and sounds are below."""
_ENDINGS = (".txt", ".normalized.txt", ".lab", _WITH_SYLLABLES)
"""Of a sound's own text: as most have it, as LibriTTS does, as aligners do, and THCHS-30; in place of the
sound's own ending, or behind it."""
_THCHS = re.compile(r"([A-D]\d+)_\d+")
"""A sound of THCHS-30, and who speaks."""
_SPEAKER = re.compile(r"(\d+)[-_]\d+[-_]\d{4,6}$|BAC009(S\d{4})W|(SSB\d{4})\d{4}$")
"""Who speaks, in the name of a sound of LibriSpeech or MLS, of AISHELL-1, and of AISHELL-3."""
WITH_PINYIN = "content.txt"
"""AISHELL-3: behind each character how it is said, `广 guang3 州 zhou1`."""
_PINYIN = re.compile(r"[a-z:]+\d")
_LIST = re.compile(
    r"(.+\.trans|trans(cripts?|criptions?)?(_utf8)?|aishell_transcript.*|content|prompts|(train_)?text)(\.txt)?",
    re.IGNORECASE,
)
"""Names of files with the texts of many sounds: LibriSpeech, MLS, JSUT, AISHELL, AISHELL-3, MAGICDATA,
VoxForge, FunASR and Kaldi."""
_LINE = re.compile(r"\s*([^\t|:\s]+)\s*[\t|:\s]+(.+)")
_FEATURES = "mfc"
"""VoxForge's lists have this in place of the folder of the sounds."""
_VCTK = re.compile(r"(([ps]\d+)_\d+)_mic\d$")
"""VCTK recorded each sentence with two microphones: what it is called without them, and who speaks."""
AISHELL = Path("transcript", "aishell_transcript_v0.8.txt")
"""Lines such as `BAC009S0002W0122 而 对 楼市`, for the sounds in `wav/train/S0002` beside its folder."""
_AISHELL_FOLDERS = 4
"""From that of a speaker up to that of all."""
_Key = TypeVar("_Key")
_MOST_CHARACTERS = 2**20
"""More is no text of a clip."""


def rows(folder: Path, *, follows_links: bool) -> Iterator[Row]:
    """The sounds in a folder and those below it, in the order of their names, each with its text; nothing if
    none has one.

    Unless it `follows_links`, a text that is a link to a place outside of the folder is passed over.
    """
    endings = {"", *(Path(f"a{ending}").suffix for ending in _ENDINGS), *timed_texts.ENDINGS}
    files = files_below(folder, {*SOUND_FILES, *endings})
    sounds = [path for path in files if path.suffix.lower() in SOUND_FILES]
    texts = set(files).difference(sounds)
    if not follows_links:
        real = os.path.realpath(folder)
        texts = {path for path in texts if Path(os.path.realpath(path)).is_relative_to(real)}
    own = _own_texts(folder, sounds, texts)
    lists = {path for path in texts if _LIST.fullmatch(path.name)}
    listed = _in_lists(folder, sorted(lists | _of_aishell(folder, goes_up=follows_links)), sounds)
    # The text of a `text.wav` may be that of the others.
    of_many = {told.path for sound, told in listed.items() if sound not in own}
    own = {sound: text for sound, text in own.items() if text not in of_many}
    stems = {sound.with_suffix("") for sound in sounds}
    captions = subtitles.by_recording(texts, stems)
    if not listed and not own and captions.keys().isdisjoint(stems):
        return
    number = 0
    for sound in sounds:
        text = own.get(sound)
        audio = {"audio": sound.relative_to(folder).as_posix()}
        shown = captions.get(sound.with_suffix(""), [])
        try:
            for values in _clips(sound, text, shown, listed, None if follows_links else folder):
                number += 1
                yield Row(number, audio | values)
        except ManifestError as error:
            number += 1
            yield Row(number, {}, error)
        except OSError as error:
            number += 1
            name, reason = (text or shown[0]).name, error.strerror or error
            yield Row(number, {}, ManifestError("{path} cannot be read: {reason}.", path=name, reason=reason))
        except ValueError:
            number += 1
            name = (text or shown[0]).name
            problem = ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=name)
            yield Row(number, {}, problem)


def _clips(
    sound: Path,
    text: Path | None,
    captions: Sequence[Path],
    listed: Mapping[Path, "_Told"],
    within: Path | None,
) -> Iterator[dict[str, Any]]:
    """What is known of the clips of a sound: of all of it, or of those that captions tell of."""
    if captions and ((seconds := _seconds_of(sound)) > WINDOW_SECONDS or text is None):
        yield from subtitles.rows_of(sound, seconds, captions)
    elif text is None:
        told = listed.get(sound)
        if told and told.is_doubtful:
            raise ManifestError(
                "{audio} has one text in {path}, and another in a line of it or of another list.",
                audio=sound.name,
                path=told.path.name,
            )
        yield told.values if told else {"text": ""}
    elif text.suffix.lower() == _WITH_SYLLABLES:
        yield _said_in_thchs(text, within)
    else:
        with text.open(encoding=encoding_of(text)) as file:
            said = file.read(_MOST_CHARACTERS)
        if timed_texts.are_timed(said):
            yield from subtitles.rows_of(sound, _seconds_of(sound), [text])
        else:
            speaker = {"speaker": found[2]} if (found := _VCTK.match(sound.stem)) else {}
            yield {"text": " ".join(said.split()), **speaker}


def is_text(path: Path) -> bool:
    """Whether a file is the text of a sound beside it, or of several."""
    stems = [path.name.removesuffix(ending) for ending in _ENDINGS if path.name.endswith(ending)]
    stems += [stem.name for stem in subtitles.by_recording([path])]
    sounds = (path.with_name(stem + ending) for stem in stems for ending in ("", *SOUND_FILES))
    return _LIST.fullmatch(path.name) is not None or any(sound.is_file() for sound in sounds)


def _seconds_of(sound: Path) -> float:
    """Its length, as far as it can be read: why it cannot is told where its clips are looked up."""
    try:
        return audio_duration(sound)
    except DataError:
        return math.inf


def _own_texts(folder: Path, sounds: Sequence[Path], texts: Collection[Path]) -> dict[Path, Path]:
    """Sounds, and the text of each: beside it, else the only one at the same place in a folder that has texts
    and no sounds (`_place`).
    """
    spelled = _only(texts, _spelled)
    own = {
        sound: text for sound in sounds if (text := next(filter(None, map(spelled.get, _own(sound))), None))
    }
    others = {text for text in set(texts).difference(own.values()) if text.parent != folder}
    alone = [sound for sound in sounds if sound not in own and sound.parent != folder]
    of_sounds = {_top(folder, parent) for parent in {sound.parent for sound in sounds} - {folder}}
    own_endings = (text for text in others if text.suffix.lower() in _ENDINGS)
    placed = _only(
        (text for text in own_endings if _top(folder, text) not in of_sounds), partial(_place, folder)
    )
    if not placed:
        return own
    mixed = {_top(folder, sound) for sound in own}
    tops: dict[tuple[str, ...], set[str]] = {}
    for sound in alone:
        tops.setdefault(_place(folder, sound), set()).add(_top(folder, sound))
    for sound in alone:
        place = _place(folder, sound)
        if len(tops[place]) == 1 and tops[place].isdisjoint(mixed) and (text := placed.get(place)):
            own[sound] = text
    return own


def _only(paths: Iterable[Path], key: Callable[[Path], _Key]) -> dict[_Key, Path | None]:
    """Paths by their keys; None where two have the same."""
    found: dict[_Key, Path | None] = {}
    for path in paths:
        place = key(path)
        found[place] = None if place in found else path
    return found


def _spelled(text: Path) -> str:
    """Its path in one spelling: macOS takes accents off their letters, and old corpora have capitals."""
    path = normalize("NFC", str(text))
    ending = text.suffix
    return path if ending.islower() else path.removesuffix(ending) + ending.lower()


def _own(sound: Path) -> Iterator[str]:
    path = normalize("NFC", str(sound))
    names = (path.removesuffix(sound.suffix), path)
    return (name + ending for name in names for ending in _ENDINGS)


def _top(folder: Path, path: Path) -> str:
    """The first part of its path below `folder`."""
    return path.relative_to(folder).parts[0]


def _place(folder: Path, path: Path) -> tuple[str, ...]:
    """`p225`, `p225_001` of `txt/p225/p225_001.txt` and `wav48/p225/p225_001_mic1.flac`."""
    return (*path.relative_to(folder).parts[1:-1], _VCTK.sub(r"\1", normalize("NFC", path.stem)))


def _said_in_thchs(text: Path, within: Path | None) -> dict[str, str]:
    """What is known of a sound from its own text.

    In a part of THCHS-30 that file names another of its name, in the folder of all sounds; only one that is
    `within` this folder is opened, if any is named.
    """
    said = _first_line(text)
    if PurePosixPath(said).name == text.name:
        named = text.parent / said
        if not named.is_file() or not (within is None or named.resolve().is_relative_to(within.resolve())):
            raise ManifestError("{path} names {named}, which is not there.", path=text.name, named=said)
        said = _first_line(named)
        if PurePosixPath(said).name == text.name:
            raise ManifestError("{path} names {named}, which is not there.", path=text.name, named=said)
    found = _THCHS.fullmatch(text.name.partition(".")[0])
    return {"text": said, "speaker": found[1], "language": "zh"} if found else {"text": said}


def _first_line(path: Path) -> str:
    with path.open(encoding=encoding_of(path)) as file:
        return " ".join(file.readline(_MOST_CHARACTERS).split())


class _Told(NamedTuple):
    """What lists tell of a sound."""

    path: Path
    values: dict[str, str]
    is_doubtful: bool = False
    """Whether another line has another text for it."""


def _in_lists(folder: Path, lists: Sequence[Path], sounds: Sequence[Path]) -> dict[Path, _Told]:
    """Sounds, and what is known of each from a line that names it.

    A list tells of the sounds below its own folder or, if there are none, below the nearest folder above it
    that has some. A line means the only one of them with its name, in the folders that it tells, if any.

    Raises:
        ManifestError: if a list is not UTF-8 text.
    """
    by_stem: dict[str, list[Path]] = {}
    if lists:
        for sound in sounds:
            by_stem.setdefault(normalize("NFC", sound.stem), []).append(sound)
    parents = {sound.parent for sound in sounds}
    above = parents.union(*(parent.parents for parent in parents))
    holding = {parent for parent in above - {folder} if parent.is_relative_to(folder)}
    found: dict[Path, _Told] = {}
    for path in lists:
        base = next(filter(holding.__contains__, path.parents), None)
        within = f"{base}{os.sep}" if base else ""
        for stem, folders, values in _told(path, by_stem):
            near = [sound for sound in by_stem[stem] if str(sound).startswith(within)]
            meant = [sound for sound in near if not folders or _lies_in(folders, folder, sound)]
            if len(meant) == 1:
                told = found.setdefault(meant[0], _Told(path, values))
                if told.values["text"] != values["text"]:
                    found[meant[0]] = told._replace(is_doubtful=True)
    return found


def _lies_in(folders: Sequence[str], folder: Path, sound: Path) -> bool:
    """Whether the last folders of a sound are those that a line tells, as far as both go."""
    parents = sound.relative_to(folder).parts[-2::-1]
    return all(told in (there, _FEATURES) for told, there in zip(reversed(folders), parents, strict=False))


def _told(path: Path, known: Container[str]) -> Iterator[tuple[str, Sequence[str], dict[str, str]]]:
    """The `known` sounds of a list, by their names without an ending, the folders that it tells of each, and
    what is known of it.

    Raises:
        ManifestError: if it is not UTF-8 text.
    """
    try:
        with path.open(encoding=encoding_of(path)) as lines:
            for line in filter(None, map(_LINE.match, lines)):
                *folders, name = normalize("NFC", line[1]).strip("/").split("/")
                ending = PurePosixPath(name).suffix
                name = name.removesuffix(ending) if ending.lower() in SOUND_FILES else name
                if name not in known:
                    continue
                *others, text = line[2].strip().split("\t")
                values = {"text": text}
                if found := _SPEAKER.match(name):
                    values["speaker"] = next(filter(None, found.groups()))
                elif others:
                    values["speaker"] = others[0].strip()
                if path.name == AISHELL.name:
                    values["language"] = "zh"
                elif path.name == WITH_PINYIN:
                    values["text"] = " ".join(word for word in text.split() if not _PINYIN.fullmatch(word))
                yield name, folders, values
    except ValueError as error:
        raise ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=path) from error


def _of_aishell(folder: Path, *, goes_up: bool) -> set[Path]:
    """The transcript of AISHELL-1; if it `goes_up`, it may lie beside a folder that has this one in it."""
    above = [folder, *folder.absolute().parents][: _AISHELL_FOLDERS if goes_up else 1]
    path = next((path for path in (place / AISHELL for place in above) if path.is_file()), None)
    is_inside = path is not None and path.resolve().is_relative_to(folder.resolve())
    return {path} if path and (goes_up or is_inside) else set()
