"""Numbers to text and back: bytes, durations, counts. Everything here is pure."""

import re
from datetime import datetime

from studio.errors import ConfigError
from studio.messages import Message

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_BYTE_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "m": MIB,
    "g": GIB,
    "tib": 1024**4,
}


def format_bytes(size_bytes: float) -> str:
    """`5_905_580_032` → `5.50 GiB`; binary units, three significant digits."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            break
        size /= 1024
    if unit == "B":
        return f"{size:.0f} B"
    digits = 2 if abs(size) < 10 else 1 if abs(size) < 100 else 0
    return f"{size:,.{digits}f} {unit}"


def parse_bytes(text: str) -> int:
    """`24`, `24 GB`, `22.5GiB`, `24G` → bytes; a bare number is GiB, as on the box of a GPU, and so is `G`.

    Raises:
        ConfigError: if it is not a size.
    """
    match = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in _BYTE_UNITS:
        raise ConfigError("{text!r} is not a size: give a number with a unit, such as 24 GiB.", text=text)
    factor = _BYTE_UNITS[match[2].lower()] if match[2] else GIB
    return int(float(match[1]) * factor)


def duration_message(seconds: float) -> Message:
    """`4000` → `1 h 06 min`, `75` → `1 min 15 s`, `4.25` → `4.2 s`; Chinese has its own words for them."""
    if seconds < 10:
        return Message("{seconds:.1f} s", seconds=seconds)
    whole = round(seconds)
    if whole < 60:
        return Message("{seconds} s", seconds=whole)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return Message("{minutes} min {seconds:02d} s", minutes=minutes, seconds=rest)
    hours, minutes = divmod(minutes, 60)
    return Message("{hours} h {minutes:02d} min", hours=hours, minutes=minutes)


def local_time(iso: str) -> str:
    """`2026-11-28T00:34:04+00:00` → `2026-11-28 08:34` on a machine in Taipei; what is no time stays so."""
    try:
        return f"{datetime.fromisoformat(iso).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return iso


def format_clock(seconds: float, *, separator: str = ".", always_hours: bool = True) -> str:
    """`75.5` → `00:01:15.500`, the time format of captions (SRT separates with a comma)."""
    milliseconds = max(0, round(seconds * 1000))
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    head = f"{hours:02d}:" if hours or always_hours else ""
    return f"{head}{minutes:02d}:{whole:02d}{separator}{milliseconds:03d}"


def format_count(count: float) -> str:
    """`241_734_912` → `241.7 M`."""
    size = float(count)
    for unit in ("", " K", " M"):
        if abs(size) < 1000:
            return f"{size:.0f}" if not unit else f"{size:.1f}{unit}"
        size /= 1000
    return f"{size:.2f} B"


def counted(count: float, thing: str) -> str:
    """`1234, "clip"` → `1,234 clips`, `1, "clip"` → `1 clip`."""
    return f"{count:,.0f} {thing}{'' if count == 1 else 's'}"


def format_percent(share: float) -> str:
    """`0.187` → `18.7 %`."""
    return f"{100 * share:.1f} %"


def names(text: str) -> list[str]:
    """`"a, b"` → `["a", "b"]`."""
    return [name.strip() for name in text.split(",") if name.strip()]
