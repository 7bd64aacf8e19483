"""What would last too short to be seen gets time, where there is some: words, segments and captions.

An alignment that goes astray, and the end of a window, leave words and sentences without any length, and no
player shows a caption for no time.
"""

from collections.abc import Sequence
from dataclasses import replace

from studio.transcription.engine import Segment

Span = tuple[float, float]
"""Start and end in seconds."""
LEAST_WORD_SECONDS = 0.02
LEAST_SEGMENT_SECONDS = 0.3
_NO_LENGTH_SECONDS = 0.1
"""Nobody says anything in less: the time that it was said in was given to what stands beside it."""
_LEAST_SHARE = 2 * LEAST_WORD_SECONDS
"""A recording with less for each of its words has no time for them, and they stay as they are."""
_ROUNDING = 1e-6


def lasting(segments: Sequence[Segment], until: float) -> tuple[Segment, ...]:
    """Segments and words of a recording that ends at `until`, in their order and each long enough."""
    words = [word for segment in segments for word in segment.words]
    if until < _LEAST_SHARE * len(words):
        return tuple(segments)
    spans = _spaced([(word.start_seconds, word.end_seconds) for word in words], until)
    first, placed = 0, []
    for segment in segments:
        own = spans[first : first + len(segment.words)]
        edges = (segment.start_seconds, segment.end_seconds)
        if own != [(word.start_seconds, word.end_seconds) for word in segment.words]:
            edges = (own[0][0], max(end for _, end in own))
        placed.append((edges, own))
        first += len(segment.words)
    seen = long_enough([edges for edges, _ in placed], until)
    return tuple(
        replace(
            segment,
            start_seconds=start,
            end_seconds=end,
            words=tuple(
                replace(word, start_seconds=begin, end_seconds=over)
                for word, (begin, over) in zip(
                    segment.words, _spaced(own, end) if end < edges[1] else own, strict=True
                )
            ),
        )
        for segment, (start, end), (edges, own) in zip(segments, seen, placed, strict=True)
    )


def long_enough(spans: Sequence[Span], until: float) -> list[Span]:
    """Spans in the order of their starts, each of 0.3 s where there is time for it: in the pause behind it,
    else in the one before. One without any length takes its time from the one before.
    """
    placed = _spaced(spans, until)
    for number, (start, end) in enumerate(placed):
        if end - start >= LEAST_SEGMENT_SECONDS - _ROUNDING:
            continue
        is_empty = end - start < _NO_LENGTH_SECONDS
        following = placed[number + 1][0] if number + 1 < len(placed) else max(until, end)
        end = max(end, min(start + LEAST_SEGMENT_SECONDS, following))
        before, after = placed[number - 1] if number else (0.0, 0.0)
        start = min(start, max(end - LEAST_SEGMENT_SECONDS, after))
        if is_empty and end - start < LEAST_SEGMENT_SECONDS and number and after == start:
            start = min(start, max(end - LEAST_SEGMENT_SECONDS, before + LEAST_SEGMENT_SECONDS))
            placed[number - 1] = (before, round(start, 3))
        placed[number] = (round(start, 3), round(end, 3))
    return placed


def _spaced(spans: Sequence[Span], until: float) -> list[Span]:
    """Spans in order, none shorter than a word; what has to give way moves no farther than for that."""
    least = LEAST_WORD_SECONDS
    if until < _LEAST_SHARE * len(spans):
        return list(spans)
    starts: list[float] = []
    for number, (start, _) in enumerate(spans):
        is_at_once = number > 0 and spans[number - 1][0] <= start < starts[-1] + least - _ROUNDING
        starts.append(round(starts[-1] + least, 3) if is_at_once else start)
    latest = until
    for number in reversed(range(len(starts))):
        if starts[number] <= latest - least + _ROUNDING:
            break
        starts[number] = latest = round(latest - least, 3)
    placed = []
    for number, (start, end) in enumerate(zip(starts, (end for _, end in spans), strict=True)):
        is_last = number + 1 == len(spans) or end > spans[number + 1][0]
        end = min(end, until if is_last else starts[number + 1])
        placed.append((start, end if end - start >= least - _ROUNDING else round(start + least, 3)))
    return placed
