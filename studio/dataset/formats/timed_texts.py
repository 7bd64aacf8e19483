"""Files that tell when in a recording which words are said: captions (SRT, WebVTT, ASS and SSA, LRC), what
Whisper's programs write (JSON, TSV, or what they print), Praat's TextGrid, ELAN's EAF, NIST's STM, labels of
Audacity, and transcripts of LDC and MagicHub.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree

from studio.dataset.audio import SOUND_FILES
from studio.errors import ManifestError
from studio.files import encoding_of

_MOST_CHARACTERS = 2**24
"""Captions of five hours have a hundredth of it."""
_TIMES = re.compile(r"\s*((?:\d+:)?\d+:\d+[.,]\d+)\s*-->\s*((?:\d+:)?\d+:\d+[.,]\d+)")
_LABELS = (
    r"([-+.,\de]*\d)\t([-+.,\de]*\d)(?:\t(.*))?",
    r"(\d+\.\d+) (\d+\.\d+) \w+: ?(.*)",
    r"\[(\d+\.\d+), ?(\d+\.\d+)\](?:\t[^\t]*){2}\t(.*)",
    r"\[((?:\d+:)+[\d.]+) --> ((?:\d+:)+[\d.]+)\](.*)",
)
"""Lines of Audacity, of LDC (`3.76 5.54 A: right`), of MagicHub (`[0.0,2.3]`, who speaks, of what kind, the
text, with tabs between), and as Whisper prints them."""
_LABEL = tuple(map(re.compile, _LABELS))
_TIMED = re.compile(
    rf"^(?:{'|'.join(_LABELS)})$|-->|^\[\d+:\d\d(?:\.\d+)?\]|\A\s*0 \d{{4,}} \D", re.MULTILINE
)
"""Labels, captions, and the numbers of samples before what is said in texts of TIMIT and aligners."""
_ALIGNED = re.compile(r"(?:#\s*\n)?(?:(?:\d+\.\d+ +[\d.]+|\d+ +\d{4,}) +\S+ *(?:\n|\Z)){2,}")
"""`0.14 0.20 m`, or HTK's `0 1400000 sil`."""
_UNSPOKEN = re.compile(r"\(\(|\)\)|\{[^{}]*\}|\(\d+\)|(?<!\S)[%&@](?=\w)")
"""In texts of LDC, what is not clear and what is heard, and `%um`; of TED-LIUM `{SMACK}` and `it's(2)`."""
_APART = re.compile(r" (?='(?:s|m|re|ve|ll|d|t)\b)")
"""TED-LIUM has `i 'm`."""
_LYRIC = re.compile(r"^((?:\[\d+:\d+(?:\.\d+)?\])+)(.*)", re.MULTILINE)
_WORD = re.compile(r'"(?:[^"]|"")*+"|(?<!\S)-?\d[\d.e+-]*(?!\S)')
"""Texts and numbers that stand alone: of a TextGrid, long or short, nothing else counts (Praat's manual,
TextGrid file formats)."""
_STYLE, _DRAWING = re.compile(r"\{[^{}]*\}"), re.compile(r"\{[^{}]*\\p[1-9]")
"""How ASS says what a text looks like, and that it is a drawing and no text."""
_BREAK = re.compile(r"\\[Nn]")
_TABLE = "start\tend\ttext\n"
_SEGMENTS = re.compile(r'"(?:segments|transcription)"\s*:\s*\[')
"""How TSV of Whisper begins, and what its JSON has."""
_DAMAGE = (
    *(ElementTree.ParseError, StopIteration, RecursionError),
    *(ValueError, TypeError, LookupError, AttributeError),
)
"""What the readers say of a file that is none of theirs."""
_NOT_SCORED = ("ignore_time_segment_in_scoring", "inter_segment_gap")


class Caption(NamedTuple):
    """What is said, or stands on the screen, for a while; in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]
    language: str | None = None
    """If the file tells."""


def is_no_list(path: Path) -> bool:
    """Whether a file whose name is that of a recording tells of it alone: JSON and TSV may be lists."""
    ending = path.suffix.lower()
    if ending not in (".json", ".tsv"):
        return True
    with suppress(OSError, ValueError), path.open(encoding=encoding_of(path)) as file:
        begin = file.read(len(_TABLE))
        is_object = ending == ".json" and begin.lstrip().startswith("{")
        has_times = is_object and _SEGMENTS.search(begin + file.read(_MOST_CHARACTERS)) is not None
        return begin == _TABLE or has_times or (is_object and about_its_sound(path) is not None)
    return False


def about_its_sound(path: Path) -> dict[str, Any] | None:
    """What JSON without times tells of the one sound that it is called as: `{"text": "good morning"}`."""
    if path.suffix.lower() != ".json":
        return None
    with suppress(*_DAMAGE, OSError):
        whole = json.loads(_text_of(path))
        files = (PurePosixPath(str(name)) for name in (*whole, *whole.values()))
        named = {file.stem for file in files if file.suffix.lower() in SOUND_FILES}
        is_list = any(isinstance(value, dict) for value in whole.values()) or "audios" in whole
        of_whisper = any(isinstance(whole.get(name), list) for name in ("segments", "transcription"))
        if not is_list and not of_whisper and named <= {path.stem, PurePosixPath(path.stem).stem}:
            return {name.strip().lower(): value for name, value in whole.items()}
    return None


def captions_in(path: Path) -> list[Caption]:
    """As they stand in the file.

    Raises:
        ManifestError: if it is not what its ending says, or has several tiers of which one may be meant.
        UnicodeDecodeError: if it is no text.
    """
    try:
        found = list(_READERS.get(path.suffix.lower(), _labels)(path))
        if not all(0 <= one.start < math.inf and one.end < math.inf for one in found):
            raise ValueError
    except UnicodeDecodeError:
        raise
    except _DAMAGE as error:
        raise ManifestError("{path} is damaged, or no such file as its name says.", path=path.name) from error
    return found


def _text_of(path: Path) -> str:
    with path.open(encoding=encoding_of(path)) as file:
        text = file.read(_MOST_CHARACTERS + 1)
    if len(text) > _MOST_CHARACTERS:
        raise ValueError
    return text


def are_aligned(text: str) -> bool:
    """Whether a text has the times of single sounds or words, and is none that anybody reads."""
    return _ALIGNED.fullmatch(text.strip()) is not None


def are_timed(text: str) -> bool:
    """Whether a text has times in it, which nobody says."""
    return _TIMED.search(text) is not None


def _labels(path: Path) -> Iterator[Caption]:
    """Lines of `_LABELS`: behind one of Audacity, a line of frequencies may follow, and LDC has remarks.
    Captions that were saved as a text are read as such.
    """
    text = _text_of(path)
    if are_aligned(text):
        raise ManifestError(
            "{path} has the times of single sounds or words, and no text: name a list of the texts, or put a "
            "text beside each sound.",
            path=path.name,
        )
    if "-->" in text and not text.lstrip().startswith("["):
        yield from _shown(path)
        return
    if "-->" not in text and _LYRIC.search(text):
        yield from _sung(path)
        return
    for line in map(str.rstrip, text.split("\n")):
        if found := next(filter(None, (label.fullmatch(line) for label in _LABEL)), None):
            yield Caption(_seconds(found[1]), _seconds(found[2]), (_UNSPOKEN.sub(" ", found[3] or ""),))
        elif line and not line.startswith(("\\", "#")):
            raise ValueError


def _sung(path: Path) -> Iterator[Caption]:
    """LRC: `[00:12.34]` before a line, which stays until the next one; several times where it comes again."""
    lines = _LYRIC.finditer(_text_of(path))
    times = [(_seconds(time), line[2]) for line in lines for time in re.findall(r"[\d:.]+", line[1])]
    for (start, said), (end, _) in pairwise(sorted(times)):
        yield Caption(start, end, (said,))


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
        if not found and "-->" in line:
            raise ValueError
        if found:
            times, lines = (_seconds(found[1]), _seconds(found[2])), []
        elif times and line.strip():
            lines.append(line.strip())
    if times:
        yield Caption(*times, tuple(lines))


def _events(path: Path) -> Iterator[Caption]:
    """ASS and SSA: in the section of events each line is one, its fields in the order that `Format` tells."""
    names: list[str] = []
    section = ""
    for line in map(str.strip, _text_of(path).split("\n")):
        section = line.lower() if line.startswith("[") else section
        kind, _, values = line.partition(":")
        if section == "[events]" and kind == "Format":
            names = [name.strip() for name in values.split(",")]
        elif section == "[events]" and kind == "Dialogue":
            event = dict(zip(names, values.split(",", len(names) - 1), strict=True))
            if not _DRAWING.search(text := event["Text"]):
                lines = _BREAK.split(_STYLE.sub("", text).replace("\\h", " "))
                yield Caption(_seconds(event["Start"]), _seconds(event["End"]), tuple(lines))


def _heard(path: Path) -> Iterator[Caption]:
    """JSON of openai-whisper, faster-whisper, WhisperX and the studio, or of whisper.cpp."""
    whole = json.loads(_text_of(path))
    if "segments" not in whole:
        language = whole["result"]["language"]
        for part in whole["transcription"]:
            start, end = (float(part["offsets"][name]) / 1000 for name in ("from", "to"))
            yield Caption(start, end, tuple(part["text"].splitlines()), language)
        return
    for part in whole["segments"]:
        language = part.get("language") or whole.get("language")
        yield Caption(float(part["start"]), float(part["end"]), tuple(part["text"].splitlines()), language)


def _in_table(path: Path) -> Iterator[Caption]:
    """TSV of openai-whisper and the studio: start and end in milliseconds, and the text."""
    for line in filter(None, _text_of(path).removeprefix(_TABLE).split("\n")):
        start, end, said = line.split("\t", 2)
        yield Caption(float(start) / 1000, float(end) / 1000, (said,))


def _seconds(time: str) -> float:
    hours, minutes, seconds = ["0", "0", *time.split(":")][-3:]
    return 3600 * float(hours) + 60 * float(minutes) + _number(seconds)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _scored(path: Path) -> Iterator[Caption]:
    """STM: recording, channel, speaker, start, end, perhaps labels in angle brackets, text."""
    lines = [line.split(maxsplit=5) for line in _text_of(path).split("\n") if not line.startswith(";;")]
    recordings = {fields[0] for fields in lines if fields}
    for fields in lines:
        is_said = len(fields) == 6 and not fields[5].lower().endswith(_NOT_SCORED)
        if is_said and (len(recordings) == 1 or fields[0] == path.stem):
            said = _APART.sub("", _UNSPOKEN.sub(" ", fields[5]))
            yield Caption(float(fields[3]), float(fields[4]), (said,))


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
        raise _several(path, [name for name, _tier in spoken])
    return [one for _name, tier in spoken for one in tier]


def _several(path: Path, tiers: Iterable[str]) -> ManifestError:
    return ManifestError(
        "{path} has several tiers ({names}): keep the one with the sentences that are spoken.",
        path=path.name,
        names=", ".join(tiers),
    )


def _of_elan(path: Path) -> Iterator[Caption]:
    """The tiers that lean on no other one: the only one, or one for each participant. What is done or meant
    may stand in such tiers, too.
    """
    root = ElementTree.fromstring(_text_of(path))
    times = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    whole = [tier for tier in root.iter("TIER") if tier.get("PARENT_REF") is None]
    tiers = [tier for tier in whole if any(map(str.strip, tier.itertext()))]
    who = {tier.get("PARTICIPANT") for tier in tiers}
    if len(tiers) > 1 and (len(who) < len(tiers) or not all(who)):
        raise _several(path, [tier.get("TIER_ID", "") for tier in tiers])
    for one in (one for tier in tiers for one in tier.iter("ALIGNABLE_ANNOTATION")):
        start, end = (times.get(one.get(f"TIME_SLOT_REF{number}")) for number in (1, 2))
        if start and end:
            said = one.findtext("ANNOTATION_VALUE") or ""
            yield Caption(float(start) / 1000, float(end) / 1000, tuple(said.splitlines()))


_READERS: Mapping[str, Callable[[Path], Iterable[Caption]]] = {
    **dict.fromkeys((".srt", ".vtt"), _shown),
    **dict.fromkeys((".ass", ".ssa"), _events),
    ".json": _heard,
    ".tsv": _in_table,
    ".textgrid": _of_praat,
    ".eaf": _of_elan,
    ".stm": _scored,
    ".lrc": _sung,
}
ENDINGS = tuple(_READERS)
