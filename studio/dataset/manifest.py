"""Lists of clips from wherever they are: a file, a folder, the demo speech, or a dataset of the model hub."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from studio.dataset import hub
from studio.dataset.columns import Wanted
from studio.dataset.copies import Copies, copy_local
from studio.dataset.delimited import Row
from studio.dataset.example import Example, Manifest, RowProblem, TextSegment
from studio.dataset.formats import gigaspeech, headerless, kaldi, parquet, saved, text_files, webdataset
from studio.dataset.formats.known import Listed, read_copy, read_list
from studio.dataset.places import Places
from studio.dataset.rows import NO_TEXT, example_of
from studio.dataset.sequences import joined, store
from studio.dataset.tables import sound_rows
from studio.errors import ManifestError
from studio.files import files_below, user_path
from studio.options.sources import (
    DEMO,
    LIST_ENDINGS,
    SPLITS,
    folder_and_splits,
    is_on_hub,
    sources_of,
    split_of,
)
from studio.settings import DEMO_SPEECH, Settings

__all__ = ["Example", "Manifest", "RowProblem", "TextSegment", "read_manifest"]

_WITHOUT_HEADER = (".pcm", ".raw")
_FROM_BARE = ("ffmpeg", "-f", "s16le", "-ar", "16000", "-ac", "1", "-i")
"""KsponSpeech and other corpora of AIHub have such files."""
_DEMO_PARTS = ("train", "validation", "test")
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.tsv", "metadata.json")
MOST_ROWS = 10**9
_MOST_PROBLEMS = 100_000
"""More rows that cannot be used than this, and than good ones, are of no list of clips."""
_OVERLAP_SECONDS, _GAP_SECONDS = 0.5, 5.0
"""A slice that begins so near the end of the one before it goes on with it."""


@dataclass(frozen=True)
class _Reading:
    """A source that is read."""

    source: str
    """As it was asked for."""
    split: str
    max_rows: int | None
    copies: Copies
    wanted: Wanted


def read_manifest(
    source: str | Path,
    settings: Settings,
    *,
    split: str = "train",
    max_rows: int | None = None,
    cache_dir: Path | None = None,
    local_files_only: bool = False,
    needs_text: bool = True,
    audio_column: str = "",
    text_column: str = "",
) -> Manifest:
    """The clips of `source`, and the rows that cannot be used, each with its line and the reason.

    `source` is one of

    - `demo` (the demo speech, its part `split`; `demo:test` names the part),
    - a file: JSON array or object, JSON lines, CSV or TSV with a header, a part of Common Voice, LJSpeech's
      list, cuts of lhotse, recognised by what is in it (packed with gzip or not); or Parquet, or a tar of
      WebDataset,
    - a folder with a manifest named `split`, `metadata.csv` or `.jsonl`, or one manifest, with Parquet or tar
      files, with a text beside each sound, a data folder of Kaldi, or one that `save_to_disk` of the library
      `datasets` has written, of which `folder::test` is a split and `folder::train+test` are two,
    - a dataset of the model hub: `owner/name`, `owner/name:config` or `owner/name:config:split`,
    - without `needs_text` also a folder of sound files, or a text file that lists some, one a line; the text
      of a clip is then empty where none is given,
    - several of these, separated by commas, one after the other (`max_rows` counts for each).

    `audio_column` and `text_column` name the columns to read; without them, well-known names are.

    At most `max_rows` good rows are read. Audio files are looked up; the header of one is read only where
    its row has no duration that can be true, or says where in the file the clip is. Hub datasets are copied
    to `cache_dir` (default: the cache of `settings`), and with `local_files_only` read only from there.

    Raises:
        ManifestError: if there is no such source, it cannot be read, or not one of its rows can be used.
        HubUnreachableError: if it has to come from the model hub, and the hub does not answer.
        StorageError: if a hub dataset cannot be written to the cache.
    """
    if max_rows is not None and not 0 < max_rows <= MOST_ROWS:
        raise ManifestError(
            "The number of rows to read is from 1 to {most:,}, got {given}.", most=MOST_ROWS, given=max_rows
        )
    name = str(source)
    cache, beside = cache_dir or settings.cache, (settings.working_dir.absolute(),)
    wanted = Wanted(needs_text, audio_column, text_column, cache / "rows", beside)
    whole = _Reading(name, split, max_rows, Copies.of(settings, cache), wanted)
    parts = sources_of(name)
    if not any(parts):
        raise ManifestError(
            "No data is named: give a list, a folder or a dataset, or demo for the demo speech."
        )
    try:
        if len(parts) == 1:
            return _read_one(replace(whole, source=parts[0]), settings.on_spaces, local_files_only)
        each = (replace(whole, source=part, wanted=replace(wanted, part=part)) for part in parts)
        return _one_of([_read_one(one, settings.on_spaces, local_files_only) for one in each], name)
    except OSError as error:  # a folder or a file that this user may not open
        raise ManifestError(
            "The manifest {path} cannot be read: {reason}.", path=name, reason=error.strerror or error
        ) from error


def _read_one(reading: _Reading, is_confined: bool, local_files_only: bool) -> Manifest:
    """One of the sources that `read_manifest` knows."""
    name, split, wanted = reading.source, reading.split, reading.wanted
    if name == DEMO or name.startswith(f"{DEMO}:"):
        part = name.partition(":")[2] or split
        if part not in _DEMO_PARTS:
            raise ManifestError(
                "The demo speech has no part {part!r}: choose train, validation or test.", part=part
            )
        return _read_file(DEMO_SPEECH / f"{part}.jsonl", reading)
    path = user_path(name)
    folder, splits = (name, "") if path.is_dir() else folder_and_splits(name)
    path = user_path(folder)
    if is_confined:
        wanted = _within(path if path.is_dir() else path.parent, wanted)
        reading = replace(reading, wanted=wanted)
    if "+" in splits:
        parts = ((part, f"{folder}::{part}") for part in splits.split("+"))
        each = (replace(reading, source=s, split=part, wanted=replace(wanted, part=s)) for part, s in parts)
        return _one_of([_read_folder(path, one, is_named=True) for one in each], name)
    if splits:
        return _read_folder(path, replace(reading, split=splits), is_named=True)
    if path.is_dir():
        return _read_folder(path, reading)
    if path.suffix.lower() == parquet.ENDING:
        return _read_copied(path, [path], parquet.rows_of_file(path), reading, "parquet")
    if webdataset.is_name(name):
        shards = [name] if path.exists() else webdataset.shards_of(name)
        return _read_archives(path, [user_path(shard) for shard in shards], reading)
    if not is_on_hub(name):
        return _read_file(path, reading)
    table = hub.fetch(
        name,
        split=split,
        max_rows=reading.max_rows,
        copies=reading.copies,
        local_files_only=local_files_only,
        wanted=wanted,
    )
    reading = replace(reading, wanted=_within(table.parent, wanted))
    return _read_listed(read_copy(table), reading, "hub")


def _within(folder: Path, wanted: Wanted) -> Wanted:
    """Sounds of this folder are wanted, and no others."""
    return replace(wanted, within=(Path(os.path.normpath(folder.absolute())), folder.resolve()))


def _one_of(manifests: list[Manifest], source: str) -> Manifest:
    formats = dict.fromkeys(manifest.format for manifest in manifests)
    problems = chain.from_iterable(manifest.problems for manifest in manifests)
    examples = joined([manifest.examples for manifest in manifests])
    return Manifest(source, ", ".join(formats), examples, tuple(problems))


def _read_file(path: Path, reading: _Reading, format_name: str = "") -> Manifest:
    """A list; `format_name` is what a plain one is called."""
    return replace(
        _read_listed(read_list(path, reading.wanted, reading.split), reading, format_name), listed_in=path
    )


def _read_listed(
    listed: Listed, reading: _Reading, format_name: str, beside: tuple[Path, ...] = ()
) -> Manifest:
    """The rows of a list; `beside` is one more place of its sounds."""
    folders = (*listed.folders, *beside, *reading.wanted.beside)
    name = format_name if listed.is_plain and format_name else listed.format
    return _collect(listed.rows, tuple(dict.fromkeys(folders)), reading, name)


def _read_folder(folder: Path, reading: _Reading, *, is_named: bool = False) -> Manifest:
    """The list of a folder; where the split `is_named`, nothing else stands in for it."""
    split, wanted = reading.split, reading.wanted
    if saved.is_one(folder) and not (is_named and saved.is_whole(folder)):
        part = saved.part_of(folder, split)
        return _read_copied(part, saved.files_in(part), saved.rows_of(part), reading, "datasets")
    manifest = _manifest_in(folder, split, is_named)
    if manifest is not None and manifest.suffix == parquet.ENDING:
        return _read_copied(manifest, [manifest], parquet.rows_of_file(manifest), reading, "folder")
    if manifest is not None:
        return _read_file(manifest, reading, "folder")
    if not is_named:
        parts = (folder / name for name in _names_of(split))
        place = next((part for part in parts if part.is_dir()), folder)
        texts = text_files.rows(place, follows_links=not wanted.within)
        if (first := next(texts, None)) is not None:
            return _collect(chain([first], texts), (place,), reading, "text_files")
    if not is_named and not wanted.needs_text and any(sound_rows(folder)):
        return _collect(sound_rows(folder), (folder,), reading, "folder")
    if tables := parquet.files_in(folder):
        return _read_copied(folder, tables, parquet.rows_of_folder(folder, split), reading, "folder", split)
    archives = webdataset.files_in(folder, split)
    if archives and (not is_named or archives[0].name.startswith(split)):
        return _read_archives(folder, archives, reading, split)
    if plain := headerless.list_in(folder, _names_of(split), is_named=is_named):
        return _read_file(plain, reading, "folder")
    if is_named:
        for name in _names_of(split):
            if (folder / name).is_dir():
                return _read_folder(folder / name, reading)
        raise ManifestError(
            "The folder {folder} has no split {split!r}: there is no list, table, archive or folder of that "
            "name in it.",
            folder=folder,
            split=split,
        )
    if not any(sound_rows(folder)) and (bare := next(iter(files_below(folder, _WITHOUT_HEADER)), None)):
        raise ManifestError(
            "The recordings in {folder} have no header that tells their rate: make WAV files of them, mostly "
            "with {command}.",
            folder=folder,
            command=shlex.join([*_FROM_BARE, bare.name, bare.with_suffix(".wav").name]),
        )
    if not any(sound_rows(folder)):
        raise ManifestError("The folder {folder} has neither recordings nor a list of any.", folder=folder)
    raise ManifestError(
        "The folder {folder} has no metadata.csv, metadata.jsonl or other manifest: "
        "add one that names each audio file and its text, or a text file beside each (a.wav, a.txt).",
        folder=folder,
    )


def _read_archives(place: Path, archives: Sequence[Path], reading: _Reading, part: str = "all") -> Manifest:
    """Tar archives, one after the other, by a single copy of their clips."""
    rows = chain.from_iterable(map(webdataset.rows_of, archives))
    return _read_copied(place, archives, rows, reading, webdataset.FORMAT, part)


def _read_copied(
    place: Path,
    files: Sequence[Path],
    rows: Iterator[dict[str, Any]],
    reading: _Reading,
    format_name: str,
    part: str = "all",
) -> Manifest:
    """What is packed in files, by the copy that is made of it."""
    wanted = reading.wanted
    table = copy_local(place, files, rows, part, reading.max_rows, reading.copies, wanted)
    beside = (place if place.is_dir() else place.absolute().parent,)
    if wanted.within:
        within = (*wanted.within, *_within(table.parent, wanted).within)
        reading = replace(reading, wanted=replace(wanted, within=within))
    return _read_listed(read_copy(table), reading, format_name, beside)


def _names_of(split: str) -> list[str]:
    """What its list or its folder is called."""
    return list(dict.fromkeys((split, *SPLITS.get(split, ()))))


def _manifest_in(folder: Path, split: str, is_named: bool) -> Path | None:
    """The file named after the split, else the metadata of an audio folder, else the only manifest that is
    not named after another split.

    Where the split `is_named`, only a file that is named after it.
    """
    endings = (*LIST_ENDINGS, ".jsonl.gz")
    stems = _names_of(split)
    named = [f"{stem}{ending}" for stem in stems for ending in endings if ending != ".json"]
    named += [f"{stem}/{metadata}" for stem in stems for metadata in (*_METADATA, parquet.METADATA)]
    named += [] if is_named else [kaldi.RECORDINGS, *_METADATA, parquet.METADATA]
    named += [f"{stem}.json" for stem in stems]  # which may be settings
    for name in named:
        if (folder / name).is_file() and not text_files.is_text(folder / name):
            return folder / name
    if is_named:  # it may be a part of a list that tells of all
        return next((folder / name for name in gigaspeech.LISTS if (folder / name).is_file()), None)
    files = (path for path in folder.glob("[!.]*") if path.is_file() and not text_files.is_text(path))
    lists = sorted(path for path in files if path.name.lower().endswith(endings))
    if len(lists) > 1:
        raise ManifestError(
            "The folder {folder} has several manifests ({names}): name one of them.",
            folder=folder,
            names=", ".join(path.name for path in lists[:6]),
        )
    other = split_of(lists[0].name.partition(".")[0]) if lists else ""
    if other and other != split_of(split):
        raise ManifestError(
            "The folder {folder} has a list {name}, and none of the split {split!r}: name that file, or add "
            "the other.",
            folder=folder,
            name=lists[0].name,
            split=split,
        )
    return lists[0] if lists else None


def _collect(rows: Iterable[Row], folders: tuple[Path, ...], reading: _Reading, format_name: str) -> Manifest:
    source, wanted = reading.source, reading.wanted
    problems: list[RowProblem] = []
    places = Places(folders, wanted.within)

    def good() -> Iterator[Example]:
        """Rows that can be used; what is wrong with the others is noted on the way."""
        before = None
        for count, row in enumerate(rows):
            result = example_of(row, places, wanted)
            if isinstance(result, Example):
                before = _after(before, result)
                yield before
                continue
            problems.append(result)
            if len(problems) > max(_MOST_PROBLEMS, count / 2):
                raise ManifestError(
                    "{count} of the first rows of {source} cannot be used, most of them. Line {line}: "
                    "{reason}",
                    count=len(problems),
                    source=source,
                    line=result.line,
                    reason=result.reason,
                )

    examples = store(islice(good(), reading.max_rows), wanted.stored_in)
    if not examples:
        raise _nothing_usable(source, problems, format_name)
    return Manifest(source, format_name, examples, tuple(problems))


def _after(before: Example | None, example: Example) -> Example:
    """The example with the text of the slice of its recording that ends where it begins, if there is one."""
    if before is None or example.previous_text or example.audio_path != before.audio_path:
        return example
    end, start = before.end_seconds, example.start_seconds
    if end is None or start is None or not -_OVERLAP_SECONDS <= start - end <= _GAP_SECONDS:
        return example
    return replace(example, previous_text=before.text)


def _nothing_usable(source: str, problems: list[RowProblem], format_name: str) -> ManifestError:
    if not problems:
        return ManifestError("{source} has no rows.", source=source)
    if format_name == webdataset.FORMAT and all(row.reason == NO_TEXT for row in problems):
        return ManifestError(
            "No recording in {source} has its text beside it (a.wav, a.txt). Archives such as those of "
            "LibriSpeech and Common Voice are to be unpacked: name their folder.",
            source=source,
        )
    return ManifestError(
        "{source} has {count} rows, and none can be used. Line {line}: {reason}",
        count=len(problems),
        source=source,
        line=problems[0].line,
        reason=problems[0].reason,
    )
