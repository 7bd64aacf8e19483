"""References that a person has corrected, and the new list that has them: the old one stays as it is."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from studio.dataset.columns import ALIASES, Wanted, columns_of
from studio.dataset.delimited import Row, from_spreadsheet
from studio.dataset.example import Example, Manifest
from studio.dataset.formats.known import read_list
from studio.dataset.marks import NO_SPEECH
from studio.dataset.tables import check_text, rows_of
from studio.errors import DataError
from studio.evaluation.result import Evaluation, UtteranceRow
from studio.files import append_json_line, read_json_lines, storage_errors, user_path, write_new
from studio.messages import Message
from studio.options.sources import folder_and_splits, is_demo, is_on_hub, sources_of

Clip = tuple[str, int, float | None, str]
"""A clip as its list has it: its file, its line, where it begins in the file, and what is said in it."""
Corrections = Mapping[Clip, str]
"""What is really said in a clip; empty where nobody speaks."""

LONGEST = 10_000
"""Characters of a reference."""
_TEXTS = ("reference", *ALIASES["text"])
_TEXT = "sentence"
"""The column of the text, where the list has none."""
_HALF = re.compile("[\ud800-\udfff]")
_SUFFIX = "-corrected"
_WITH_SUFFIX = re.compile(rf"{_SUFFIX}(-\d+)?$")


def clip_of(row: Example | UtteranceRow) -> Clip:
    """What a clip of a list or of an evaluation is known by."""
    text = row.text if isinstance(row, Example) else row.reference
    return str(row.audio_path), row.line, row.start_seconds, text


def checked_reference(text: str, line: int) -> str:
    """The text as a list can hold it; `<|nospeech|>` says that nobody speaks, which is a text without words.

    Raises:
        DataError: if it is empty, too long, or has signs that no text has; `line` is the clip's.
    """
    text = " ".join(text.split())
    if not text:
        raise DataError(
            "The corrected text of line {line} is empty: write what is said, or {silence} where nobody "
            "speaks.",
            line=line,
            silence=NO_SPEECH,
        )
    if len(text) > LONGEST or any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text):
        raise DataError(
            "The corrected text of line {line} has signs that are no text, or more than {most:,} of them: "
            "write what is said.",
            line=line,
            most=LONGEST,
        )
    return "" if text == NO_SPEECH else text


# ---------------------------------------------------------------------- from a file


def read_corrections(path: Path, manifest: Manifest) -> dict[Clip, str]:
    """The clips of a list whose text is another in the file: CSV, TSV, JSON lines or a JSON array.

    A row names its clip by `line`, by `audio_path` or by both, and has what is said under `reference`, `text`
    or another name that lists have for it: the CSV that an evaluation writes, corrected, is such a file.

    Raises:
        DataError: if it cannot be read, or a row names no clip or several, has no text that can be used, or
            contradicts another one.
    """
    if not path.exists():
        raise DataError(
            "There is no file {path}: it has a row a clip, with its line or audio_path and its text.",
            path=path,
        )
    blank_lines, first_line = check_text(path)
    has_lines = "line" in re.split(r"\W+", first_line.lower())
    rows = rows_of(path, blank_lines, first_line, Wanted(needs_text=False, audio_column="line" * has_lines))[
        1
    ]
    asked = [_Asked(path, row) for row in rows]
    near = _near(asked, manifest.examples)
    found: dict[Clip, str] = {}
    for one in asked:
        example = one.among(near, manifest.source)
        if not one.text.strip() and not example.text:
            continue
        text = checked_reference(one.text, example.line)
        if text == " ".join(example.text.split()):
            continue
        if found.setdefault(clip_of(example), text) != text:
            raise one.wrong(
                Message("clip {line} is corrected a second time, to another text.", line=example.line)
            )
    return found


class _Asked:
    """A row of a file with corrections."""

    def __init__(self, path: Path, row: Row) -> None:
        self._path, self._row = path, row.line
        if row.error:
            raise self.wrong(row.error)
        values = {str(name).strip().lower(): value for name, value in row.values.items()}
        self.text = from_spreadsheet(str(_first(values, _TEXTS) or ""))
        self.audio = (
            from_spreadsheet(str(_first(values, ALIASES["audio"]) or ""))
            .replace("\\", "/")
            .removeprefix("./")
        )
        line = _first(values, ("line",))
        try:
            self.line = None if line is None else int(line)
        except (TypeError, ValueError) as error:
            raise self.wrong(
                Message("the line of a clip is a number, got {line!r}.", line=str(line)[:40])
            ) from error
        if self.line is None and not self.audio:
            raise self.wrong(Message("it names no clip: give its line or its audio_path."))

    @property
    def name(self) -> str:
        """Of the file, without its folder."""
        return self.audio.rpartition("/")[2]

    def among(self, near: Mapping[int | str, Sequence[Example]], source: str) -> Example:
        """The clip that is meant."""
        same = [example for example in near.get(self.line or self.name, ()) if self._is(example)]
        if len(same) == 1:
            return same[0]
        named = " ".join(filter(None, (self.audio, f"line {self.line}" if self.line is not None else "")))
        if same:
            raise self.wrong(
                Message(
                    "{clip} are {count} clips of {source}: give both line and audio_path.",
                    clip=named[:200],
                    count=len(same),
                    source=source,
                )
            )
        raise self.wrong(Message("there is no clip {clip} in {source}.", clip=named[:200], source=source))

    def _is(self, example: Example) -> bool:
        path = f"/{example.audio_path.as_posix().lstrip('/')}"
        is_file = not self.audio or path.endswith(f"/{self.audio.lstrip('/')}")
        return is_file and self.line in (None, example.line)

    def wrong(self, reason: Message) -> DataError:
        """An error that says where it is."""
        return DataError("{path}, line {row}: {reason}", path=self._path, row=self._row, reason=reason)


def _first(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) not in (None, "")), None)


def _near(asked: Sequence[_Asked], examples: Iterable[Example]) -> dict[int | str, list[Example]]:
    """The clips that may be meant, by their line and by the name of their file: a list is read once."""
    wanted: set[int | str | None] = {one.line or one.name for one in asked}
    near: dict[int | str, list[Example]] = {}
    for example in examples:
        for key in (example.line, example.audio_path.name):
            if key in wanted:
                near.setdefault(key, []).append(example)
    return near


# ---------------------------------------------------------------------- the new list


Rows = Mapping[int, Mapping[str, Any]]
"""The rows of a list as they stand there, by line."""


def list_lines(
    examples: Iterable[Example], corrections: Corrections, folder: Path | None, rows: Rows | None = None
) -> Iterator[str]:
    """A list in JSON lines. Files in `folder`, where it will lie, are named from there, others by their whole
    path; None: all by their name alone.

    Of an example that is among `rows` the columns stay, and all values but the text that is another.
    """
    before, told = None, ""
    for example in examples:
        text = corrections.get(clip_of(example), example.text)
        previous = example.previous_text
        if before and previous == before.text:
            previous = told
        values = (rows or {}).get(example.line)
        if values is None:
            row = _row_of_the_studio(example, text, previous, folder)
        else:
            row = _row_as_it_was(values, example, text, previous, folder)
        # What nobody has read may hold half a surrogate, which JSON can say and UTF-8 cannot.
        has_half = _HALF.search(json.dumps(row, ensure_ascii=False)) is not None
        yield json.dumps(row, ensure_ascii=has_half) + "\n"
        before, told = example, text


def _row_of_the_studio(
    example: Example, text: str, previous: str | None, folder: Path | None
) -> dict[str, Any]:
    """A row with the studio's own names."""
    audio: dict[str, Any] = {"path": _audio_name(example.audio_path, folder)}
    if example.end_seconds is not None or example.start_seconds is not None:
        audio |= {"start_time": example.start_seconds or 0.0, "end_time": example.end_seconds}
    row: dict[str, Any] = {
        "audio": {name: value for name, value in audio.items() if value is not None},
        _TEXT: text or NO_SPEECH,
        "duration": example.duration_seconds,
        "language": example.language,
        "task": example.task,
        "speaker": example.speaker,
        "previous_text": previous,
    }
    if example.segments and text == example.text:  # when a corrected text is said, nobody has told
        row["sentences"] = [
            {"start": part.start_seconds, "end": part.end_seconds, "text": part.text}
            for part in example.segments
        ]
    return {name: value for name, value in row.items() if value}


def _row_as_it_was(
    values: Mapping[str, Any], example: Example, text: str, previous: str | None, folder: Path | None
) -> dict[str, Any]:
    """A row with its own names: another are only the text, if it was corrected, what depends on it, and how
    the file is named, if it would not be found so.
    """
    columns, row = columns_of(tuple(values), Wanted()), dict(values)
    if name := columns.holding(values, "audio"):
        audio = values[name]
        if isinstance(audio, Mapping):
            row[name] = {**audio, "path": _audio_name(example.audio_path, folder, str(audio.get("path")))}
        else:
            row[name] = _audio_name(example.audio_path, folder, str(audio))
    if previous != example.previous_text and (name := columns.holding(values, "previous")):
        row[name] = previous
    if text != example.text:
        name = columns.holding(values, "text") or next(iter(columns.of("text")), _TEXT)
        # When a corrected text is said, nobody has told.
        row |= {name: text or NO_SPEECH, **dict.fromkeys(columns.of("segments"))}
    return row


def own_rows(path: Path | None) -> Rows:
    """The rows of a list that has columns of its own; of another one none, as of no list."""
    listed = read_list(path, Wanted()) if path else None
    return {row.line: row.values for row in listed.rows} if listed and listed.has_columns else {}


def _audio_name(path: Path, folder: Path | None, before: str = "") -> str:
    """How a list in this folder names a file: as `before`, if that is the same file there."""
    if folder is None:
        return path.name
    whole = path.absolute()
    if before and folder / before.strip() == whole:
        return before
    return (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()


def is_of_the_hub(source: str) -> bool:
    """Whether some of a list comes from the model hub: more of it than was evaluated may be large."""
    return any(not is_demo(part) and is_on_hub(part) for part in sources_of(source))


def evaluated_clips(found: Evaluation) -> Manifest:
    """The clips of an evaluation as a list, with what it knows of them."""
    rows = found.utterances[:: max(1, len(found.models))]
    examples = tuple(
        Example(
            audio_path=Path(row.audio_path),
            text=row.reference,
            language=row.language,
            task=None,
            start_seconds=row.start_seconds,
            end_seconds=row.end_seconds,
            duration_seconds=round(row.duration_seconds, 3),
            segments=(),
            line=row.line,
            speaker=row.speaker,
            source=row.source,
        )
        for row in rows
    )
    return Manifest(found.source, "", examples, ())


def evaluated_rows(
    manifest: Manifest, found: Evaluation, corrections: Corrections
) -> tuple[Sequence[Example], Corrections]:
    """Those of a list that were evaluated, and what is said in them; `corrections` are of the evaluation,
    which may have other references than the list since it was corrected before.
    """
    spoken = {clip_of(row)[:3]: corrections.get(clip_of(row), row.reference) for row in found.utterances}
    examples = [example for example in manifest.examples if clip_of(example)[:3] in spoken]
    return examples, {clip_of(example): spoken[clip_of(example)[:3]] for example in examples}


def save_list(manifest: Manifest, corrections: Corrections, path: Path) -> None:
    """Writes the list with its corrections to `path`, where nothing may be yet: the rows that can be used,
    with the columns that they have in the list.

    Raises:
        ConfigError: if there is something.
        DataError: if the list has one of the clips no more, or another text for it.
        StorageError: if it cannot be written.
    """
    left = set(corrections)
    left -= {clip_of(example) for example in manifest.examples} if left else set()
    if left:
        raise DataError(
            "Line {line} of {source} is another clip by now: evaluate again, and correct it there.",
            line=min(line for _, line, *_ in left),
            source=manifest.source,
        )
    path = path.absolute()
    rows = own_rows(manifest.listed_in)
    write_new(path, "".join(list_lines(manifest.examples, corrections, path.parent, rows)))


def free_place(source: str, datasets: Path) -> Path:
    """Where a corrected list goes: beside the old one, or into `datasets` if that is no file or folder."""
    parts = sources_of(source)
    place, split = folder_and_splits(parts[0])
    there = user_path(place).absolute()
    if len(parts) == 1 and there.exists():
        stem = re.sub(r"\.\w+$", "", there.name.removesuffix(".gz")) if there.is_file() else there.name
        stem += f"-{split.replace('+', '-')}" if split else ""
        made = (there.parent / f"{name}.jsonl" for name in _numbered(stem))
    else:
        stem = re.sub(r"[^\w.-]+", "-", source).strip("-.")[:60] or "list"
        made = (datasets / name / "metadata.jsonl" for name in _numbered(stem))
    return next(path for path in made if not path.exists())


def _numbered(stem: str) -> Iterator[str]:
    stem = _WITH_SUFFIX.sub("", stem)
    yield f"{stem}{_SUFFIX}"
    yield from (f"{stem}{_SUFFIX}-{number}" for number in count(2))


# ---------------------------------------------------------------------- until it is saved


class KeptCorrections:
    """What was corrected in a list and is in no new list yet, in a file that grows by a line at a time."""

    def __init__(self, folder: Path, source: str) -> None:
        """`source` is the list as it was asked for."""
        names = [str(user_path(part).absolute()) for part in sources_of(source)]
        self._path = folder / f"{hashlib.sha256(repr(names).encode()).hexdigest()[:32]}.jsonl"

    def read(self) -> dict[Clip, str]:
        """All of them; of a clip of which the list says something else by now there may be one, too."""
        found: dict[Clip, str] = {}
        for row in read_json_lines(self._path)[0]:
            with suppress(KeyError, TypeError, ValueError):
                path, line, start, said = row["clip"]
                start = None if start is None else float(start)
                if start is not None and not math.isfinite(start):
                    continue
                clip = (str(path), int(line), start, str(said))
                found.pop(clip, None)
                if row["text"] is not None:
                    found[clip] = str(row["text"])
        return found

    def put(self, clip: Clip, text: str | None) -> None:
        """Keeps one; None takes it back.

        Raises:
            StorageError: if it cannot be written.
        """
        with storage_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        append_json_line(self._path, {"clip": clip, "text": text})

    def forget(self) -> None:
        """They are in a list now, or nobody wants them."""
        self._path.unlink(missing_ok=True)
