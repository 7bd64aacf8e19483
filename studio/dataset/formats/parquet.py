"""Parquet: one file, or a folder of files as a dataset of the Hub has them."""

from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any

from studio.dataset.cards import CARDS, require_own_files
from studio.dataset.copies import rows_of_dataset
from studio.options.sources import PARQUET_ENDING

ENDING = PARQUET_ENDING
METADATA = f"metadata{ENDING}"


def files_in(folder: Path) -> list[Path]:
    """The Parquet files in a folder and those below it."""
    return sorted(folder.rglob(f"*{ENDING}"))


def rows_of_file(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file."""
    import datasets

    files = {"train": [escape(str(path.absolute()))]}
    yield from rows_of_dataset(
        datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    )


def rows_of_folder(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, told by the names of files and folders.

    Raises:
        ManifestError: if the folder's card names files elsewhere.
    """
    import datasets

    for card in (folder / name for name in CARDS):
        if card.is_file():
            require_own_files(card, str(card))
    yield from rows_of_dataset(datasets.load_dataset(str(folder.resolve()), split=split, streaming=True))
