"""Chinese in one script: the one that a model mostly writes, or the one that was asked for.

A Whisper writes simplified and traditional characters, often both in one recording. zhconv converts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from studio.transcription.engine import Segment

AUTO, AS_HEARD = "auto", "as_heard"
VARIANTS = {"simplified": "zh-hans", "traditional": "zh-hant", "taiwan": "zh-tw"}
"""Script → what zhconv calls it."""
SCRIPTS = (AUTO, AS_HEARD, *VARIANTS)
LANGUAGES = ("zh", "yue")


def in_one_script(segments: Sequence[Segment], script: str) -> tuple[Segment, ...]:
    """Segments of Chinese in the script that was asked for, words and all; times stay.

    `auto`: in the one that most of its characters are of; `as_heard`: as they are.
    """
    return OneScript(script).of(segments)


class OneScript:
    """The script of a text that grows: a segment is converted once, unless another script prevails later."""

    def __init__(self, script: str) -> None:
        """`script` is one of `SCRIPTS`."""
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
            counts = [one.counts() for one in known]
            script = _prevailing(sum(own for own, _ in counts), sum(own for _, own in counts))
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
            self.has = _counts(self.heard.text)
        return self.has

    def converted(self, script: str) -> Segment:
        """The segment in that script, converted once."""
        if self.written is None or self.script != script:
            self.script, self.written = script, _converted(self.heard, VARIANTS[script])
        return self.written


def main_script(text: str) -> str:
    """`simplified` or `traditional`, whichever has more of a text's characters; empty if both have none."""
    return _prevailing(*_counts(text))


def _prevailing(simplified: int, traditional: int) -> str:
    if simplified == traditional == 0:
        return ""
    return "simplified" if simplified >= traditional else "traditional"


def _counts(text: str) -> tuple[int, int]:
    return _changed(text, VARIANTS["traditional"]), _changed(text, VARIANTS["simplified"])


def _changed(text: str, variant: str) -> int:
    """How many characters another script writes otherwise."""
    return sum(a != b for a, b in zip(text, _convert(text, variant), strict=False))


def _convert(text: str, variant: str) -> str:
    import zhconv

    converted: str = zhconv.convert(text, variant)
    return converted


def _converted(segment: Segment, variant: str) -> Segment:
    """A segment in another script, converted as a whole: a character alone may be written in two ways."""
    said = "".join(word.text for word in segment.words)
    converted = _convert(said, variant)
    if len(converted) != len(said):
        words = tuple(replace(word, text=_convert(word.text, variant)) for word in segment.words)
    else:
        rest = iter(converted)
        words = tuple(replace(word, text="".join(next(rest) for _ in word.text)) for word in segment.words)
    return replace(segment, text=_convert(segment.text, variant), words=words)
