"""Where the sounds lie that a list names."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from studio.dataset.audio import SOUND_FILES
from studio.errors import ConfigError, ManifestError
from studio.files import files_below
from studio.messages import Joined

_ROOTS = ("$data_root/", "{data_root}/")
"""What SpeechBrain's lists say in place of the folder of a corpus, which may be the one above theirs."""
_SERVED = re.compile(r"/data/(?:local-files/\?d=|upload/(?:\d+/)?)")
_UPLOADED = re.compile(r"^[0-9a-f]{8}-")
"""Label Studio's addresses of files, and what it puts before the name of one that it has taken in."""


class Places:
    """The folders in which the sounds of a list are looked for."""

    def __init__(self, folders: Sequence[Path], within: Sequence[Path]) -> None:
        """`folders` in their order, that of the list first; what is found must lie `within` some, if any."""
        self._folders = folders
        self._within = within
        self._moved: dict[str, Sequence[str]] = {}

    def find(self, audio: str) -> tuple[Path, int]:
        """The file and its size in bytes.

        A path counts from the folders; else it is that of a single file somewhere below the first of them.

        Raises:
            ManifestError: if there is none, or it is empty or a folder.
        """
        named = (folder / name for name in spellings(audio) for folder in self._folders)
        for path in (_inside(path, self._within) for path in chain(named, self._elsewhere(audio))):
            if path is None:
                continue
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue
            if stat.S_ISDIR(status.st_mode):
                raise ManifestError("{audio} is a folder, where an audio file is needed.", audio=audio)
            if status.st_size == 0:
                raise ManifestError("The audio file {audio} is empty.", audio=audio)
            return path, status.st_size
        if self._within:
            raise ManifestError(
                "The audio file {audio} did not come with its list, and no other is opened here: put it into "
                "the folder of the list.",
                audio=audio,
            )
        raise ManifestError(
            "There is no audio file {audio} (looked in {folders}).",
            audio=audio,
            folders=Joined(tuple(str(folder) for folder in self._folders)),
        )

    def _elsewhere(self, audio: str) -> Iterator[Path]:
        """Of a path of another machine, what is left of it beside the list, a folder at least; of any other,
        the only file below the list whose own path ends so.
        """
        inner = next((audio.removeprefix(root) for root in _ROOTS if audio.startswith(root)), audio)
        parts = PurePosixPath(unicodedata.normalize("NFC", without_root(inner))).parts
        if not parts or ".." in parts or not self._folders:
            return
        if served := _SERVED.match(audio):
            yield from self._of_label_studio(audio, without_root(unquote(audio[served.end() :])))
            return
        if inner != audio:
            yield from (folder / inner for folder in (self._folders[0], self._folders[0].parent))
        if PureWindowsPath(inner).root:
            for first in range(1, len(parts) - 1):
                path = self._folders[0].joinpath(*parts[first:])
                # Of two folders of the other machine only one can be this one.
                is_there = os.path.exists(path)  # noqa: PTH110 - which raises nothing
                if is_there and self._moved.setdefault(parts[first], parts[:first]) == parts[:first]:
                    yield path
            return
        yield from self._ending_so("/".join(parts))

    def _of_label_studio(self, audio: str, named: str) -> Iterator[Path]:
        """The only file whose path ends so; of what was uploaded, it may have the name that it had before,
        of which it was the only one."""
        yield from self._ending_so(named)
        before = _UPLOADED.sub("", named)
        if before != named and self._moved.setdefault(before, (audio,)) == (audio,):
            yield from self._ending_so(before)

    def _ending_so(self, ending: str) -> Iterator[Path]:
        """The only sound below the list whose own path ends so."""
        ending = unicodedata.normalize("NFC", f"/{ending}")
        found = [
            path for whole, path in self._below.get(ending.rpartition("/")[2], ()) if whole.endswith(ending)
        ]
        yield from found if len(found) == 1 else ()

    @cached_property
    def _below(self) -> Mapping[str, list[tuple[str, Path]]]:
        """The sounds below the list by their names, each as it is spelled in a list, and as it is."""
        by_name: dict[str, list[tuple[str, Path]]] = {}
        with suppress(ConfigError):  # it lies where all the files of a disk do
            for path in files_below(self._folders[0], SOUND_FILES):
                whole = unicodedata.normalize("NFC", path.as_posix())
                by_name.setdefault(whole.rpartition("/")[2], []).append((whole, path))
        return by_name


def spellings(audio: str) -> Iterator[str]:
    """The path as it stands, then as other systems write it: macOS takes letters and their accents apart, and
    Windows has backslashes; at last as what came with its list from another machine."""
    yield audio
    for plain in dict.fromkeys((audio.replace("\\", "/"), without_root(audio))):
        yield from (unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain), plain)


def without_root(audio: str) -> str:
    """A path of any system as it may lie in a folder: `data/a.wav` of `/data/a.wav` and `C:\\data/a.wav`."""
    path = PureWindowsPath(audio)
    return path.relative_to(path.anchor).as_posix() if path.root else audio.replace("\\", "/")


def _inside(path: Path, within: Sequence[Path]) -> Path | None:
    """The path without detours, if it stays in one of these folders with its links followed; any, if there
    are none.

    What leads out of them is not looked at, and refused as what is not there: nobody learns which it is.
    """
    if not within:
        return path
    plain = Path(os.path.normpath(path))
    if not any(map(plain.is_relative_to, within)):
        return None
    try:
        real = plain.resolve()
    except (OSError, ValueError, RuntimeError):  # no name of a file, or links in a circle
        return None
    return plain if any(map(real.is_relative_to, within)) else None
