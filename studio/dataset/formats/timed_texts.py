"""Files that tell when in a recording which words are said: captions (SRT, WebVTT), Praat's TextGrid, ELAN's
EAF, NIST's STM, and the labels of Audacity.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from studio.errors import ManifestError
from studio.files import encoding_of

_MOST_CHARACTERS = 2**24
"""Captions of five hours have a hundredth of it."""
_TIMES = re.compile(r"\s*((?:\d+:)?\d+:\d+[.,]\d+)\s*-->\s*((?:\d+:)?\d+:\d+[.,]\d+)")
_LABEL = re.compile(r"(\d+[.,]\d+)\t(\d+[.,]\d+)\t?(.*)")
_WORD = re.compile(r'"(?:[^"]|"")*"|(?<!\S)-?\d[\d.e+-]*(?!\S)')
"""Texts and numbers that stand alone: of a TextGrid, long or short, nothing else counts (Praat's manual,
TextGrid file formats)."""
_NOT_SCORED = ("ignore_time_segment_in_scoring", "inter_segment_gap")


class Caption(NamedTuple):
    """What is said, or stands on the screen, for a while; in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


def captions_in(path: Path) -> list[Caption]:
    """As they stand in the file.

    Raises:
        ManifestError: if it is not what its ending says, or has several tiers of which one may be meant.
        UnicodeDecodeError: if it is no text.
    """
    try:
        return list(_READERS[path.suffix.lower()](path))
    except UnicodeDecodeError:
        raise
    except (ElementTree.ParseError, ValueError, StopIteration) as error:
        raise ManifestError("{path} is damaged, or no such file as its name says.", path=path.name) from error


def _text_of(path: Path) -> str:
    with path.open(encoding=encoding_of(path)) as file:
        return file.read(_MOST_CHARACTERS)


def are_labels(text: str) -> bool:
    """Whether a text is labels of Audacity: times in each line, which nobody says."""
    lines = text.splitlines()
    return bool(lines) and all(_LABEL.fullmatch(line) or line.startswith("\\") for line in lines)


def _labels(path: Path) -> Iterator[Caption]:
    """`1.250000`, `3.500000` and `good morning` with tabs between; a line of frequencies may follow."""
    for found in filter(None, map(_LABEL.fullmatch, _text_of(path).splitlines())):
        yield Caption(_number(found[1]), _number(found[2]), (found[3],))


def _shown(path: Path) -> Iterator[Caption]:
    """SRT and WebVTT: a line of times, and what is below it up to an empty line."""
    times: tuple[float, float] | None = None
    lines: list[str] = []
    for line in _text_of(path).split("\n"):
        found = _TIMES.match(line)
        if times and (found or not line):
            # The number of the next one, where the line above it has a space.
            yield Caption(
                *times, tuple(lines[:-1] if found and lines[-1:] and lines[-1].isdigit() else lines)
            )
            times = None
        if found:
            times, lines = (_seconds(found[1]), _seconds(found[2])), []
        elif times and line.strip():
            lines.append(line.strip())
    if times:
        yield Caption(*times, tuple(lines))


def _seconds(time: str) -> float:
    hours, minutes, seconds = ["0", *time.split(":")][-3:]
    return 3600 * float(hours) + 60 * float(minutes) + _number(seconds)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _scored(path: Path) -> Iterator[Caption]:
    """STM: recording, channel, speaker, start, end, perhaps labels in angle brackets, text."""
    for line in _text_of(path).splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and not line.startswith(";;") and not fields[5].endswith(_NOT_SCORED):
            yield Caption(float(fields[3]), float(fields[4]), (fields[5],))


def _of_praat(path: Path) -> list[Caption]:
    words = iter(_WORD.findall(_text_of(path)))
    spoken: list[tuple[str, list[Caption]]] = []
    for word in words:
        if word not in ('"IntervalTier"', '"TextTier"'):
            continue
        name, _start, _end, count = islice(words, 4)
        tier: list[Caption] = []
        for _ in range(int(count)):
            start, end = next(words), next(words)
            if word == '"IntervalTier"':
                said = next(words)[1:-1].replace('""', '"')
                tier.append(Caption(float(start), float(end), (said,)))
        if any(one.lines[0].strip() for one in tier):
            spoken.append((name.strip('"'), tier))
    if len(spoken) > 1:
        raise ManifestError(
            "{path} has several tiers ({names}): keep the one with the sentences that are spoken.",
            path=path.name,
            names=", ".join(name for name, _tier in spoken),
        )
    return [one for _name, tier in spoken for one in tier]


def _of_elan(path: Path) -> Iterator[Caption]:
    """The tiers that lean on no other one: one for each who speaks."""
    root = ElementTree.fromstring(_text_of(path))
    times = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    for tier in root.iter("TIER"):
        if tier.get("PARENT_REF") is None:
            for one in tier.iter("ALIGNABLE_ANNOTATION"):
                start, end = (times.get(one.get(f"TIME_SLOT_REF{number}")) for number in (1, 2))
                if start and end:
                    said = one.findtext("ANNOTATION_VALUE") or ""
                    yield Caption(int(start) / 1000, int(end) / 1000, tuple(said.splitlines()))


_READERS: Mapping[str, Callable[[Path], Iterable[Caption]]] = {
    **dict.fromkeys((".srt", ".vtt"), _shown),
    ".textgrid": _of_praat,
    ".eaf": _of_elan,
    ".stm": _scored,
    ".txt": _labels,
}
ENDINGS = tuple(ending for ending in _READERS if ending != ".txt")
