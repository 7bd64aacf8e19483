"""Whether a clip can be used: one rule for the check of a data set and for a run."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

from studio.dataset.audio import file_seconds
from studio.dataset.example import Example, RowProblem
from studio.dataset.listening import ClipLevels, listen
from studio.dataset.sequences import IN_MEMORY, Made
from studio.errors import AudioError

SILENT_DB = -60.0
HEARD_AT_ONCE = 2000
"""Clips of two lists that are heard before a run; of more that would take too long."""
_SAME_SECONDS = 0.05
"""Lists round."""

Judged = float | RowProblem
"""How many seconds a clip lasts, or why it cannot be used."""


def hear(example: Example) -> ClipLevels | RowProblem:
    """What is heard in a clip, or why nothing is."""
    try:
        return listen(example)
    except AudioError as error:
        return RowProblem.from_error(example, error)


def judge_heard(example: Example, heard: ClipLevels | RowProblem, shortest: float, longest: float) -> Judged:
    """By what is heard in the clip; both bounds are seconds."""
    if isinstance(heard, RowProblem):
        return heard
    judged = judge_length(example, heard.duration_seconds, shortest, longest)
    if example.text and heard.rms_db < SILENT_DB and not isinstance(judged, RowProblem):
        return RowProblem.of(example, "silent", "The clip is silent, but it has a text.")
    return judged


def judge_header(example: Example, shortest: float, longest: float) -> Judged:
    """By the header of the clip's file."""
    try:
        whole = file_seconds(example.audio_path, example.audio_bytes)
    except AudioError as error:
        return RowProblem.from_error(example, error)
    end = whole if example.end_seconds is None else min(whole, example.end_seconds)
    return judge_length(example, end - (example.start_seconds or 0.0), shortest, longest)


def judge_length(example: Example, seconds: float, shortest: float, longest: float) -> Judged:
    """`seconds` are how long the clip is."""
    if shortest <= seconds <= longest:
        return seconds
    is_short = seconds < shortest
    return RowProblem.of(
        example,
        "too_short" if is_short else "too_long",
        "The clip lasts {seconds:.2f} s, and {option} is {limit:g} s.",
        seconds=seconds,
        option="min_audio_len" if is_short else "max_audio_len",
        limit=shortest if is_short else longest,
    )


def usable(
    examples: Sequence[Example], judge: Callable[[Example], Judged], problems: list[RowProblem]
) -> Sequence[Example]:
    """The examples that can be used, with the lengths that `judge` has found; the others go to `problems`."""
    kept = array("q")
    lengths: dict[int, float] = {}
    for place, example in enumerate(examples):
        judged = judge(example)
        if isinstance(judged, RowProblem):
            problems.append(judged)
            continue
        kept.append(place)
        if abs(judged - (example.duration_seconds or 0.0)) > _SAME_SECONDS:
            lengths[place] = judged
    if len(kept) == len(examples) and not lengths:
        return examples

    def made(place: int) -> Example:
        """The clip at that place."""
        example = examples[place]
        return replace(example, duration_seconds=lengths[place]) if place in lengths else example

    found = Made(kept, made)
    return found if len(kept) > IN_MEMORY else tuple(found)
