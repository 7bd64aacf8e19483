"""Texts in files beside the sounds: `a.txt` for `a.wav`, THCHS-30's `a.wav.trn`, LibriSpeech's
`84-121123.trans.txt` with lines such as `84-121123-0000 GO DO YOU HEAR`, the transcript of AISHELL-1, a
folder above, or captions of a recording (`subtitles`).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from studio.dataset.audio import SOUND_FILES, audio_duration
from studio.dataset.delimited import Row
from studio.dataset.formats import subtitles
from studio.dataset.rows import WINDOW_SECONDS
from studio.dataset.written import in_one, is_tight
from studio.errors import DataError, ManifestError
from studio.files import files_below

_WITH_SYLLABLES = ".trn"
"""THCHS-30: the text is the first line, its syllables and sounds are below."""
_ENDINGS = (".txt", ".normalized.txt", ".lab", _WITH_SYLLABLES)
"""Of a sound's own text: as most have it, as LibriTTS does, as aligners do, and THCHS-30; in place of the
sound's own ending, or behind it."""
_THCHS = re.compile(r"([A-D]\d+)_\d+")
"""A sound of THCHS-30, and who speaks."""
_LIST_ENDING = ".trans.txt"
AISHELL = Path("transcript", "aishell_transcript_v0.8.txt")
"""Lines such as `BAC009S0002W0122 而 对 楼市`, for the sounds in `wav/train/S0002` beside its folder."""
_AISHELL_FOLDERS = 4
"""From that of a speaker up to that of all."""
_MOST_CHARACTERS = 2**20
"""More is no text of a clip."""


def rows(folder: Path, *, follows_links: bool) -> Iterator[Row]:
    """The sounds in a folder and those below it, in the order of their names, each with its text; nothing if
    none has one.

    Unless it `follows_links`, a text that is a link to a place outside of the folder is passed over.
    """
    endings = {*(Path(f"a{ending}").suffix for ending in _ENDINGS), *subtitles.ENDINGS}
    files = files_below(folder, {*SOUND_FILES, *endings})
    sounds = [path for path in files if path.suffix.lower() in SOUND_FILES]
    texts = set(files).difference(sounds)
    if not follows_links:
        texts = {path for path in texts if path.resolve().is_relative_to(folder.resolve())}
    lists = (path for path in texts if path.name.endswith(_LIST_ENDING))
    listed = dict(chain.from_iterable(map(_listed, lists)))
    listed |= _of_aishell(folder, sounds, goes_up=follows_links)
    own = [next((path for path in _own(sound) if path in texts), None) for sound in sounds]
    captions = subtitles.by_recording(texts)
    if not listed and not any(own) and captions.keys().isdisjoint(sound.with_suffix("") for sound in sounds):
        return
    number = 0
    for sound, text in zip(sounds, own, strict=True):
        audio = {"audio": sound.relative_to(folder).as_posix()}
        shown = captions.get(sound.with_suffix(""), [])
        try:
            for values in _clips(sound, text, shown, listed, None if follows_links else folder):
                number += 1
                yield Row(number, audio | values)
        except ManifestError as error:
            number += 1
            yield Row(number, {}, error)
        except (OSError, ValueError):
            number += 1
            name = (text or shown[0]).name
            problem = ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=name)
            yield Row(number, {}, problem)


def _clips(
    sound: Path,
    text: Path | None,
    captions: Sequence[Path],
    listed: Mapping[Path, dict[str, str]],
    within: Path | None,
) -> Iterator[dict[str, Any]]:
    """What is known of the clips of a sound: of all of it, or of those that captions tell of."""
    if captions and ((seconds := _seconds_of(sound)) > WINDOW_SECONDS or text is None):
        yield from subtitles.rows_of(sound, seconds, captions)
    else:
        yield _said(text, within) if text else listed.get(sound.with_suffix(""), {"text": ""})


def is_text(path: Path) -> bool:
    """Whether a file is the text of a sound beside it, or LibriSpeech's of several."""
    stems = [path.name.removesuffix(ending) for ending in _ENDINGS if path.name.endswith(ending)]
    stems += [stem.name for stem in subtitles.by_recording([path])]
    sounds = (path.with_name(stem + ending) for stem in stems for ending in ("", *SOUND_FILES))
    return path.name.endswith(_LIST_ENDING) or any(sound.is_file() for sound in sounds)


def _seconds_of(sound: Path) -> float:
    """Its length, as far as it can be read: why it cannot is told where its clips are looked up."""
    try:
        return audio_duration(sound)
    except DataError:
        return math.inf


def _own(sound: Path) -> list[Path]:
    return [sound.with_name(name + ending) for name in (sound.stem, sound.name) for ending in _ENDINGS]


def _said(text: Path, within: Path | None) -> dict[str, str]:
    """What is known of a sound from its own text.

    In a part of THCHS-30 that file names another of its name, in the folder of all sounds; only one that is
    `within` this folder is opened, if any is named.
    """
    if text.suffix != _WITH_SYLLABLES:
        with text.open(encoding="utf-8-sig") as file:
            return {"text": " ".join(file.read(_MOST_CHARACTERS).split())}
    said = _first_line(text)
    if PurePosixPath(said).name == text.name:
        named = text.parent / said
        if not named.is_file() or not (within is None or named.resolve().is_relative_to(within.resolve())):
            raise ManifestError("{path} names {named}, which is not there.", path=text.name, named=said)
        said = _first_line(named)
    found = _THCHS.fullmatch(text.name.partition(".")[0])
    return {"text": said, "speaker": found[1], "language": "zh"} if found else {"text": said}


def _first_line(path: Path) -> str:
    """The line; Mandarin is written without the spaces that part its words there."""
    with path.open(encoding="utf-8-sig") as file:
        words = file.readline(_MOST_CHARACTERS).split()
    return in_one(words, tight=is_tight("".join(words)))


def _listed(path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Sounds without their ending, and what is known of each; who speaks stands at the beginning of its name.

    Raises:
        ManifestError: if it is not UTF-8 text.
    """
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for line in lines:
                name, _, text = line.strip().partition(" ")
                yield path.parent / name, {"text": text, "speaker": name.partition("-")[0]}
    except ValueError as error:
        raise ManifestError("{path} is not UTF-8 text: save it again in UTF-8.", path=path) from error


def _of_aishell(folder: Path, sounds: Sequence[Path], *, goes_up: bool) -> dict[Path, dict[str, str]]:
    """What is known of the sounds of AISHELL-1, without their ending; each is in the folder of its speaker.

    Mandarin is written without the spaces that part its words there. `goes_up`: the transcript may lie
    beside a folder that has this one in it.
    """
    above = [folder, *folder.absolute().parents][: _AISHELL_FOLDERS if goes_up else 1]
    path = next((path for path in (place / AISHELL for place in above) if path.is_file()), None)
    if path is None or not (goes_up or path.resolve().is_relative_to(folder.resolve())):
        return {}
    texts = {sound.name: values["text"].replace(" ", "") for sound, values in _listed(path)}
    return {
        sound.with_suffix(""): {
            "text": texts[sound.stem],
            "speaker": sound.parent.name,
            "language": "zh",
        }
        for sound in sounds
        if sound.stem in texts
    }
