"""Transcripts as files: plain text, SRT, WebVTT, TSV and JSON."""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from studio.files import write_text
from studio.options.checks import check_between, check_choice
from studio.options.values import check_numbers
from studio.transcription.engine import Segment, Transcript
from studio.transcription.lasting import long_enough
from studio.units import format_clock

_JOINER = "\u200d"
_OPENING = "\"'¿¡#@&*§"
"""Behind a space these marks belong to what follows; others, as in « Quoi ? », to what stands before them."""
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
_NEVER_FIRST = "ー々ゝゞヽヾぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
_RESERVED_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?$")
_LONGEST_NAME_BYTES = 120


@dataclass(frozen=True)
class CaptionLayout:
    """How much of the picture a caption may take; the names are those of OpenAI's `whisper`."""

    max_line_width: int = 42
    """Columns of the widest line; a Chinese character takes two."""
    max_line_count: int = 2
    """Lines of the tallest caption."""

    def __post_init__(self) -> None:
        """Refuses what no caption can have.

        Raises:
            ConfigError: if a number is out of its bounds.
        """
        check_numbers(self)
        for name, (low, high) in LAYOUT_BOUNDS.items():
            check_between(name, getattr(self, name), low, high)


LAYOUT_BOUNDS = {"max_line_width": (4, 1000), "max_line_count": (1, 20)}
"""Option → the least and the most it may be."""
DEFAULT_LAYOUT = CaptionLayout()


@dataclass(frozen=True)
class _Cue:
    start_seconds: float
    end_seconds: float
    lines: tuple[str, ...]


def render(transcript: Transcript, format: str, layout: CaptionLayout = DEFAULT_LAYOUT) -> str:
    """A transcript in one of `FORMATS`; what `layout` has no room for becomes further captions (SRT, VTT).

    Raises:
        ConfigError: if there is no such format.
    """
    check_choice("format", format, FORMATS)
    return FORMATS[format](transcript, layout)


def write(
    transcript: Transcript, format: str, folder: Path, stem: str, layout: CaptionLayout = DEFAULT_LAYOUT
) -> Path:
    """Writes `folder/stem.format` in UTF-8, whole or not at all, and returns its path.

    `stem` may be any text, such as the name of an upload: what no file can be named is replaced.

    Raises:
        ConfigError: if there is no such format.
        StorageError: if the folder cannot be written.
    """
    path = folder / f"{safe_stem(stem)}.{format}"
    write_text(path, render(transcript, format, layout))
    return path


def safe_stem(text: str, ending: str = "") -> str:
    """`text` as a file name that every system takes: no path, no reserved or control character. It is cut so
    that there is room for the `ending`, such as `-2`.
    """
    name = re.sub(
        r'[\x00-\x1f\x7f<>:"/\\|?*\u202a-\u202e\u2066-\u2069]', "_", unicodedata.normalize("NFC", text)
    )
    most = _LONGEST_NAME_BYTES - len(ending)
    name = name.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore").strip(" .") + ending
    return f"_{name}" if not name or _RESERVED_NAMES.match(name) else name


# ---------------------------------------------------------------------- formats


def _plain(transcript: Transcript, _layout: CaptionLayout) -> str:
    return "".join(f"{_one_line(segment.text)}\n" for segment in transcript.segments)


def _srt(transcript: Transcript, layout: CaptionLayout) -> str:
    blocks = []
    for number, cue in enumerate(_shown(transcript, layout), start=1):
        start, end = (format_clock(at, separator=",") for at in (cue.start_seconds, cue.end_seconds))
        # Players take <i> and <b> as style: a full-width sign looks alike and is none.
        lines = "\n".join(cue.lines).replace("<", "＜").replace("-->", "→")
        blocks.append(f"{number}\n{start} --> {end}\n{lines}\n")
    return "\n".join(blocks)


def _vtt(transcript: Transcript, layout: CaptionLayout) -> str:
    blocks = ["WEBVTT\n"]
    for cue in _shown(transcript, layout):
        start, end = (format_clock(at) for at in (cue.start_seconds, cue.end_seconds))
        lines = html.escape("\n".join(cue.lines), quote=False)
        blocks.append(f"{start} --> {end}\n{lines}\n")
    return "\n".join(blocks)


def _tsv(transcript: Transcript, _layout: CaptionLayout) -> str:
    rows = ["start\tend\ttext\n"]
    edges = [(segment.start_seconds, segment.end_seconds) for segment in transcript.segments]
    for segment, times in zip(transcript.segments, long_enough(edges, _end(transcript)), strict=True):
        start, end = (round(1000 * at) for at in times)
        rows.append(f"{start}\t{end}\t{_one_line(segment.text)}\n")
    return "".join(rows)


def _json(transcript: Transcript, _layout: CaptionLayout) -> str:
    return json.dumps(transcript.to_json(), ensure_ascii=False, indent=2) + "\n"


FORMATS: dict[str, Callable[[Transcript, CaptionLayout], str]] = {
    "txt": _plain,
    "srt": _srt,
    "vtt": _vtt,
    "tsv": _tsv,
    "json": _json,
}
"""Ending → what makes the file's text."""


# ---------------------------------------------------------------------- captions


def _shown(transcript: Transcript, layout: CaptionLayout) -> list[_Cue]:
    """The captions, each long enough to be seen."""
    cues = list(_cues(transcript, layout))
    times = long_enough([(cue.start_seconds, cue.end_seconds) for cue in cues], _end(transcript))
    return [_Cue(start, end, cue.lines) for cue, (start, end) in zip(cues, times, strict=True)]


def _end(transcript: Transcript) -> float:
    return max([transcript.duration_seconds, *(segment.end_seconds for segment in transcript.segments)])


def _cues(transcript: Transcript, layout: CaptionLayout) -> Iterator[_Cue]:
    for segment in transcript.segments:
        lines = wrap(segment.text, layout.max_line_width)
        if len(lines) <= layout.max_line_count:
            if lines:
                yield _Cue(segment.start_seconds, segment.end_seconds, tuple(lines))
        elif segment.words:
            yield from _cues_of_words(segment, layout)
        else:
            yield from _cues_by_width(segment, lines, layout)


def _cues_of_words(segment: Segment, layout: CaptionLayout) -> Iterator[_Cue]:
    """As many words to a caption as fit, each from its first word's time to its last's; the text is the
    segment's own, whose language has spaces or has none.
    """
    text, words, edges = segment.text, segment.words, segment.edges()

    def lines(first: int, end: int) -> tuple[str, ...]:
        """Those of some of the words."""
        return tuple(wrap(text[edges[first] : edges[end]], layout.max_line_width))

    first = 0
    for number in range(1, len(words) + 1):
        if number == len(words) or len(lines(first, number + 1)) > layout.max_line_count:
            start, end, said = words[first].start_seconds, words[number - 1].end_seconds, lines(first, number)
            if len(said) > layout.max_line_count:  # one word, such as an address
                yield from _cues_by_width(Segment(start, end, ""), said, layout)
            else:
                yield _Cue(start, end, said)
            first = number


def _cues_by_width(segment: Segment, lines: Sequence[str], layout: CaptionLayout) -> Iterator[_Cue]:
    """Without times of words, each caption lasts in proportion to its text."""
    count = layout.max_line_count
    groups = [tuple(lines[at : at + count]) for at in range(0, len(lines), count)]
    widths = [sum(_width(line) for line in group) for group in groups]
    length = segment.end_seconds - segment.start_seconds
    done = 0
    for group, width in zip(groups, widths, strict=True):
        start = segment.start_seconds + length * done / sum(widths)
        done += width
        yield _Cue(start, segment.start_seconds + length * done / sum(widths), group)


def wrap(text: str, columns: int = DEFAULT_LAYOUT.max_line_width) -> list[str]:
    """Lines of at most `columns`, broken at spaces, or between characters where there are none.

    A character as people see it (letter and accents, an emoji of several parts, a flag) is never split.
    """
    lines: list[str] = []
    for unit in _breakable(_one_line(text), columns):
        if lines and _width((lines[-1] + unit).rstrip()) <= columns:
            lines[-1] += unit
        elif unit.strip():
            lines.append(unit.lstrip())
    return [line.strip() for line in lines if line.strip()]


def _breakable(text: str, columns: int) -> Iterator[str]:
    """Pieces between which a line may end: words with the space behind them, where there are no spaces
    characters one by one."""
    held = ""
    for cluster in clusters(text):
        if held and (_may_end(held, cluster) or _width(held + cluster) > columns):
            yield held
            held = ""
        held += cluster
    if held:
        yield held


def _may_end(held: str, cluster: str) -> bool:
    """Whether a line may end between two characters."""
    if unicodedata.category(held.rstrip()[-1:] or " ") in ("Ps", "Pi"):
        return False
    if held[-1].isspace():
        return not _is_closing(cluster) or cluster in _OPENING
    return (_needs_no_space(cluster) or _needs_no_space(held[-1])) and not _is_closing(cluster)


def _needs_no_space(cluster: str) -> bool:
    """Whether a line may end beside it: all that is wide but Korean, which has spaces."""
    return _width(cluster) > 1 and not _HANGUL.match(cluster)


def clusters(text: str) -> Iterator[str]:
    """Characters as people see them."""
    held = ""
    for char in text:
        if held and (_extends(char) or held[-1] == _JOINER or _is_half_flag(held, char)):
            held += char
            continue
        if held:
            yield held
        held = char
    if held:
        yield held


def _extends(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me", "Mc", "Cf") or "\U0001f3fb" <= char <= "\U0001f3ff"


def _is_half_flag(held: str, char: str) -> bool:
    return len(held) == 1 and all("\U0001f1e6" <= half <= "\U0001f1ff" for half in (held, char))


def _is_closing(cluster: str) -> bool:
    """What must not begin a line: punctuation, and in Japanese what belongs to the character before."""
    is_punctuation = unicodedata.category(cluster[0]) in ("Pe", "Pf", "Po") and not cluster.isspace()
    return is_punctuation or cluster[0] in _NEVER_FIRST


def _width(text: str) -> int:
    """Columns: two for a wide character, none for what only changes the one before."""
    return sum(
        0 if _extends(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
