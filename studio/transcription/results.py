"""The results of many recordings in one file: what is there already is not done again."""

import glob
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.files import file_digest, in_unicode, read_json, write_json
from studio.transcription.captions import safe_stem
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.transcription.ranks import share_of
from studio.transcription.transcription_jobs import distinct_stems

_SAVED_EVERY_SECONDS = 5.0
"""A long list is written out so often: that much at most is lost if the power goes."""
_MADE_OF = "made_of"
"""Of a row in the file: what was asked, and what the recording's file was then."""
_STEM = "stem"
"""Of a row in the file: what the files made of the recording are called, without their endings."""


def asked_mark(options: TranscribeOptions, choice: EngineChoice) -> str:
    """A digest of what decides a text beside model and recording; what is as usual does not change it, so
    an option that is new keeps what was heard before there was one.
    """
    usual = {**TranscribeOptions().as_dict(), **vars(EngineChoice())}
    given = {**options.as_dict(), **vars(choice)}
    unusual = sorted((name, value) for name, value in given.items() if value != usual[name])
    return hashlib.blake2b(repr(unusual).encode(), digest_size=16).hexdigest()


class ResultsFile:
    """Rows of `--output_file` in the order of the recordings, then those of recordings that were not asked
    for this time; a later run goes on where one has ended.

    Where several processes share the recordings, each writes what it has into a part beside the file
    (`results.json.part-3`), until the process of rank 0 has the rows of all.
    """

    def __init__(
        self,
        path: Path | None,
        paths: Sequence[Path],
        model_id: str,
        *,
        overwrite: bool,
        asked: str = "",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Reads what `path` and its parts hold of `paths`, unless told to `overwrite`; None: nothing is kept.

        Rows with an error are done again, and so are those of another model, of something else than was
        `asked` (see `asked_mark`), and of a recording that has changed. Rows of earlier versions do not tell
        the last two.

        Raises:
            ConfigError: if the file is there and holds something else.
        """
        self._path = path
        self._is_shared = world_size > 1
        self._rank, self._world_size = rank, world_size
        self._paths = list(dict.fromkeys(paths))
        self._rows: dict[str, dict[str, Any]] = {}
        self._others: dict[str, dict[str, Any]] = {}
        """Rows of recordings that are none of the `paths`."""
        self._asked = asked
        self.differing = 0
        """Recordings that are there, and are done again all the same: of another question, or changed."""
        self._saved_at = time.monotonic()
        found: list[dict[str, Any]] = []
        if path is not None and not overwrite:
            wanted = {in_unicode(each) for each in paths}
            files = [file for file in (path, *self._parts()) if file.is_file()]
            found = [row for file in files for row in _read(file)]
            self._others = {row["audio_path"]: row for row in found if row["audio_path"] not in wanted}
            heard = [row for row in found if row["audio_path"] in wanted and not row.get("error")]
            same = [
                row
                for row in heard
                if row.get("model") == model_id and self._is_answer(row) and _is_whole(row)
            ]
            self._rows = {row["audio_path"]: row for row in same}
            self.differing = len({row["audio_path"] for row in heard} - self._rows.keys())
        # Recordings that are new must not get the names of those that were there: files would be lost. Rows
        # of earlier versions tell no names: those came from the order of the list, which is that of the rows.
        named = [*(row["audio_path"] for row in found), *map(in_unicode, self._paths)]
        self.stems = distinct_stems(list(map(Path, named)), _stems_in(found))
        """Names for files made of the recordings, each its own: a recording keeps its name."""
        for rows in (self._rows, self._others):
            rows.update({name: {**row, _STEM: self.stems[Path(name)]} for name, row in rows.items()})

    @property
    def paths(self) -> list[Path]:
        """All recordings, each once."""
        return self._paths

    @property
    def todo(self) -> list[Path]:
        """Recordings of this process that have no row."""
        share = share_of(self._paths, self._rank, self._world_size)
        return [path for path in share if in_unicode(path) not in self._rows]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        names = map(in_unicode, self._paths)
        return [self._rows[name] for name in names if name in self._rows]

    def add(self, row: dict[str, Any]) -> None:
        """Keeps a row, and now and then writes the file, or this process's part of it."""
        if self._path is not None:
            path = Path(row["audio_path"])
            made_of = {"asked": self._asked, **_file_mark(path)}
            row = {**row, _MADE_OF: made_of, _STEM: self.stems[path]}
        self._rows[row["audio_path"]] = row
        if time.monotonic() - self._saved_at > _SAVED_EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        """Replaces the file, or this process's part of it, whole or not at all.

        Raises:
            StorageError: if it cannot be written.
        """
        if self._path is not None:
            self._write(self._part() if self._is_shared else self._path)
        self._saved_at = time.monotonic()

    def finish(self, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the file with the rows of all processes; the parts that lie beside it go.

        Raises:
            StorageError: if it cannot be written.
        """
        for row in rows:
            self._rows[row["audio_path"]] = row
        if self._path is not None:
            self._write(self._path)
            for part in self._parts():
                part.unlink(missing_ok=True)

    def forget_part(self) -> None:
        """Deletes this process's part: its rows are in the file, which may lie on another machine."""
        if self._path is not None:
            self._part().unlink(missing_ok=True)

    def _write(self, path: Path) -> None:
        write_json(path, [*self.rows, *self._others.values()])

    def _is_answer(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is what would be heard now, as far as it tells."""
        made_of = row.get(_MADE_OF)
        if not isinstance(made_of, dict):
            return True
        return made_of.get("asked") == self._asked and _is_unchanged(Path(row["audio_path"]), made_of)

    def _part(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.part-{self._rank}")

    def _parts(self) -> list[Path]:
        assert self._path is not None
        return sorted(self._path.parent.glob(f"{glob.escape(self._path.name)}.part-*"))


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = read_json(path)
    except (OSError, ValueError):
        rows = None
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("audio_path"), str) for row in rows
    ):
        raise ConfigError(
            "{path} is there and holds no results of transcribe: name another file, or give --overwrite.",
            path=path,
        )
    return rows


def _stems_in(rows: Sequence[Mapping[str, Any]]) -> dict[Path, str]:
    """The recordings' names that rows tell; not those that can be none, or are another recording's."""
    named: dict[str, tuple[Path, str]] = {}
    for row in rows:
        stem = row.get(_STEM)
        if isinstance(stem, str) and safe_stem(stem) == stem:
            named.setdefault(stem.casefold(), (Path(row["audio_path"]), stem))
    return dict(named.values())


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Whether nobody took away what a transcript needs."""
    try:
        Transcript.from_json(row)
    except (KeyError, TypeError):
        return False
    return True


def _file_mark(path: Path) -> dict[str, Any]:
    """What a recording's file is now; nothing if it cannot be read."""
    try:
        return {**_size_and_time(path), "digest": file_digest(path).hex()}
    except OSError:
        return {}


def _is_unchanged(path: Path, mark: Mapping[str, Any]) -> bool:
    """Whether a file is what it was. It is read only if its time is another: a copy has its own."""
    try:
        now = _size_and_time(path)
    except OSError:  # it is gone, and was heard
        return True
    if now.get("bytes") != mark.get("bytes", now["bytes"]):
        return False
    is_same_time = now["changed_ns"] == mark.get("changed_ns", now["changed_ns"])
    return is_same_time or _file_mark(path).get("digest") == mark.get("digest")


def _size_and_time(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"bytes": status.st_size, "changed_ns": status.st_mtime_ns}
