"""Chinese in one script: the one that a model mostly writes, or the one that was asked for.

A Whisper writes simplified and traditional characters, often both in one recording. zhconv converts.
"""

from collections.abc import Sequence
from dataclasses import replace

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
    if script == AUTO:
        script = main_script("".join(segment.text for segment in segments)) or AS_HEARD
    if script == AS_HEARD:
        return tuple(segments)
    return tuple(_converted(segment, VARIANTS[script]) for segment in segments)


def main_script(text: str) -> str:
    """`simplified` or `traditional`, whichever has more of a text's characters; empty if both have none."""
    simplified, traditional = (_changed(text, VARIANTS[other]) for other in ("traditional", "simplified"))
    if simplified == traditional == 0:
        return ""
    return "simplified" if simplified >= traditional else "traditional"


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
