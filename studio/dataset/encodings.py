"""What a text that is not UTF-8 seems to be in: said to a person with a line of it, and never read by it."""

import codecs
import re
import shlex
from itertools import product
from operator import itemgetter
from pathlib import Path

from studio.errors import ManifestError

_MOST_READ, _MOST_JUDGED = 2**20, 2**16
_LIKELY, _ENOUGH = 0.8, 10
"""So large a part of the characters beyond ASCII must be common ones, and so many must there be."""
_BEYOND = re.compile(r"[^\0-~]")


def _daily(encoding: str, *firsts: int, least: int = 0xA1) -> str:
    """Characters of daily use, which have rows of their own: these first bytes, and this least second one."""
    pairs = b"\n".join(map(bytes, product(firsts, range(least, 0xFF))))
    return f"[{re.escape(pairs.decode(encoding, 'ignore'))}\u3000、。，！？：；（）「」『』《》“”‘’…—·]"


_ALONE = r"(?<![^\0-~])[%s]{1,2}(?![^\0-~])"
_WESTERN = "À-ÏÑ-ÖØ-Üß-ïñ-öø-üÿŒœ«»¿¡…\u2013\u2019\u201c-\u201e"
_CENTRAL = "ÁČĎÉĚÍŇÓŘŠŤÚŮÝŽáčďéěíňóřšťúůýžĄĆĘŁŃŚŹŻąćęłńśźżőűŐŰÄÖÜäöüß…\u2013\u201d\u201e"
_COMMON = {
    "CP949": _daily("CP949", *range(0xB0, 0xC9)),
    "GB18030": _daily("GB18030", *range(0xB0, 0xD8)),
    "EUC-JP": _daily("EUC-JP", 0xA4, 0xA5, *range(0xB0, 0xD0)),
    "BIG5-HKSCS": _daily("BIG5-HKSCS", *range(0xA4, 0xC7), least=0x40),
    "CP932": _daily("CP932", 0x82, 0x83, *range(0x88, 0x98), least=0x40),
    "CP1252": _ALONE % _WESTERN + "|«\xa0|\xa0[»!?:;]",
    "CP1250": _ALONE % _CENTRAL,
    "CP1251": r"(?<![^\W\d_])[А-ЯЁІЇЄҐЎ]?[а-яёіїєґў]+(?![^\W\d_])|[«»\u2014\u2013№]",
}
"""Encodings as iconv and Python call them, and what most of a text consists of in each, beyond ASCII. Where
two fit, the narrower one comes first."""


def not_utf8(path: Path, data: bytes | None = None, line: int = 1) -> ManifestError:
    """What to say of a file; `data` is what it has from the beginning of a `line` on, if that was read."""
    if data is None:
        with path.open("rb") as file:
            data = file.read(_MOST_READ)
    lines = data.split(b"\n")
    wrong = [number for number, each in enumerate(lines) if "\ufffd" in each.decode(errors="replace")]
    line += wrong[0] if wrong else 0
    judged = b"\n".join(lines[number] for number in wrong)[:_MOST_JUDGED]
    share, encoding = max(((_share(judged, name), name) for name in _COMMON), key=itemgetter(0))
    if share < _LIKELY:
        return ManifestError(
            "{path} is not UTF-8 text (line {line}): save it again in UTF-8 (in Excel: CSV UTF-8).",
            path=path,
            line=line,
        )
    new = shlex.quote(str(path.with_name(f"{path.stem}-utf8{path.suffix}")))
    return ManifestError(
        "{path} is not UTF-8 text (line {line}). It seems to be {encoding}, in which that line has “{shown}”."
        " If that is right, make it UTF-8 with {command}; if not, save it again in UTF-8.",
        path=path,
        line=line,
        encoding=encoding,
        shown=re.sub("^[\0-~]*", "", _decoded(lines[wrong[0]], encoding))[:60].strip(),
        command=f"{shlex.join(['iconv', '-f', encoding, '-t', 'UTF-8', str(path)])} > {new}",
    )


def _share(data: bytes, encoding: str) -> float:
    """Of the characters beyond ASCII, the part that is common; 0 if it is no such text, or they are few."""
    try:
        text = _decoded(data, encoding)
    except UnicodeDecodeError:
        return 0.0
    common, beyond = "".join(re.findall(_COMMON[encoding], text)), len(_BEYOND.findall(text))
    return len(_BEYOND.findall(common)) / beyond if beyond >= _ENOUGH else 0.0


def _decoded(data: bytes, encoding: str) -> str:
    """The text, without half a character at its end, where the data may be cut off."""
    return codecs.getincrementaldecoder(encoding)().decode(data)
