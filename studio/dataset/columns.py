"""The names that columns go by, and what to say of one that is misspelt."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from studio.errors import ManifestError

ALIASES: Mapping[str, tuple[str, ...]] = {
    "audio": ("audio_path", "audio.path", "audio", "path", "file_name", "audio_filepath"),
    "text": ("text", "sentence", "transcription", "transcript", "raw_text", "normalized_text"),
    "language": ("language", "lang", "locale"),
    "task": ("task",),
    "duration": ("duration", "duration_seconds"),
    "start": ("start_time", "audio.start_time", "begin_time", "start", "offset"),
    "end": ("end_time", "audio.end_time", "end"),
    "segments": ("sentences", "segments"),
    "speaker": ("speaker", "speaker_id", "client_id"),
    "previous": ("previous_text", "prev_text", "prompt"),
}
"""Accepted spellings of each field, the one that wins first; capitals do not matter."""

_OTHERS = frozenset({"segment"})
"""Columns of well-known corpora that look like a misspelt one, and are not: Common Voice has this one."""
_LOOKS_MISSPELT = 0.85
"""How alike (`difflib`'s ratio) an unknown column and an accepted one are for it to be a slip of the pen."""


_NAMED: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("_NAMED", default=())
"""Fields whose column somebody has named, for the manifest that is being read."""


@contextmanager
def named_columns(**columns: str) -> Iterator[None]:
    """Meanwhile each field is read from the column that is named for it, and from no other.

    An empty name changes nothing: any column is read, or the one that is named around this.
    """
    named = {**dict(_NAMED.get()), **{field: name for field, name in columns.items() if name}}
    token = _NAMED.set(tuple(named.items()))
    try:
        yield
    finally:
        _NAMED.reset(token)


class Columns:
    """Which columns of a row hold which field."""

    def __init__(
        self, names: Sequence[str], *, needs_text: bool = True, named: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Finds the fields among a row's column names; `named` has those whose column is given.

        Raises:
            ManifestError: if there is no audio, or no text where it is needed, or a column looks like a
                misspelt one; or if a given column is not there.
        """
        spelled = {name.strip().lower(): name for name in reversed(names)}
        self._found = {
            field: [spelled[alias] for alias in aliases if alias in spelled]
            for field, aliases in ALIASES.items()
        }
        known = {name for found in self._found.values() for name in found}
        for field, wanted in named:
            if wanted.strip().lower() not in spelled:
                raise ManifestError(
                    "There is no column {name!r} for the {field}: found {found}.",
                    name=wanted,
                    field=field,
                    found=", ".join(map(repr, names[:12])) or "none",
                )
            self._found[field] = [spelled[wanted.strip().lower()]]
        unknown = [name for name in names if name not in known]
        if not self._found["audio"]:
            raise _missing("audio", names, unknown)
        if needs_text and not self._found["text"] and not self._found["segments"]:
            raise _missing("text", names, unknown)
        self._refuse_misspelt(unknown)

    def has(self, field: str) -> bool:
        """Whether there is a column for it."""
        return bool(self._found[field])

    def get(self, row: Mapping[str, Any], field: str) -> Any:
        """The first value of a field that is there and not empty; None if there is none."""
        for name in self._found[field]:
            value = row.get(name)
            if value is not None and value != "":
                return value
        return None

    def _refuse_misspelt(self, unknown: Sequence[str]) -> None:
        absent = [alias for field, found in self._found.items() if not found for alias in ALIASES[field]]
        for name in (name for name in unknown if name not in _OTHERS):
            near = difflib.get_close_matches(name.strip().lower(), absent, n=1, cutoff=_LOOKS_MISSPELT)
            if near and abs(len(near[0]) - len(name.strip())) <= 1:
                raise ManifestError(
                    "The column {found!r} looks like a misspelt {nearest!r}: rename one or drop it.",
                    found=name,
                    nearest=near[0],
                )


def columns_of(names: tuple[str, ...], *, needs_text: bool = True) -> Columns:
    """The columns of rows that have these names; cached, as most rows of a manifest have the same.

    Raises:
        ManifestError: as `Columns`.
    """
    return _cached(names, needs_text, _NAMED.get())


@lru_cache(maxsize=256)
def _cached(names: tuple[str, ...], needs_text: bool, named: tuple[tuple[str, str], ...]) -> Columns:
    return Columns(names, needs_text=needs_text, named=named)


def _missing(field: str, names: Sequence[str], unknown: Sequence[str]) -> ManifestError:
    accepted = ", ".join(ALIASES[field])
    nearest = max(
        (
            (difflib.SequenceMatcher(None, name.strip().lower(), alias).ratio(), name, alias)
            for name in unknown
            for alias in ALIASES[field]
        ),
        default=(0.0, "", ""),
    )
    if nearest[0] < 0.6:
        return ManifestError(
            "There is no column for the {field}: found {found}; accepted are {accepted}.",
            field=field,
            found=", ".join(map(repr, names[:12])) or "none",
            accepted=accepted,
        )
    return ManifestError(
        "There is no column for the {field}: found {found!r}, did you mean {nearest!r}? "
        "Accepted are {accepted}.",
        field=field,
        found=nearest[1],
        nearest=nearest[2],
        accepted=accepted,
    )
