"""Texts of many sounds in one file, with lines such as `84-121123-0000 GO DO YOU HEAR`, as those of
LibriSpeech, MLS, AISHELL and JSUT.
"""

import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from unicodedata import normalize

from studio.dataset.audio import SOUND_FILES
from studio.dataset.encodings import not_utf8
from studio.files import encoding_of

_SPEAKER = re.compile(r"(\d+)[-_]\d+[-_]\d{4,6}$|BAC009(S\d{4})W|(SSB\d{4})\d{4}$")
"""Who speaks, in the name of a sound of LibriSpeech or MLS, of AISHELL-1, and of AISHELL-3."""
WITH_PINYIN = "content.txt"
"""AISHELL-3: behind each character how it is said, `广 guang3 州 zhou1`."""
_PINYIN = re.compile(r"[a-z:]+\d")
_LIST = re.compile(
    r"(.+\.trans|trans(cripts?|criptions?)?(_utf8|\.v[\d.]+)?|aishell_transcript.*|content|prompts|(train_)?text)(\.txt)?|txt\.done\.data"
    r"|line_index(_\w+)?\.tsv|utt_spk_text\.tsv",
    re.IGNORECASE,
)
"""Names of files with the texts of many sounds: LibriSpeech, MLS, JSUT, AISHELL, AISHELL-3, MAGICDATA,
VoxForge, CSS10, KSS, FunASR and Kaldi, of Festival, and of the corpora that Google gave to OpenSLR."""
OF_FESTIVAL = ".data"
_IN_LISP = re.compile(r'^\( ?(\S+) +"(.*)" ?\)\s*$')
"""`( arctic_a0001 "Author of the danger trail." )`."""
_LINE = re.compile(r"\s*([^\t|:\s]+)\s*([\t|:\s]+)(.+)")
_FEATURES = "mfc"
"""VoxForge's lists have this in place of the folder of the sounds."""
AISHELL = Path("transcript", "aishell_transcript_v0.8.txt")
"""Lines such as `BAC009S0002W0122 而 对 楼市`, for the sounds in `wav/train/S0002` beside its folder."""
_AISHELL_FOLDERS = 4
"""From that of a speaker up to that of all."""


class Told(NamedTuple):
    """What lists tell of a sound."""

    path: Path
    values: dict[str, str]
    is_doubtful: bool = False
    """Whether another line has another text for it."""


def is_list(path: Path) -> bool:
    """Whether a file has the texts of many sounds, by its name."""
    return _LIST.fullmatch(path.name) is not None


def told_of(
    folder: Path, texts: Iterable[Path], sounds: Sequence[Path], *, goes_up: bool
) -> dict[Path, Told]:
    """Sounds in a folder, and what is known of each from a line that names it, in one of the `texts` or,
    if it `goes_up`, in the transcript of AISHELL-1 above the folder.

    A list tells of the sounds below its own folder or, if there are none, below the nearest folder above it
    that has some. A line means the only one of them with its name, in the folders that it tells, if any.

    Raises:
        ManifestError: if a list is not UTF-8 text.
    """
    lists = sorted({*filter(is_list, texts), *_of_aishell(folder, goes_up=goes_up)})
    if not lists:
        return {}
    by_stem: dict[str, list[Path]] = {}
    for sound in sounds:
        by_stem.setdefault(normalize("NFC", sound.stem), []).append(sound)
    parents = {sound.parent for sound in sounds}
    above = parents.union(*(parent.parents for parent in parents))
    holding = {parent for parent in above - {folder} if parent.is_relative_to(folder)}
    found: dict[Path, Told] = {}
    for path in lists:
        base = next(filter(holding.__contains__, path.parents), None)
        within = f"{base}{os.sep}" if base else ""
        for stem, folders, values in _told(path, by_stem):
            near = [sound for sound in by_stem[stem] if str(sound).startswith(within)]
            meant = [sound for sound in near if not folders or _lies_in(folders, folder, sound)]
            if len(meant) == 1:
                told = found.setdefault(meant[0], Told(path, values))
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
            plain = (
                _IN_LISP.sub(lambda one: f"{one[1]} {one[2]}".replace('\\"', '"'), line) for line in lines
            )
            for line in filter(None, map(_LINE.match, plain)):
                *folders, name = normalize("NFC", line[1]).strip("/").split("/")
                ending = PurePosixPath(name).suffix
                name = name.removesuffix(ending) if ending.lower() in SOUND_FILES else name
                if name not in known:
                    continue
                *others, text = line[3].strip().split("\t")
                if "|" in line[2]:  # of CSS10 and KSS, with the text as it is read, and its length
                    text = text.partition("|")[0]
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
        raise not_utf8(path) from error


def _of_aishell(folder: Path, *, goes_up: bool) -> set[Path]:
    """The transcript of AISHELL-1; if it `goes_up`, it may lie beside a folder that has this one in it."""
    above = [folder, *folder.absolute().parents][: _AISHELL_FOLDERS if goes_up else 1]
    path = next((path for path in (place / AISHELL for place in above) if path.is_file()), None)
    is_inside = path is not None and path.resolve().is_relative_to(folder.resolve())
    return {path} if path and (goes_up or is_inside) else set()
