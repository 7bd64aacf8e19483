"""Parquet: one file, or a folder of files as a dataset of the Hub has them."""

from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any

from studio.dataset.copies import rows_of_dataset
from studio.errors import ManifestError
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

    _refuse_addresses(folder)
    yield from rows_of_dataset(datasets.load_dataset(str(folder.resolve()), split=split, streaming=True))


def _refuse_addresses(folder: Path) -> None:
    """The library would fetch what the folder's card or its `.huggingface.yaml` names."""
    import yaml
    from huggingface_hub.repocard import metadata_load

    for path in (folder / "README.md", folder / ".huggingface.yaml"):
        if not path.is_file():
            continue
        try:
            told = metadata_load(path) if path.suffix == ".md" else yaml.safe_load(path.read_bytes())
        except (yaml.YAMLError, ValueError):
            continue  # the library says what is wrong with it
        if isinstance(told, dict) and "://" in str(told.get("configs")):
            raise ManifestError(
                "{path} names files at other addresses, and nothing is fetched: download them into the "
                "folder.",
                path=path,
            )
