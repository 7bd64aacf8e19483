"""Sounds in folders, and their texts: in files of their own, `a.txt` beside `a.wav` or in a folder of texts
as VCTK and TED-LIUM have it, THCHS-30's `a.wav.trn`, captions of a recording (`subtitles`), or one file for
many sounds (`text_lists`).
"""

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from unicodedata import normalize

from studio.dataset.audio import SOUND_FILES, audio_duration
from studio.dataset.columns import ALIASES
from studio.dataset.delimited import Row
from studio.dataset.encodings import not_utf8
from studio.dataset.formats import subtitles, text_lists, timed_texts
from studio.dataset.rows import WINDOW_SECONDS
from studio.errors import DataError, ManifestError
from studio.files import encoding_of, files_below

_WITH_SYLLABLES = ".trn"
"""THCHS-30: the text is the first line, its syllables and sounds are below."""
_LINES_OF_THCHS = 3
_OF_ALIGNERS = ".lab"
_ENDINGS = (".txt", ".normalized.txt", _OF_ALIGNERS, _WITH_SYLLABLES)
"""Of a sound's own text: as most have it, as LibriTTS does, as aligners do, and THCHS-30; in place of the
sound's own ending, or behind it."""
_THCHS = re.compile(r"([A-D]\d+)_\d+")
"""A sound of THCHS-30, and who speaks."""
_VCTK = re.compile(r"(([ps]\d+)_\d+)_mic\d$")
"""VCTK recorded each sentence with two microphones: what it is called without them, and who speaks."""
_TIMIT, _TIMIT_RATE = re.compile(r"0 (\d{4,}) (.+)"), 16_000
"""TIMIT has the number of samples before what is said, and a folder for each who speaks."""
_LRS = re.compile(r"Text: {0,9}(.*)\nConf:")
_OF_CHARACTERS = re.compile(r"^[ \t]*\[\[[\d., \[\]]*\][ \t]*$", re.MULTILINE)
_LEAST_NAME = 4
"""Of a name of a sound, with a digit in it; shorter ones may be said."""
_Key = TypeVar("_Key")
_MOST_CHARACTERS = 2**20
"""More is no text of a clip."""


def rows(folder: Path, *, follows_links: bool) -> Iterator[Row]:
    """The sounds in a folder and those below it, in the order of their names, each with its text; nothing if
    none has one.

    Unless it `follows_links`, a text that is a link to a place outside of the folder is passed over.
    """
    endings = {
        "",
        text_lists.OF_FESTIVAL,
        *(Path(f"a{ending}").suffix for ending in _ENDINGS),
        *timed_texts.ENDINGS,
    }
    files = files_below(folder, {*SOUND_FILES, *endings})
    sounds = [path for path in files if path.suffix.lower() in SOUND_FILES]
    texts = set(files).difference(sounds)
    if not follows_links:
        real = os.path.realpath(folder)
        texts = {path for path in texts if Path(os.path.realpath(path)).is_relative_to(real)}
    own = _own_texts(folder, sounds, texts)
    listed = text_lists.told_of(folder, texts, sounds, goes_up=follows_links)
    # The text of a `text.wav` may be that of the others.
    of_many = {told.path for sound, told in listed.items() if sound not in own}
    own = {sound: text for sound, text in own.items() if text not in of_many}
    stems = {sound.with_suffix("") for sound in sounds}
    captions = subtitles.by_recording(texts, stems)
    if not listed and not own and not captions:
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
            continue
        except ManifestError as error:
            problem = error
        except OSError as error:
            name, reason = (text or shown[0]).name, error.strerror or error
            problem = ManifestError("{path} cannot be read: {reason}.", path=name, reason=reason)
        except ValueError:
            problem = not_utf8(text or shown[0])
        number += 1
        yield Row(number, {}, problem)


def _clips(
    sound: Path,
    text: Path | None,
    captions: Sequence[Path],
    listed: Mapping[Path, text_lists.Told],
    within: Path | None,
) -> Iterator[dict[str, Any]]:
    """What is known of the clips of a sound: of all of it, or of those that captions tell of.

    Of a long sound captions count most; else its own text, unless that is what an aligner wrote and a list
    has the sentence; then a list, or what a file of captions tells of the whole sound.
    """
    told = listed.get(sound)
    about = {path: tells for path in captions if (tells := timed_texts.about_its_sound(path)) is not None}
    timed = [path for path in captions if path not in about]
    if timed and ((seconds := _seconds_of(sound)) > WINDOW_SECONDS or text is None):
        yield from subtitles.rows_of(sound, seconds, timed)
    elif text and not (told and text.suffix.lower() == _OF_ALIGNERS and _is_aligned(text)):
        yield from _told_by_its_text(sound, text, within)
    elif text is None and about:
        tells = next(iter(about.values()))
        yield {name: value for name, value in tells.items() if name not in ALIASES["audio"]}
    else:
        yield _told_by_a_list(sound, told)


def _told_by_its_text(sound: Path, text: Path, within: Path | None) -> Iterator[dict[str, Any]]:
    """One clip, or several where the text has times."""
    if text.suffix.lower() == _WITH_SYLLABLES:
        yield _said_in_thchs(text, within)
    elif text.suffix.lower() in timed_texts.ENDINGS:
        yield from subtitles.rows_of(sound, _seconds_of(sound), [text])
    else:
        yield from _said(sound, text, _read(text))


def _said(sound: Path, text: Path, said: str) -> Iterator[dict[str, Any]]:
    """What stands in a text file, which has times at times."""
    samples = _TIMIT.fullmatch(said.strip())
    if samples and abs(int(samples[1]) / _TIMIT_RATE - _seconds_of(sound)) < 1:
        yield {"text": samples[2], "speaker": sound.parent.name}
    elif timed_texts.are_timed(said) or timed_texts.are_aligned(said):
        yield from subtitles.rows_of(sound, _seconds_of(sound), [text])
    else:
        speaker = {"speaker": found[2]} if (found := _VCTK.match(sound.stem)) else {}
        yield {"text": " ".join(_plain(said, sound.stem).split()), **speaker}


def _told_by_a_list(sound: Path, told: text_lists.Told | None) -> dict[str, Any]:
    if told and told.is_doubtful:
        raise ManifestError(
            "{audio} has one text in {path}, and another in a line of it or of another list.",
            audio=sound.name,
            path=told.path.name,
        )
    return told.values if told else {"text": ""}


def _plain(said: str, stem: str) -> str:
    """A text without the name of its sound, as WenetSpeech4TTS and sclite have it, and without what is
    known of its characters (WenetSpeech4TTS) or words (LRS).
    """
    if of_lrs := _LRS.match(said):
        return of_lrs[1]
    said = _OF_CHARACTERS.sub("", said).strip()
    rest = said.removeprefix(stem)
    is_name = len(stem) >= _LEAST_NAME and any(map(str.isdecimal, stem))
    if rest != said and (rest.startswith("\t") or (is_name and rest.startswith(" "))):
        return rest
    return said.removesuffix(f"({stem})") if is_name else said


def _read(text: Path) -> str:
    with text.open(encoding=encoding_of(text)) as file:
        return file.read(_MOST_CHARACTERS)


def _is_aligned(text: Path) -> bool:
    return timed_texts.are_aligned(_read(text))


def is_text(path: Path) -> bool:
    """Whether a file is the text of a sound beside it, or of several, or is what yt-dlp tells of one."""
    stems = [path.name.removesuffix(ending) for ending in _ENDINGS if path.name.endswith(ending)]
    endings = ("", *SOUND_FILES, *map(str.upper, SOUND_FILES))
    if path.suffix.lower() in timed_texts.ENDINGS:
        stems += [stem.name for stem in subtitles.stems_of(path)]
    sounds = (path.with_name(stem + ending) for stem in stems for ending in endings)
    is_named = any(sound.is_file() for sound in sounds)
    is_of_yt_dlp = path.name.endswith(".info.json")
    return is_of_yt_dlp or text_lists.is_list(path) or (is_named and timed_texts.is_no_list(path))


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
    apart = (text for text in others if _top(folder, text) not in of_sounds)
    kinds = {*_ENDINGS, *timed_texts.ENDINGS}
    of_one = (text for text in apart if text.suffix.lower() in kinds and timed_texts.is_no_list(text))
    placed = _only(of_one, partial(_place, folder))
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
    if (count := len(_read(text).split("\n")) - 1) > _LINES_OF_THCHS:
        raise ManifestError(
            "{path} has {count} lines, where the text, its syllables and its sounds are needed.",
            path=text.name,
            count=count,
        )
    if PurePosixPath(said).name == text.name:
        named = text.parent / said
        if named.is_file() and (within is None or named.resolve().is_relative_to(within.resolve())):
            said = _first_line(named)
        if PurePosixPath(said).name == text.name:
            raise ManifestError("{path} names {named}, which is not there.", path=text.name, named=said)
    found = _THCHS.fullmatch(text.name.partition(".")[0])
    return {"text": said, "speaker": found[1], "language": "zh"} if found else {"text": said}


def _first_line(path: Path) -> str:
    with path.open(encoding=encoding_of(path)) as file:
        return " ".join(file.readline(_MOST_CHARACTERS).split())
