"""A list of recordings on its way: what is done, what is left, and what can be taken away of it."""

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.dataset.audio import audio_duration
from studio.errors import DataError
from studio.files import forget_old, storage_errors
from studio.messages import Message
from studio.transcription.captions import FORMATS, CaptionLayout, render
from studio.transcription.engine import EngineChoice, TranscribeOptions, Transcript
from studio.transcription.results import ResultsFile, asked_mark

KEPT_SECONDS = 7 * 24 * 3600.0
"""Results of a list that was broken off wait so long for somebody to go on with it."""


@dataclass(frozen=True)
class Asked:
    """What decides a list's results: model, options and engine."""

    model_id: str
    options: TranscribeOptions
    choice: EngineChoice


class Batch:
    """Recordings of one visitor, whose results are kept on the disk until all of them are there.

    Whoever gives the same recordings again, to the same model with the same options, goes on where it ended.
    """

    def __init__(
        self, paths: Sequence[Path], asked: Asked, folder: Path, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        """`folder` keeps the results, for so long. Uploads lie in folders named after what is in them.

        Raises:
            StorageError: if the folder cannot be made.
        """
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            forget_old(folder, "*.json", kept_seconds)
        self.asked = asked
        self.paths = list(dict.fromkeys(paths))
        self.seconds = {path: _seconds(path) for path in self.paths}
        self.errors: dict[str, DataError] = {}
        self._notes: dict[str, tuple[Message, ...]] = {}
        mark = asked_mark(asked.options, asked.choice)
        key = hashlib.sha256(repr((self.paths, asked.model_id, mark)).encode()).hexdigest()[:32]
        self._file = folder / f"{key}.json"
        self._results = ResultsFile(self._file, self.paths, asked.model_id, overwrite=False, asked=mark)

    @property
    def todo(self) -> list[Path]:
        """Recordings without a result."""
        return self._results.todo

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Results so far, in the order of the recordings."""
        return self._results.rows

    @property
    def total_seconds(self) -> float:
        """Length of all recordings that can be read."""
        return sum(self.seconds.values())

    @property
    def done_seconds(self) -> float:
        """Length of those with a result."""
        return self.total_seconds - sum(self.seconds[path] for path in self.todo)

    def add(self, row: dict[str, Any], found: Transcript | DataError) -> None:
        """Keeps a result."""
        if isinstance(found, DataError):
            self.errors[row["audio_path"]] = found
        else:
            self._notes[row["audio_path"]] = found.notes
        self._results.add(row)

    def notes(self, row: dict[str, Any]) -> tuple[Message, ...]:
        """What is to be known of a result; of one that was there before, in English."""
        notes = self._notes.get(row["audio_path"])
        return Transcript.from_json(row).notes if notes is None else notes

    def save(self) -> None:
        """Writes the results down; when none is missing they are the visitor's alone, and the file goes.

        Raises:
            StorageError: if they cannot be written.
        """
        if self.todo:
            self._results.save()
        else:
            self._file.unlink(missing_ok=True)

    def to_json(self) -> str:
        """All results as `transcribe --output_file` writes them, with the recordings' names."""
        rows = [{**row, "audio_path": Path(row["audio_path"]).name} for row in self.rows]
        return json.dumps(rows, ensure_ascii=False, indent=2)

    def captions(self, layout: CaptionLayout) -> bytes:
        """A zip with a folder a format, and in it a file a recording."""
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            for row in self.rows:
                if row["error"]:
                    continue
                transcript = Transcript.from_json(row)
                stem = self._results.stems[Path(row["audio_path"])]
                for ending in FORMATS:
                    archive.writestr(f"{ending}/{stem}.{ending}", render(transcript, ending, layout))
        return whole.getvalue()


def _seconds(path: Path) -> float:
    """0 for what cannot be read: its turn tells why."""
    try:
        return audio_duration(path)
    except DataError:
        return 0.0
