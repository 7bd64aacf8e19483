"""Chinese in one script: the one that a model mostly writes, or the one that was asked for.

A Whisper writes simplified and traditional characters, often both in one recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from studio.chinese import converted, counts, prevailing
from studio.transcription.engine import Segment, Word

AUTO, AS_HEARD = "auto", "as_heard"


class OneScript:
    """The script of a text that grows: a segment is converted once, unless another script prevails later."""

    def __init__(self, script: str) -> None:
        """`script` is one of `CHINESE_SCRIPTS`. `auto`: the one that most characters are of."""
        self._script = script
        self._known: dict[int, _Known] = {}

    def of(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """All of the text so far. Segments that were there before are known by being the same objects."""
        if self._script == AS_HEARD:
            return tuple(segments)
        self._known = {id(one): self._known.get(id(one)) or _Known(one) for one in segments}
        known = self._known.values()
        script = self._script
        if script == AUTO:
            found = [one.counts() for one in known]
            script = prevailing(sum(own for own, _ in found), sum(own for _, own in found))
        if not script:
            return tuple(segments)
        return tuple(self._known[id(one)].converted(script) for one in segments)


@dataclass
class _Known:
    """A segment as it was heard, and what was found out about it."""

    heard: Segment
    has: tuple[int, int] | None = None
    script: str = ""
    written: Segment | None = None

    def counts(self) -> tuple[int, int]:
        """How many of its characters are simplified ones, and traditional ones."""
        if self.has is None:
            self.has = counts(self.heard.text)
        return self.has

    def converted(self, script: str) -> Segment:
        """The segment in that script, converted once."""
        if self.written is None or self.script != script:
            self.script, self.written = script, _converted(self.heard, script)
        return self.written


def _converted(segment: Segment, script: str) -> Segment:
    """A segment in another script, converted as a whole: a character alone may be written in two ways."""
    words = _shared_out(segment.words, script)
    return replace(segment, text=converted(segment.text, script), words=words)


def _shared_out(words: Sequence[Word], script: str) -> tuple[Word, ...]:
    """The words of a segment in another script, with their times.

    One that has no part in what is written there, as 尔 in 厄瓜多尔 has none in Taiwan, belongs to the one
    before it.
    """
    heard = "".join(word.text for word in words)
    written = converted(heard, script)
    ends = [*accumulate(len(word.text) for word in words)]
    if len(written) != len(heard):
        ends = [min(len(written), len(converted(heard[:end], script))) for end in ends[:-1]] + [len(written)]
    found: list[Word] = []
    begin = 0
    for word, end in zip(words, ends, strict=True):
        if end > begin or not found:
            found.append(replace(word, text=written[begin:end]))
        else:
            found[-1] = replace(found[-1], end_seconds=word.end_seconds)
        begin = max(begin, end)
    return tuple(found)
