"""The names that columns go by, and what to say of one that is misspelt."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from studio.errors import ManifestError

ALIASES: Mapping[str, tuple[str, ...]] = {
    "audio": (
        *("audio_path", "audio.path", "audio", "path", "file_name", "audio_filepath"),
        *("filename", "file", "audio_file", "wav_filename", "wav", "source", "file_path"),
    ),
    "text": (
        *("text", "sentence", "raw_transcription", "transcription", "transcript", "raw_text"),
        *("normalized_text", "txt", "wrd", "target", "words"),
    ),
    "language": ("language", "lang", "locale", "source_lang"),
    "text_language": ("target_lang",),
    "task": ("task",),
    "duration": ("duration", "duration_seconds"),
    "start": ("start_time", "audio.start_time", "begin_time", "start", "offset"),
    "end": ("end_time", "audio.end_time", "end"),
    "segments": ("sentences", "segments"),
    "speaker": ("speaker", "speaker_id", "client_id", "spk_id"),
    "previous": ("previous_text", "prev_text", "prompt"),
}
"""Accepted spellings of each field, the one that wins first; capitals do not matter."""

_OTHERS = frozenset({"segment", "pred_text", "source_len", "target_len"})
"""Columns that look like a misspelt one, and are not: of Common Voice, NeMo and FunASR."""
_LOOKS_MISSPELT = 0.85
"""How alike (`difflib`'s ratio) an unknown column and an accepted one are for it to be a slip of the pen."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a list."""

    needs_text: bool = True
    """Whether a clip without a text is of no use."""
    audio_column: str = ""
    """The one column that holds the sounds; empty: the well-known names."""
    text_column: str = ""
    stored_in: Path | None = None
    """Folder of the rows that are too many for the memory; None: the system's."""
    beside: tuple[Path, ...] = ()
    """Folders in which sounds are looked for last."""
    within: tuple[Path, ...] = ()
    """Folders that the sounds must lie in, absolute and without links; empty: they may lie anywhere."""

    part: str = ""
    """What is asked, where it is one of several sources: its rows say so."""

    @property
    def named(self) -> dict[str, str]:
        """Fields whose column is given."""
        columns = {"audio": self.audio_column, "text": self.text_column}
        return {field: name for field, name in columns.items() if name}


class Columns:
    """Which columns of a row hold which field."""

    def __init__(self, names: Sequence[str], wanted: Wanted) -> None:
        """Finds the fields among a row's column names.

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
        if "prompt_id" in spelled:  # a question of Common Voice that was read, and not heard
            self._found["previous"] = [
                name for name in self._found["previous"] if name != spelled.get("prompt")
            ]
        for field, given in wanted.named.items():
            if given.strip().lower() not in spelled:
                raise ManifestError(
                    "There is no column {name!r} for the {field}: found {found}.",
                    name=given,
                    field=field,
                    found=", ".join(map(repr, names[:12])) or "none",
                )
            self._found[field] = [spelled[given.strip().lower()]]
        unknown = [name for name in names if name not in known]
        if not self._found["audio"]:
            raise _missing("audio", names, unknown)
        if wanted.needs_text and not self._found["text"] and not self._found["segments"]:
            raise _missing("text", names, unknown)
        self._refuse_misspelt(unknown)

    def has(self, field: str) -> bool:
        """Whether there is a column for it."""
        return bool(self._found[field])

    def of(self, field: str) -> Sequence[str]:
        """Its columns, as the row spells them, the one that wins first."""
        return self._found[field]

    def get(self, row: Mapping[str, Any], field: str) -> Any:
        """The first value of a field that is there and not empty; None if there is none."""
        name = self.holding(row, field)
        return None if name is None else row[name]

    def holding(self, row: Mapping[str, Any], field: str) -> str | None:
        """The column that `get` has its value from.

        NaN, which pandas writes for what is missing, is the one value that does not equal itself.
        """
        for name in self._found[field]:
            value = row.get(name)
            if value is not None and value != "" and value == value:
                return name
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


@lru_cache(maxsize=256)
def columns_of(names: tuple[str, ...], wanted: Wanted) -> Columns:
    """The columns of rows that have these names; cached, as most rows of a manifest have the same.

    Raises:
        ManifestError: as `Columns`.
    """
    return Columns(names, wanted)


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
