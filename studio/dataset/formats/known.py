"""Tells by its name and by what is in it which format a list is in."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from studio.dataset.columns import ALIASES, Wanted, columns_of
from studio.dataset.delimited import Row, tab_rows
from studio.dataset.formats import (
    common_voice,
    conversations,
    fleurs,
    gigaspeech,
    headerless,
    kaldi,
    label_studio,
    lhotse,
    ljspeech,
    text_files,
    text_lists,
    timed_texts,
    voxpopuli,
)
from studio.dataset.places import Places
from studio.dataset.rows import audio_of
from studio.dataset.tables import check_text, parsed_lines, rows_of
from studio.errors import ManifestError

_IsOne = Callable[[Mapping[str, Any]], bool]
_ClipsOf = Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]
_IN_JSON: Mapping[str, tuple[_IsOne, _ClipsOf]] = {
    "lhotse": (lhotse.is_cut, lhotse.clips_of),
    "label_studio": (label_studio.is_task, label_studio.clips_of),
    "conversations": (conversations.is_one, conversations.clips_of),
}
"""Rows of JSON without the studio's own names: how they are known, and of which clips they tell."""
_MOST_BAD_ROWS = 1000
"""So many at the beginning of a list are passed over to see what its rows are."""


class Listed(NamedTuple):
    """What a list is read into."""

    format: str
    rows: Iterator[Row]
    folders: tuple[Path, ...]
    """Where its relative paths are looked for, in this order."""
    is_plain: bool = False
    """Whether it is a table or JSON with the studio's own names."""
    has_columns: bool = True
    """Whether the names in its rows stand in the list, too."""


def read_list(path: Path, wanted: Wanted, split: str = "train") -> Listed:
    """The format of a list, and its rows as they are asked for; of one that has several splits, those of one.

    Raises:
        ManifestError: if it cannot be read, or is in none of the formats.
    """
    beside = path.absolute().parent
    if path.name == kaldi.RECORDINGS:
        check_text(path)
        return Listed("kaldi", kaldi.rows(path.parent, wanted), (beside, beside.parent), has_columns=False)
    if path.suffix.lower() in timed_texts.ENDINGS and text_files.is_text(path):
        told = timed_texts.about_its_sound(path) or {}
        if told.keys().isdisjoint(ALIASES["audio"]):  # else it is a list, too
            raise _belongs_to_its_folder(path)
    blank_lines, first_line = check_text(path)
    if ljspeech.is_one(path, first_line):
        places = (beside, beside / ljspeech.SOUND_FOLDER)
        return Listed("ljspeech", ljspeech.rows(path), places, has_columns=False)
    if fleurs.is_one(first_line):
        return Listed("fleurs", fleurs.rows(path), fleurs.places(path), has_columns=False)
    if not wanted.audio_column and (name := voxpopuli.name_column(first_line)):
        _found, rows = rows_of(path, blank_lines, first_line, replace(wanted, audio_column=name))
        with_sound = partial(voxpopuli.with_sound, beside, name, voxpopuli.ending_in(beside))
        return Listed("voxpopuli", map(with_sound, rows), (beside,))
    if common_voice.is_header(first_line):
        rows = tab_rows(path, first_line, blank_lines, wanted, marks_are_text=True)
        clips = beside / common_voice.SOUND_FOLDER
        return Listed("common_voice", map(common_voice.with_ending, rows), (beside, clips))
    if path.name == text_lists.WITH_PINYIN:
        raise _belongs_to_its_folder(path)
    try:
        found, rows = rows_of(path, blank_lines, first_line, wanted)
    except ManifestError:
        if path.name == text_lists.AISHELL.name:
            raise ManifestError(
                "{path} has the texts of AISHELL-1: name the folder of the recordings, such as "
                "data_aishell/wav/train.",
                path=path,
            ) from None
        if text_files.is_text(path) or kaldi.is_part(path):
            raise _belongs_to_its_folder(path) from None
        if wanted.named or (by_name := headerless.rows(path, blank_lines, first_line)) is None:
            raise
        return Listed("headerless", by_name, (beside,), has_columns=False)
    if found in ("json", "jsonl"):
        begin = list(_to_first_good(rows))
        rows = chain(begin, rows)
        if begin and "shard_id" in begin[-1].values and any(beside.glob("*.tar")):
            _require_unpacked(path, begin[-1], wanted)
        of_split: _ClipsOf = partial(gigaspeech.clips_of, split=split)
        kinds = {**_IN_JSON, "gigaspeech": (gigaspeech.is_one, of_split)}
        for name, (is_one, clips_of) in kinds.items():
            if begin and is_one(begin[-1].values):
                return Listed(name, _clips_in(rows, is_one, clips_of), (beside,), has_columns=False)
    return Listed(found, rows, (beside,), is_plain=True)


def _to_first_good(rows: Iterator[Row]) -> Iterator[Row]:
    for row in islice(rows, _MOST_BAD_ROWS):
        yield row
        if not row.error:
            return


def _clips_in(rows: Iterable[Row], is_one: _IsOne, clips_of: _ClipsOf) -> Iterator[Row]:
    """The clips that rows of one of the formats tell of; rows of another kind stay as they are."""
    for row in rows:
        if row.error or not is_one(row.values):
            yield row
            continue
        try:
            yield from (Row(row.line, values) for values in clips_of(row.values))
        except ManifestError as error:
            yield Row(row.line, {}, error)


def _require_unpacked(path: Path, row: Row, wanted: Wanted) -> None:
    """Of NeMo's lists of sounds in tar archives, whose first sound is looked for."""
    audio, _start, _end = audio_of(row.values, columns_of(tuple(row.values), wanted))
    try:
        Places((path.absolute().parent,), wanted.within).find(audio)
    except ManifestError as error:
        raise ManifestError(
            "{path} lists what is in archives of NeMo (audio_0.tar, …): unpack them beside it.",
            path=path,
        ) from error


def _belongs_to_its_folder(path: Path) -> ManifestError:
    return ManifestError(
        "{path} belongs to the recordings beside it: name its folder, not the file.", path=path
    )


def read_copy(path: Path) -> Listed:
    """The rows of a copy that the studio has made: JSON lines, whatever form their columns look like.

    Raises:
        ManifestError: if it cannot be read.
    """
    check_text(path)
    return Listed("jsonl", parsed_lines(path), (path.absolute().parent,), is_plain=True)
