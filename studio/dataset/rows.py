"""A row of any manifest to an `Example`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from studio.dataset.audio import file_seconds
from studio.dataset.columns import Columns, Wanted, columns_of
from studio.dataset.delimited import Row
from studio.dataset.example import Example, RowProblem, TextSegment
from studio.dataset.marks import NO_SPEECH, Marked, plain, told_by
from studio.dataset.places import Places
from studio.dataset.tables import number_of
from studio.dataset.written import in_one, is_tight, unspaced
from studio.errors import DataError, ManifestError
from studio.messages import Message
from studio.options.choices import TASKS
from studio.whisper.language_tags import language_of_tag

NO_TEXT = Message("The row has no text.")
_LONGEST_PATH = 4096
"""What is longer is sound in letters, and must not stand in a sentence."""
_TOLERANCE_SECONDS = 0.5
"""How far a segment may end after its clip, and a clip after its file: times are written by hand and by
machines that round."""
_ROUNDING_SECONDS = 0.05
"""How far the times of a clip that fills its file may be off, and those of sentences that touch."""
_NOBODY = {"", "n/a", "none", "null", "unknown"}
"""Names of speakers that are none, in lower case: GigaSpeech has the first of them."""
WINDOW_SECONDS = 30.0
"""Whisper's. A list that says more of a clip may count milliseconds or samples: the file tells."""


def example_of(row: Row, places: Places, wanted: Wanted) -> Example | RowProblem:
    """The clip of a row, or why there is none.

    The file is looked up, and opened only where the row does not say how long the clip is (or says what no
    clip can be), or where in the file it is. Where no text is `wanted`, a row may have none.
    """
    audio = ""
    try:
        if row.error:
            raise row.error
        columns = columns_of(tuple(row.values), wanted)
        audio, start, end = audio_of(row.values, columns)
        path, size_bytes = places.find(audio)
        duration = number_of(columns.get(row.values, "duration"), "duration")
        start, end, duration = _clip_times(path, size_bytes, start, end, duration)
        said = columns.get(row.values, "text")
        told = told_by(said) if isinstance(said, str) and "<" in said else Marked(said)
        said = told.text
        sentences = columns.get(row.values, "segments")
        segments = _segments_of(told.sentences if sentences is None else sentences, duration)
        needs_text = wanted.needs_text and not _is_silent(row.values, columns)
        if isinstance(said, list) and (segments or not wanted.needs_text):  # of words, or several texts
            said = None
        text = _text_of(said, segments, needs_text=needs_text)
        language = _language_of(columns.get(row.values, "language")) or told.language
        written = _language_of(columns.get(row.values, "text_language")) or told.written
        return Example(
            audio_path=path,
            text="" if text == NO_SPEECH else text,
            language=language,
            task=_task_of(columns.get(row.values, "task")) or told.task or _translated(language, written),
            start_seconds=start,
            end_seconds=end,
            duration_seconds=duration,
            segments=() if _overlap(segments) else segments,
            line=row.line,
            audio_bytes=size_bytes,
            speaker=_speaker_of(columns.get(row.values, "speaker")),
            previous_text=_word(columns.get(row.values, "previous"), "previous_text"),
            source=wanted.part,
        )
    except DataError as error:
        return RowProblem(row.line, error.message(), audio, source=wanted.part)


def audio_of(row: Mapping[str, Any], columns: Columns) -> tuple[str, float | None, float | None]:
    """The file that a row names, and when its clip begins and ends, in seconds.

    Raises:
        ManifestError: if it names none.
    """
    audio = columns.get(row, "audio")
    start, end = columns.get(row, "start"), columns.get(row, "end")
    if isinstance(audio, Mapping):
        start, end = audio.get("start_time", start), audio.get("end_time", end)
        audio = audio.get("path")
    if not isinstance(audio, str) or not audio.strip() or len(audio) > _LONGEST_PATH:
        raise ManifestError("The row names no audio file.")
    return _whole(audio.strip()), number_of(start, "start_time"), number_of(end, "end_time")


def _clip_times(
    path: Path, size_bytes: int, start: float | None, end: float | None, duration: float | None
) -> tuple[float | None, float | None, float]:
    """Start, end and length of the clip; the file is opened where the row alone cannot tell.

    Lists of cut recordings (MLS, GigaSpeech, AMI) tell where a clip was in its recording: a file that is as
    long as the clip, and ends before those places, is the clip.
    """
    if start is not None and end is None and duration is not None:
        end = start + duration
    if end is not None:
        if end <= (start or 0.0):
            raise ManifestError(
                "The clip ends at {end:g} s, before it starts at {start:g} s.", start=start or 0.0, end=end
            )
        length = end - (start or 0.0)
        whole = file_seconds(path, size_bytes)
        if end > whole + _ROUNDING_SECONDS and abs(whole - length) <= _TOLERANCE_SECONDS:
            return None, None, whole
        if end > whole + _TOLERANCE_SECONDS:
            raise ManifestError(
                "The clip lies from {start:g} to {end:g} s, and the file is {whole:.2f} s long.",
                start=start or 0.0,
                end=end,
                whole=whole,
            )
        return start, end, length
    if duration is None or duration > WINDOW_SECONDS:
        whole = file_seconds(path, size_bytes)
        duration = whole - (start or 0.0)
        if duration <= 0:
            raise ManifestError(
                "The clip starts at {start:g} s, and the file is {whole:.2f} s long.",
                start=start,
                whole=whole,
            )
    if duration <= 0:
        raise ManifestError("The duration is {duration:g} s: there is no sound.", duration=duration)
    return start, end, duration


def _segments_of(value: Any, duration: float) -> tuple[TextSegment, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ManifestError("The sentences are no list of {{start, end, text}}.")
    segments = [_segment(number, part, duration) for number, part in enumerate(value, start=1)]
    return tuple(sorted(segments, key=lambda segment: segment.start_seconds))


def _overlap(segments: Sequence[TextSegment]) -> bool:
    """Whether people speak at once: one text after the other has no true times then."""
    return any(
        after.start_seconds < before.end_seconds - _ROUNDING_SECONDS for before, after in pairwise(segments)
    )


def _segment(number: int, part: Any, duration: float) -> TextSegment:
    if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
        raise ManifestError("Sentence {number} is no {{start, end, text}}.", number=number)
    start = number_of(part.get("start", part.get("start_time")), "start")
    end = number_of(part.get("end", part.get("end_time")), "end")
    if start is None or end is None or end < start or end > duration + _TOLERANCE_SECONDS:
        raise ManifestError(
            "Sentence {number} runs from {start} to {end} s in a clip of {duration:.2f} s.",
            number=number,
            start="?" if start is None else f"{start:g}",
            end="?" if end is None else f"{end:g}",
            duration=duration,
        )
    return TextSegment(start, end, _whole(unspaced(plain(part["text"].strip()))))


def _text_of(value: Any, segments: tuple[TextSegment, ...], *, needs_text: bool) -> str:
    if value is None and segments:
        sentences = [segment.text for segment in segments]
        value = in_one(sentences, tight=is_tight("".join(sentences)))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is not None and not isinstance(value, str):
        raise ManifestError("The text is {value}, which is no text.", value=repr(value)[:40])
    if not needs_text and (value is None or not value.strip()):
        return ""
    if value is None or not value.strip():
        raise ManifestError(NO_TEXT.template)
    if any("\0" in each for each in (value, *(segment.text for segment in segments))):
        raise ManifestError("The row has a NUL, which is in no text: save it again in UTF-8.")
    return _whole(unspaced(plain(value.strip())))


def _whole(text: str) -> str:
    """JSON can spell half of a character, which no file and no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ManifestError("The row has half of a character (a lone surrogate).") from error
    return text


def _is_silent(row: Mapping[str, Any], columns: Columns) -> bool:
    """Whether a row has a place for text and an empty list of sentences: so Whisper-Finetune says silence."""
    return columns.has("text") and columns.get(row, "segments") == []


def _speaker_of(value: Any) -> str | None:
    """Who speaks; None if nobody knows: a word for that is not one person who said all of it."""
    name = "" if value is None else str(value).strip()
    return None if name.lower() in _NOBODY else _whole(name)


def _language_of(value: Any) -> str | None:
    """The language; None for the number of a class, whose name was left behind (VoxPopuli)."""
    is_number = isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("-").isdigit())
    return None if is_number else _word(value, "language")


def _word(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ManifestError("{name} is {value}, which is no text.", name=name, value=repr(value)[:40])
    return _whole(value.strip()) or None


def _task_of(value: Any) -> str | None:
    task = _word(value, "task")
    if task is not None and task not in TASKS:
        raise ManifestError("The task is {task!r}: accepted are transcribe and translate.", task=task)
    return task


def _translated(spoken: str | None, written: str | None) -> str | None:
    """The task of a text that is in another language than what is said; None if it is in the same."""
    if not spoken or not written or _same_language(spoken, written):
        return None
    if _same_language(written, "en"):
        return "translate"
    raise ManifestError(
        "The speech is in {spoken} and the text in {written}: Whisper translates into English alone.",
        spoken=spoken,
        written=written,
    )


def _same_language(one: str, other: str) -> bool:
    return language_of_tag(one) == language_of_tag(other)
