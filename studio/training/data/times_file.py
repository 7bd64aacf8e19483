"""Times that were made for a run's texts, beside the run: a resumption does not make them again."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from studio.dataset.example import TextSegment
from studio.files import append_json_line, storage_errors

_VERSION = 1
"""Of the file, and of the way in which times are made."""

Times = Sequence[tuple[TextSegment, ...]]
"""The segments of each example of a batch; empty where none were made."""


class TimesFile:
    """A line that says what the times were made of, then a line a batch, only ever appended."""

    def __init__(self, path: Path, model: str, *, writes: bool = True) -> None:
        """`model` is the revision of the model that makes the times.

        Of several processes on a machine one `writes`.
        """
        self._path = path
        self._model = model
        self._writes = writes

    def open(self, examples: str) -> Iterator[Times]:
        """The batches that are known, read one at a time; none if they were made of something else.

        `examples` is a fingerprint of what gets the times.

        Raises:
            StorageError: if a new file cannot be begun.
        """
        made_of = {"schema_version": _VERSION, "model": self._model, "examples": examples}
        whole = 0
        try:
            with self._path.open("rb") as file:
                header = file.readline()
                if json.loads(header) == made_of:
                    whole = len(header)
                    for line in file:
                        batch = _batch(line)
                        whole += len(line)
                        yield batch
        except (OSError, ValueError, TypeError):
            pass  # none yet, or the end was cut off: what comes after the last whole line is made again
        if self._writes:
            self._cut_off(whole)
            if not whole:
                append_json_line(self._path, made_of)

    def add(self, times: Times) -> None:
        """Appends a batch.

        Raises:
            StorageError: if it cannot be written.
        """
        if self._writes:
            rows = [[[s.start_seconds, s.end_seconds, s.text] for s in segments] for segments in times]
            append_json_line(self._path, rows)

    def _cut_off(self, size: int) -> None:
        with storage_errors(self._path), self._path.open("ab") as file:
            file.truncate(size)


def _batch(line: bytes) -> Times:
    if not line.endswith(b"\n"):
        raise ValueError("the line was not written whole")
    return [tuple(TextSegment(*segment) for segment in segments) for segments in json.loads(line)]
