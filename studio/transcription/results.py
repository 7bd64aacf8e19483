"""The results of many recordings in one file: what is there already is not done again."""

import glob
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.files import read_json, write_json
from studio.transcription.ranks import share_of

_SAVED_EVERY_SECONDS = 5.0
"""A long list is written out so often: that much at most is lost if the power goes."""


class ResultsFile:
    """Rows of `--output_file` in the order of the recordings; a later run goes on where one has ended.

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
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Reads what `path` and its parts hold of `paths`, unless told to `overwrite`; None: nothing is kept.

        Rows with an error, and those of another model, are done again.

        Raises:
            ConfigError: if the file is there and holds something else.
        """
        self._path = path
        self._is_shared = world_size > 1
        self._rank, self._world_size = rank, world_size
        self._paths = list(dict.fromkeys(paths))
        self._rows: dict[str, dict[str, Any]] = {}
        self._saved_at = time.monotonic()
        if path is not None and not overwrite:
            wanted = {str(each) for each in paths}
            for file in (path, *self._parts()):
                for row in _read(file) if file.is_file() else ():
                    is_usable = not row.get("error") and row.get("model") == model_id
                    if row["audio_path"] in wanted and is_usable:
                        self._rows[row["audio_path"]] = row

    @property
    def paths(self) -> list[Path]:
        """All recordings, each once."""
        return self._paths

    @property
    def todo(self) -> list[Path]:
        """Recordings of this process that have no row."""
        share = share_of(self._paths, self._rank, self._world_size)
        return [path for path in share if str(path) not in self._rows]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return [self._rows[str(path)] for path in self._paths if str(path) in self._rows]

    def add(self, row: dict[str, Any]) -> None:
        """Keeps a row, and now and then writes the file, or this process's part of it."""
        self._rows[row["audio_path"]] = row
        if time.monotonic() - self._saved_at > _SAVED_EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        """Replaces the file, or this process's part of it, whole or not at all.

        Raises:
            StorageError: if it cannot be written.
        """
        if self._path is not None:
            write_json(self._part() if self._is_shared else self._path, self.rows)
        self._saved_at = time.monotonic()

    def finish(self, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the file with the rows of all processes; the parts that lie beside it go.

        Raises:
            StorageError: if it cannot be written.
        """
        for row in rows:
            self._rows[row["audio_path"]] = row
        if self._path is not None:
            write_json(self._path, self.rows)
            for part in self._parts():
                part.unlink(missing_ok=True)

    def forget_part(self) -> None:
        """Deletes this process's part: its rows are in the file, which may lie on another machine."""
        if self._path is not None:
            self._part().unlink(missing_ok=True)

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
