"""What a manifest is read into: clips with their texts, and rows that cannot be used."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.errors import DataError, StudioError
from studio.messages import Message

FEWEST_CLIPS = 5
"""With fewer, no difference is called significant: they are too few to stand for others."""


@dataclass(frozen=True)
class TextSegment:
    """A part of a clip's text and when it is said, counted from the beginning of the clip."""

    start_seconds: float
    end_seconds: float
    text: str


@dataclass(frozen=True)
class Example:
    """A clip of speech and its text."""

    audio_path: Path
    text: str
    """Empty where nobody speaks, or where no texts are needed."""
    language: str | None
    """As the manifest has it (name or code); None if it says nothing."""
    task: str | None
    start_seconds: float | None
    """Where the clip begins in the file; None: at its beginning."""
    end_seconds: float | None
    duration_seconds: float | None = field(compare=False)
    """Length of the clip (not of the file): given by the manifest, or measured."""
    segments: tuple[TextSegment, ...]
    line: int
    """Line of the manifest, or number of the row where lines mean nothing; from 1."""
    audio_bytes: int = 0
    """Size of the file."""
    speaker: str | None = None
    """Who speaks, as the manifest has it."""
    previous_text: str | None = None
    """What was said before the clip: as the manifest has it, or the text of the slice before it."""
    parts: tuple["Example", ...] = ()
    """The clips that this one is put together of, if it is; the files above are then those of the first."""
    source: str = field(default="", compare=False)
    """The manifest, where there are several."""

    @property
    def place(self) -> Message:
        """Its line; where there are several manifests, with the name of its own."""
        return place_of(self.line, self.source)


def place_of(line: int, source: str) -> Message:
    """A line, as people read of it: `line 3`, or `line 3 of mine/a.csv` where the manifest is given. The
    folder tells those apart that are all called `train.csv`.
    """
    name = "/".join(re.split(r"[\\/]", source.rstrip("/\\"))[-2:])
    return Message("line {line} of {list}" if source else "line {line}", line=line, list=name)


def spread(rows: Sequence[Example], most: int) -> list[Example]:
    """At most so many of them, as evenly as can be."""
    count = min(most, len(rows))
    return [rows[place * len(rows) // count] for place in range(count)]


def read_clips(examples: Iterable[Example]) -> Iterator[tuple[Example, NDArray[np.float32]]]:
    """Clips with their sound, mono samples at 16 kHz; those that cannot be read are told of elsewhere."""
    for example in examples:
        try:
            yield example, read_audio(example.audio_path, example.start_seconds, example.end_seconds)
        except DataError:
            continue


@dataclass(frozen=True)
class RowProblem:
    """A row, and why it cannot be used or should be looked at."""

    line: int
    reason: Message
    audio_path: str
    """As far as it is known."""
    kind: str = "unusable"
    """What sort of problem; see `studio.dataset.report` for those found by listening."""
    source: str = ""
    """The manifest, where there are several."""

    @classmethod
    def of(cls, example: Example, kind: str, template: str, /, **values: object) -> "RowProblem":
        """A problem and its reason, a template and its values."""
        message = Message(template, **values)
        return cls(example.line, message, str(example.audio_path), kind, example.source)

    @classmethod
    def from_error(cls, example: Example, error: StudioError) -> "RowProblem":
        """A problem that was met as an error."""
        return cls(example.line, error.message(), str(example.audio_path), source=example.source)

    @property
    def place(self) -> Message:
        """As that of a clip."""
        return place_of(self.line, self.source)

    def to_json(self) -> dict[str, Any]:
        """For `--json` and the quarantine."""
        where = {"audio_path": self.audio_path, **self.named}
        return {"line": self.line, "kind": self.kind, "reason": str(self.reason), **where}

    @property
    def named(self) -> dict[str, str]:
        """The manifest for JSON, where there are several."""
        return {"source": self.source} if self.source else {}


@dataclass(frozen=True)
class Manifest:
    """The clips of one source."""

    source: str
    """As it was asked for."""
    format: str
    """`json`, `jsonl`, `csv`, `tsv`, `folder`, `hub`, or one of those in `studio.dataset.formats`."""
    examples: Sequence[Example]
    """In memory if they are few; see `studio.dataset.sequences`."""
    problems: tuple[RowProblem, ...]
    listed_in: Path | None = None
    """The file that is the list, where there is one of text."""

    @cached_property
    def hash(self) -> str:
        """SHA-256 over what decides what is learned from it: texts, times, languages, files' names and sizes.

        The same for the same rows in another format or another folder.
        """
        digest = hashlib.sha256()
        for example in self.examples:
            segments = [(part.start_seconds, part.end_seconds, part.text) for part in example.segments]
            row = (
                example.audio_path.name,
                example.audio_bytes,
                example.text,
                example.language,
                example.task,
                example.start_seconds,
                example.end_seconds,
                segments,
            )
            digest.update(repr(row).encode("utf-8"))
        return digest.hexdigest()


def in_order(problems: Iterable[RowProblem]) -> tuple[RowProblem, ...]:
    """By list, and in it by line."""
    return tuple(sorted(problems, key=lambda row: (row.source, row.line)))
