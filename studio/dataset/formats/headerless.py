"""Lists without a header, whose lines begin with the name of a sound below their folder: `clip1` and `hello`,
with a tab, a bar, a comma or a space between them, for `wavs/clip1.flac`. GigaSpeech 2 has such, and many who
write a list by hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path, PurePath
from unicodedata import normalize

from studio.dataset.audio import SOUND_FILES
from studio.dataset.delimited import UNNAMED, Row, headerless_rows
from studio.dataset.tables import check_text
from studio.errors import ConfigError, ManifestError
from studio.files import files_below

_ENDING = ".txt"
_SECONDS = re.compile(r"\d+\.\d+\s")
"""Before a text, it is no part of it."""
_LOOKED_AT_ROWS = 50
_Sounds = Mapping[str, PurePath | None]
"""Where sounds lie below a folder, by their names without an ending; None where two have the same."""


def rows(path: Path, blank_lines: int, first_line: str) -> Iterator[Row] | None:
    """The rows of such a list, None if it is none; `blank_lines` and `first_line` as `check_text` tells them.

    A name that two sounds have, or none, stays as it is, and is missed where the sounds are looked up.
    """
    return _rows(path, blank_lines, first_line, _sounds_below(path.absolute().parent))


def list_in(folder: Path, names: list[str], *, is_named: bool) -> Path | None:
    """The text file of a folder that is such a list: the first that has one of these `names` or, unless it
    `is_named`, the only one; nothing if what it tells of the sounds may be speakers or lengths.

    Raises:
        ManifestError: if a file with one of the `names` is empty or not UTF-8 text.
    """
    texts = sorted(path for path in folder.glob(f"[!.]*{_ENDING}") if path.is_file())
    sounds = _sounds_below(folder) if texts else {}
    for name in names:
        if (path := folder / f"{name}{_ENDING}") in texts and _tells_sentences(path, sounds):
            return path
    found = []
    for path in () if is_named else texts:
        with suppress(ManifestError):  # whatever it is, nobody has named it
            found += [path] if _tells_sentences(path, sounds) else []
    return found[0] if len(found) == 1 else None


def _sounds_below(folder: Path) -> _Sounds:
    found: dict[str, PurePath | None] = {}
    with suppress(ConfigError):  # it lies where all the files of a disk do
        for sound in files_below(folder, SOUND_FILES):
            name = normalize("NFC", sound.stem)
            found[name] = None if name in found else PurePath(sound.relative_to(folder))
    return found


def _rows(path: Path, blank_lines: int, first_line: str, sounds: _Sounds) -> Iterator[Row] | None:
    for separator in _separators(first_line):
        found = headerless_rows(path, separator, blank_lines)
        first = next(found, None)
        if first is None or first.error or _SECONDS.match(str(first.values.get(UNNAMED[1], ""))):
            continue
        if _sound_of(first, sounds):
            return (_with_sound(row, sounds) for row in chain([first], found))
    return None


def _separators(line: str) -> Sequence[str]:
    """What may stand behind a name: nobody says a tab or a bar, while sentences have commas and spaces."""
    return next((unsaid for unsaid in ("\t", "|") if unsaid in line), (",", " "))


def _tells_sentences(path: Path, sounds: _Sounds) -> bool:
    begin = list(islice(_rows(path, *check_text(path), sounds) or (), _LOOKED_AT_ROWS))
    told = [[str(row.values.get(column, "")) for column in UNNAMED] for row in begin if not row.error]
    are_sounds = all(PurePath(audio).suffix.lower() in SOUND_FILES for audio, _said in told)
    return are_sounds and any(len(said.split()) > 1 or not said.isascii() for _audio, said in told)


def _sound_of(row: Row, sounds: _Sounds) -> str:
    """The sound that a row names, as it does if with an ending; empty if there is none, or more than one."""
    name = PurePath(normalize("NFC", str(row.values.get(UNNAMED[0], "")).strip()))
    if name.suffix.lower() in SOUND_FILES:
        return name.as_posix()
    found = sounds.get(name.name)
    is_meant = found is not None and found.with_suffix("").parts[-len(name.parts) :] == name.parts
    return found.as_posix() if found and is_meant else ""


def _with_sound(row: Row, sounds: _Sounds) -> Row:
    found = "" if row.error else _sound_of(row, sounds)
    return row._replace(values={**row.values, UNNAMED[0]: found}) if found else row
