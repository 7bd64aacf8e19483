"""What would last too short to be seen gets time, where there is some: words, segments and captions.

An alignment that goes astray, and the end of a window, leave words and sentences without any length, and no
player shows a caption for no time.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from studio.transcription.engine import Segment, Span
from studio.transcription.languages import join_texts

LEAST_WORD_SECONDS = 0.02
LEAST_SEGMENT_SECONDS = 0.3
_NO_LENGTH_SECONDS = 0.1
"""Nobody says anything in less: the time that it was said in was given to what stands beside it."""


def lasting(segments: Sequence[Segment], until: float, language: str) -> tuple[Segment, ...]:
    """Segments and words of a recording that ends at `until`, in their order and each long enough. What was
    said in no time, without a pause beside it, is of one segment with what stands before it.
    """
    seen = long_enough([(segment.start_seconds, segment.end_seconds) for segment in segments], until)
    found: list[Segment] = []
    for segment, (start, end) in zip(segments, seen, strict=True):
        segment = replace(segment, start_seconds=start, end_seconds=end)
        is_same = bool(found) and found[-1].language == segment.language
        if is_same and min(end - start, _length(found[-1])) < _NO_LENGTH_SECONDS:
            segment = _joined(found.pop(), segment, language)
        found.append(segment)
    return tuple(map(_spaced, found))


def long_enough(spans: Sequence[Span], until: float) -> list[Span]:
    """Spans in the order of their starts, each of 0.3 s where there is time for it: in the pause behind it,
    else in the one before.
    """
    placed: list[Span] = []
    for number, (start, end) in enumerate(spans):
        after = spans[number + 1][0] if number + 1 < len(spans) else until
        before = placed[-1][1] if placed else 0.0
        end = max(end, min(round(start + LEAST_SEGMENT_SECONDS, 3), after))
        placed.append((min(start, max(round(end - LEAST_SEGMENT_SECONDS, 3), before)), end))
    return placed


def _length(segment: Segment) -> float:
    return segment.end_seconds - segment.start_seconds


def _joined(one: Segment, other: Segment, language: str) -> Segment:
    end = max(one.end_seconds, other.end_seconds)
    text = join_texts([one.text, other.text], language)
    return replace(one, end_seconds=end, text=text, words=(*one.words, *other.words))


def _spaced(segment: Segment) -> Segment:
    """The segment with its words long enough and in order, if it has the time for that."""
    words, edges = segment.words, [*(word.start_seconds for word in segment.words), segment.end_seconds]
    if _length(segment) < LEAST_WORD_SECONDS * len(words):
        return segment
    for number in range(1, len(words)):
        edges[number] = max(edges[number], round(edges[number - 1] + LEAST_WORD_SECONDS, 3))
    for number in reversed(range(len(words))):
        edges[number] = min(edges[number], round(edges[number + 1] - LEAST_WORD_SECONDS, 3))
    placed = [
        replace(
            word,
            start_seconds=start,
            end_seconds=min(after, max(word.end_seconds, round(start + LEAST_WORD_SECONDS, 3))),
        )
        for word, (start, after) in zip(words, pairwise(edges), strict=True)
    ]
    return replace(segment, words=tuple(placed))
