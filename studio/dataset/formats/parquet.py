"""Parquet: one file, or a folder of files as a dataset of the Hub has them.

A value that stands in a file once may be in each of a million rows. It is unpacked for a few rows at a time.
What a file says of its columns is first looked at by another process: where it is damaged, pyarrow may abort
the process that asks.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from studio.dataset.cards import CARDS, require_own_files
from studio.dataset.copies import rows_of_dataset
from studio.errors import ManifestError
from studio.files import files_below
from studio.options.sources import PARQUET_ENDING
from studio.units import format_bytes

ENDING = PARQUET_ENDING
METADATA = f"metadata{ENDING}"
_LOOK_AT_COLUMNS = """
import io, sys
from pyarrow.parquet import read_metadata
found = read_metadata(io.BytesIO(sys.stdin.buffer.read()))
for group in map(found.row_group, range(found.num_row_groups)):
    for number in range(found.num_columns):
        group.column(number)
"""
_MOST_ROWS, _MOST_BYTES = 64, 2**24
"""Of rows that are unpacked together."""
LARGEST_ROW_BYTES = 2**28
"""A larger row is no clip."""
_TIGHTEST = 200
"""No speech and no text is packed so many times smaller than it is; what is small may be."""


def files_in(folder: Path) -> list[Path]:
    """The Parquet files in a folder and those below it."""
    return files_below(folder, (ENDING,))


def rows_of_file(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file.

    Raises:
        ManifestError: if it is packed tighter than speech is, or a row of it is too large.
    """
    files = {"train": [escape(str(path.absolute()))]}
    yield from rows_of_dataset(streamed("parquet", "train", data_files=files))


def rows_of_folder(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, told by the names of files and folders.

    Raises:
        ManifestError: if the folder's card names files elsewhere, or its path would be read as a pattern that
            other folders fit, too; or as `rows_of_file` does.
    """
    place = str(folder.resolve())
    if escape(place) != place:
        raise ManifestError(
            "The path of {folder} has one of the signs * ? [, which the reader of Parquet takes for a "
            "pattern: rename the folder.",
            folder=folder,
        )
    for card in (folder / name for name in CARDS):
        if card.is_file():
            require_own_files(card, str(card))
    yield from rows_of_dataset(streamed(place, split))


def streamed(source: str, split: str, name: str | None = None, **options: Any) -> Any:
    """An `IterableDataset` of the library, whose Parquet files are read a few rows at a time."""
    import datasets
    from datasets.packaged_modules.parquet.parquet import Parquet

    builder = datasets.load_dataset_builder(source, name, **options)
    if isinstance(builder, Parquet):

        def tables(
            files: Sequence[str], row_groups_list: Sequence[Sequence[int] | None]
        ) -> Iterator[tuple[tuple[int, int], Any]]:
            """In place of the library's own, which unpacks a group of rows as a whole."""
            for number, (file, groups) in enumerate(zip(files, row_groups_list, strict=True)):
                for part, table in enumerate(_tables(file, groups, builder.config.columns)):
                    yield (number, part), builder._cast_table(table)

        builder._generate_tables = tables
    return builder.as_streaming_dataset(split=split)


def _tables(path: str, groups: Sequence[int] | None, columns: list[str] | None) -> Iterator[Any]:
    """The rows of a file or of some of its groups, as tables that are small enough to be held in memory."""
    import pyarrow
    from datasets.utils.file_utils import xopen
    from pyarrow.parquet import ParquetFile

    with xopen(path, "rb") as stream:
        plain = ParquetFile(stream)
        _require_whole(path, stream)
        _require_speech(path, plain.metadata)
        kept, others = _kept_packed(plain.metadata)
        file = ParquetFile(stream, metadata=plain.metadata, read_dictionary=kept)
        batches = file.iter_batches(1 if others else _MOST_ROWS, row_groups=groups, columns=columns)
        for batch in batches:
            fits = sum(map(_unpacked_bytes, batch.columns)) <= _MOST_BYTES
            step = max(batch.num_rows, 1) if fits else 1
            for start in range(0, batch.num_rows, step):
                rows = batch.slice(start, step)
                if not fits and sum(map(_unpacked_bytes, rows.columns)) > LARGEST_ROW_BYTES:
                    raise ManifestError(
                        "{path} has a row of more than {size}, which is no clip.",
                        path=path,
                        size=format_bytes(LARGEST_ROW_BYTES),
                    )
                names = rows.schema.names
                schema = pyarrow.schema([plain.schema_arrow.field(name) for name in names])
                yield pyarrow.Table.from_batches([rows]).cast(schema)


def _require_whole(path: str, stream: Any) -> None:
    """Refuses a file whose columns cannot be asked for; moves in `stream`."""
    start = stream.seek(-8, os.SEEK_END)  # the length of what it says of itself, and "PAR1"
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(start - size)
    footer = b"PAR1" + stream.read(size + 8)
    looked = subprocess.run(
        [sys.executable, "-I", "-c", _LOOK_AT_COLUMNS], input=footer, capture_output=True, check=False
    )
    if looked.returncode:
        raise ManifestError("{path} is damaged: what it says of its columns cannot be read.", path=path)


def _require_speech(path: str, metadata: Any) -> None:
    """Refuses a file that says of itself that it fills memory; of a list, each value counts."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        packed = unpacked = 0
        for number in range(metadata.num_columns):
            chunk = group.column(number)
            is_list = metadata.schema.column(number).max_repetition_level > 0
            packed += chunk.total_compressed_size
            unpacked += max(chunk.total_uncompressed_size, 8 * chunk.num_values * is_list)
        if unpacked > max(LARGEST_ROW_BYTES, _TIGHTEST * packed):
            raise ManifestError(
                "{path} holds {size} in {packed}, which is packed tighter than speech is.",
                path=path,
                size=format_bytes(unpacked),
                packed=format_bytes(packed),
            )


def _kept_packed(metadata: Any) -> tuple[list[str], bool]:
    """The columns of text and bytes that can be read without repeating what repeats; whether some cannot."""
    chunks: dict[str, set[str]] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(metadata.num_columns)):
            if chunk.physical_type == "BYTE_ARRAY":
                chunks.setdefault(chunk.path_in_schema, set()).update(chunk.encodings)
    kept = [path for path, used in chunks.items() if not any(one.startswith("DELTA") for one in used)]
    return kept, len(kept) < len(chunks)


def _unpacked_bytes(array: Any) -> int:
    """What an array takes where nothing that repeats is kept once."""
    import pyarrow.compute as compute
    from pyarrow import types

    if types.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if types.is_struct(array.type):
        return sum(map(_unpacked_bytes, array.flatten()))
    return _unpacked_bytes(array.flatten()) if types.is_nested(array.type) else int(array.nbytes)
