"""What a model wrote of a test set that it was not through with: one that was killed goes on there."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.files import append_json_line, read_json_lines

_KEPT_SECONDS = 30 * 86_400.0
"""What nobody has gone on with for so long goes."""


@dataclass(frozen=True)
class KeptClip:
    """What was written of one clip, and what was found of its sound."""

    place: int
    text: str
    duration_seconds: float
    loudness_db: float


class KeptTexts:
    """The texts of one model in one way of decoding, in a file that grows by a batch at a time."""

    def __init__(self, folder: Path, *way: object) -> None:
        """`way` is all that decides what is written: the model's state, options, clips."""
        key = hashlib.sha256(repr(way).encode()).hexdigest()[:32]
        self._path = folder / f"{key}.jsonl"
        _forget_old(folder)

    def read(self) -> tuple[list[KeptClip], float]:
        """What was written so far, and the seconds of computing that it took; a torn line is left out."""
        rows, _ = read_json_lines(self._path)
        clips = {clip[0]: KeptClip(*clip) for row in rows for clip in row["clips"]}
        return list(clips.values()), sum(row["seconds"] for row in rows)

    def add(self, clips: Sequence[KeptClip], seconds: float) -> None:
        """Keeps a batch.

        Raises:
            StorageError: if it cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = [(clip.place, clip.text, clip.duration_seconds, clip.loudness_db) for clip in clips]
        append_json_line(self._path, {"clips": rows, "seconds": seconds})

    def forget(self) -> None:
        """The evaluation is done."""
        self._path.unlink(missing_ok=True)


def _forget_old(folder: Path) -> None:
    for path in folder.glob("*.jsonl"):
        if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
            path.unlink(missing_ok=True)
