"""What models wrote of a test set: one that was killed goes on there, and so does one of other references."""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from studio.files import append_json_line, forget_old, read_json_lines

_KEPT_SECONDS = 30 * 86_400.0
"""What nobody has gone on with for so long goes; a text takes a few hundred bytes a clip."""


@dataclass(frozen=True)
class KeptClip:
    """What was written of one clip, and what was found of its sound."""

    place: int
    text: str
    duration_seconds: float
    loudness_db: float
    average_logprob: float | None = None
    """How sure the model was (see `UtteranceRow`); earlier versions did not keep it."""


@dataclass(frozen=True)
class KeptSoFar:
    """What a model has written."""

    clips: tuple[KeptClip, ...] = ()
    seconds: float = 0.0
    """Of computing."""
    model: str = ""
    """What the model is called, of one that has heard all clips; else empty."""


class KeptTexts:
    """The texts of one model in one way of decoding, in a file that grows by a batch at a time."""

    def __init__(self, folder: Path, asked: str, *way: object) -> None:
        """`way` is all that decides what is written: the model's state, options, the clips' sounds; `asked`
        are the list and the references that it is compared with.
        """
        key = hashlib.sha256(repr(way).encode()).hexdigest()[:32]
        self._path = folder / f"{key}.jsonl"
        self._asked = asked
        forget_old(folder, "*.jsonl", _KEPT_SECONDS)

    def read(self) -> KeptSoFar:
        """What was written so far; a torn line is left out.

        Of an evaluation that came to its end with this very list, nothing: who asks for it again wants it
        heard again. With other references, all of it.
        """
        rows, _ = read_json_lines(self._path)
        if any(row.get("through") == self._asked for row in rows):
            self._path.unlink(missing_ok=True)
            return KeptSoFar()
        clips = {clip[0]: KeptClip(*clip) for row in rows for clip in row.get("clips", ())}
        model = next((str(row["model"]) for row in rows if "through" in row), "")
        return KeptSoFar(tuple(clips.values()), sum(row.get("seconds", 0.0) for row in rows), model)

    def add(self, clips: Sequence[KeptClip], seconds: float) -> None:
        """Keeps a batch.

        Raises:
            StorageError: if it cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = [astuple(clip) for clip in clips]
        append_json_line(self._path, {"clips": rows, "seconds": seconds})

    def close(self, model: str) -> None:
        """The model, which is called so, is through.

        Raises:
            StorageError: if it cannot be written.
        """
        append_json_line(self._path, {"through": self._asked, "model": model})
