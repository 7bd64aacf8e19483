"""How long a file's own header says that it is, where that is no guess, and what is missing of it.

A download that was broken off, a full disk or bad blocks leave a file that opens and plays, and ends too
early or skips a part.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from studio.messages import Message
from studio.units import duration_message

_LEAST_MISSING_SECONDS, _LEAST_MISSING_SHARE = 0.5, 0.02
"""Less than that is what programs round, and leave behind at the end."""
_GAP_SECONDS = 0.01
"""Of a length that is counted to the sample, not even a frame may be missing."""
_PLACEHOLDERS = (range(0x7FFF_0000, 0x8000_0200), range(0xFFFF_0000, 0x1_0000_0000))
"""What programs that write into a pipe, and cannot come back, leave as the size of what follows."""
_PLAIN_CODES = (1, 3, 6, 7)
"""Kinds of WAV whose samples all have the same size: whole numbers, floats, A-law, µ-law."""
_EXTENSIBLE = 0xFFFE
_FIRST_FRAME_BYTES = 4096
"""An MP3 has its table of contents in the first frame, which is shorter."""
_PAGE_BYTES = 65_307
"""No page of an Ogg is longer."""


@dataclass(frozen=True)
class Declared:
    """A length that a header tells."""

    seconds: float
    """Infinite if it only tells that there was more."""
    is_counted: bool = False
    """Whether it was counted to the sample by whoever wrote the file, as in a FLAC."""


def fault_of(
    declared: Declared | None, heard_seconds: float, start_seconds: float, end_seconds: float | None
) -> Message | None:
    """What is to be said of a file, or of a part of it (see `Sound.blocks`), of which so much was decoded."""
    if declared is None:
        return None
    end = declared.seconds if end_seconds is None else min(end_seconds, declared.seconds)
    wanted = end - start_seconds
    missing = wanted - heard_seconds
    if math.isinf(missing):
        return Message(
            "The file is cut off after {heard}.", heard=_length(held := start_seconds + heard_seconds, held)
        )
    is_short = missing > max(_LEAST_MISSING_SECONDS, _LEAST_MISSING_SHARE * wanted)
    if is_short and end_seconds is None and not start_seconds:
        return Message(
            "The file says {declared}, and holds {heard}: it is cut off or damaged.",
            declared=_length(declared.seconds, declared.seconds),
            heard=_length(heard_seconds, declared.seconds),
        )
    if is_short or (declared.is_counted and missing > _GAP_SECONDS):
        return Message(
            "The file is cut off or damaged: {missing:.2f} s of this sound are missing.", missing=missing
        )
    return None


def _length(seconds: float, whole_seconds: float) -> Message:
    """So exact that two lengths of which one is clearly shorter are not said to be the same."""
    return duration_message(seconds) if whole_seconds >= 60 else Message("{seconds:.1f} s", seconds=seconds)


def wav_length(path: Path) -> Declared | None:
    """What a WAV says of its length; None where it says nothing, or its samples have no size of their own."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != b"RIFF":
            return None
        place, bytes_a_second = 12, 0
        while place + 8 <= size:
            file.seek(place)
            name, length = file.read(4), int.from_bytes(file.read(4), "little")
            if name == b"data":
                is_told = length and bytes_a_second and not any(length in sizes for sizes in _PLACEHOLDERS)
                return Declared(length / bytes_a_second) if is_told else None
            if name == b"fmt ":
                bytes_a_second = _plain_rate(file.read(min(length, 40)))
            place += 8 + length + length % 2
    return None


def _plain_rate(form: bytes) -> int:
    """Bytes a second, from what a WAV says of its samples; 0 if they are packed."""
    code = int.from_bytes(form[:2], "little")
    if code == _EXTENSIBLE:
        code = int.from_bytes(form[24:26], "little")
    rate, frame = int.from_bytes(form[4:8], "little"), int.from_bytes(form[12:14], "little")
    return rate * frame if code in _PLAIN_CODES else 0


def is_mp3_cut_off(path: Path) -> bool:
    """Whether an MP3's table of contents counts more bytes than there are."""
    with path.open("rb") as file:
        head, begin = file.read(10), 0
        if head[:3] == b"ID3" and len(head) == 10:  # seven bits a byte
            begin = 10 + sum(byte << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        file.seek(begin)
        first = file.read(_FIRST_FRAME_BYTES)
    at = max(first.find(b"Xing"), first.find(b"Info"))
    if at < 0 or len(first) < at + 16:
        return False
    has_both = first[at + 7] & 3 == 3  # frames and bytes
    return has_both and int.from_bytes(first[at + 12 : at + 16]) > path.stat().st_size - begin


def is_ogg_cut_off(path: Path) -> bool:
    """Whether the last page of an Ogg counts more bytes than there are."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, _PAGE_BYTES), 2)
        end = file.read()
    page = end[begin:] if (begin := end.rfind(b"OggS")) >= 0 else b""
    is_whole = len(page) > 26 and len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
    return begin >= 0 and not is_whole
