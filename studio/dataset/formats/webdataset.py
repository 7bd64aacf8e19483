"""WebDataset: tar archives in which `0001.wav` lies beside `0001.txt`, or `0001.json` with a text.

A member's name tells which belong together. It never is a path where anything is written or read.
"""

import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from studio.dataset.audio import SOUND_FILES
from studio.dataset.columns import ALIASES
from studio.errors import ManifestError, in_brief
from studio.options.sources import TAR_ENDINGS
from studio.units import format_bytes

FORMAT = "webdataset"
ENDINGS = TAR_ENDINGS
_LARGEST_BYTES, _LARGEST_TEXT_BYTES = 2**28, 2**20
"""A larger member is no clip, or no text of one: each is held in memory as a whole."""
_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_TEXTS = (".json", ".txt")
_MOST_SHARDS = 10_000
_Clip = dict[str, list[tarfile.TarInfo]]
"""The members of a clip by their endings."""
_BRACES = re.compile(r"\{(\d{1,6})\.\.(\d{1,6})\}")


def is_name(name: str) -> bool:
    """Whether a file of this name is an archive."""
    return name.lower().endswith(ENDINGS)


def shards_of(name: str) -> list[str]:
    """`a-{00..03}.tar` → `a-00.tar` to `a-03.tar`; of another name, itself."""
    found = _BRACES.search(name)
    if not found:
        return [name]
    low, high = found.groups()
    numbers = range(int(low), int(high) + 1)[:_MOST_SHARDS]
    return [f"{name[: found.start()]}{number:0{len(low)}d}{name[found.end() :]}" for number in numbers]


def files_in(folder: Path, split: str) -> list[Path]:
    """The archives of a folder whose names begin with the split, or all if there are none such."""
    found = sorted(path for path in folder.glob("[!.]*") if is_name(path.name) and path.is_file())
    return [path for path in found if path.name.startswith(split)] or found


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The clips of an archive, in the order of their first members.

    Raises:
        ManifestError: if a text is not UTF-8, or is not JSON where it should be.
    """
    with tarfile.open(path, tarinfo=_Member) as archive:
        clips: dict[PurePosixPath, list[tarfile.TarInfo]] = {}
        for member in archive:
            name = PurePosixPath(member.name)
            most_bytes = _LARGEST_TEXT_BYTES if name.suffix.lower() in _TEXTS else _LARGEST_BYTES
            is_ours = name.name and not name.name.startswith(
                "._"
            )  # in which macOS keeps what others have no place for
            if is_ours and member.isreg() and not member.issparse() and member.size <= most_bytes:
                clips.setdefault(name.with_name(name.name.partition(".")[0] or name.name), []).append(member)
        for members in chain.from_iterable(map(_apart, clips.values())):
            if sound := next((members[ending][0] for ending in SOUND_FILES if ending in members), None):
                audio = {"bytes": _content(archive, sound), "path": PurePosixPath(sound.name).name}
                yield {**_about(archive, members, path), "audio": audio}


def _apart(members: Sequence[tarfile.TarInfo]) -> Iterator[_Clip]:
    """The members of a clip: their names are alike up to the first dot, as WebDataset has it, or up to the
    last one where there are several sounds of them.
    """
    stems: dict[PurePosixPath, dict[str, tarfile.TarInfo]] = {}
    for member in members:
        name = PurePosixPath(member.name)
        stems.setdefault(name.with_suffix(""), {})[name.suffix.lower()] = member
    heard = [clip for clip in stems.values() if not clip.keys().isdisjoint(SOUND_FILES)]
    others = [] if len(heard) > 1 else stems.values()
    for clip in heard:
        found: _Clip = {}
        for ending, member in (pair for other in others for pair in other.items()):
            found.setdefault(ending, []).append(member)
        yield found | {ending: [member] for ending, member in clip.items()}  # of its whole name


class _Member(tarfile.TarInfo):
    """A member whose header is as small as one is: tarfile reads those of names and notes as a whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > _LARGEST_TEXT_BYTES:
            raise ManifestError(
                "{path} has a header of {size}, which no clip needs.",
                path=archive.name,
                size=format_bytes(self.size),
            )
        made: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return made


def _about(archive: tarfile.TarFile, members: _Clip, path: Path) -> dict[str, Any]:
    """What is said, and what else the JSON tells; but no file, which would be one outside of the archive.

    Of several texts nobody knows which is meant: their names stand in its place, which is no text.
    """
    about: dict[str, Any] = {"text": None}
    for ending in _TEXTS:
        found = members.get(ending, [])
        if len(found) > 1:
            about["text"] = [PurePosixPath(member.name).name for member in found]
        if len(found) != 1:
            continue
        member = found[0]
        try:
            text = _content(archive, member).decode("utf-8-sig")
            said = json.loads(text) if ending == ".json" else {"text": text}
        except (ValueError, RecursionError) as error:
            raise ManifestError(
                "{member} in {path} cannot be read ({reason}): save it again in UTF-8.",
                member=member.name[:80],
                path=path,
                reason=in_brief(error, 80),
            ) from error
        if isinstance(said, dict):
            about |= {name: said[name] for name in said if name.strip().lower() not in ALIASES["audio"]}
    return about


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""
