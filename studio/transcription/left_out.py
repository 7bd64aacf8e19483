"""Speech that a model left out: voices in a window for which it wrote no word.

Where several people speak in 30 s, a Whisper may leave out a sentence and go on with the next, whichever
library computes it. Each such part is heard once more, alone.
"""

from collections.abc import Sequence

from studio.transcription.engine import Segment, Span, Word

_SHORTEST_SECONDS = 1.0
"""What is shorter may be a breath, or a word that the alignment has beside the voice."""
_EDGE_SECONDS = 0.2


def split_at(segments: Sequence[Segment], gaps: Sequence[Span]) -> list[Segment]:
    """The segments, those that a gap lies in as two: what is heard there comes between them."""
    found: list[Segment] = []
    for segment in segments:
        for start, _ in gaps:
            before = [word for word in segment.words if word.start_seconds < start]
            behind = segment.words[len(before) :]
            if before and behind:
                edge = segment.edges()[len(before)]
                found.append(_of(before, segment.text[:edge]))
                segment = _of(behind, segment.text[edge:])
        found.append(segment)
    return found


def _of(words: Sequence[Word], text: str) -> Segment:
    end = max(word.end_seconds for word in words)
    return Segment(words[0].start_seconds, end, text.strip(), tuple(words))


def left_out(
    covered: Sequence[Span],
    voices: Sequence[Span],
    until_seconds: float,
    shortest_seconds: float = _SHORTEST_SECONDS,
) -> list[Span]:
    """Parts of a window, up to `until_seconds`, in which somebody speaks and nothing was written.

    `covered` are the times of what was written, in any order; `shortest_seconds` is speech, without pauses.
    Parts have a little of the sound around them.
    """
    found = []
    end = 0.0
    for start, stop in [*sorted(covered), (until_seconds, until_seconds)]:
        spoken = [(max(a, end), min(b, start)) for a, b in voices if a < start and b > end]
        if sum(b - a for a, b in spoken) >= shortest_seconds:
            first, last = spoken[0][0], spoken[-1][1]
            found.append((max(end, first - _EDGE_SECONDS), min(start, last + _EDGE_SECONDS)))
        end = max(end, stop)
    return found
