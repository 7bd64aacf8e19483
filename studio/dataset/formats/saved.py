"""Folders that `save_to_disk` of the library `datasets` has written: one dataset, or a folder a split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from studio.dataset.cards import files_elsewhere
from studio.dataset.copies import rows_of_dataset
from studio.errors import ManifestError
from studio.files import read_json

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def is_one(folder: Path) -> bool:
    """Whether a folder was written so."""
    return is_whole(folder) or (folder / _SPLITS).is_file()


def is_whole(folder: Path) -> bool:
    """Whether it is a dataset without splits."""
    return (folder / _STATE).is_file() and (folder / _INFO).is_file()


def part_of(folder: Path, split: str) -> Path:
    """The folder of a split; the folder itself if it is a dataset without splits.

    Raises:
        ManifestError: if there is no such split.
    """
    for part in (folder, folder / split):
        if is_whole(part):
            return part
    splits = sorted(path.parent.name for path in folder.glob(f"*/{_STATE}"))
    raise ManifestError(
        "The dataset {folder} has no split {split!r}, it has {splits}: name the folder of one of them.",
        folder=folder,
        split=split,
        splits=", ".join(splits) or "none",
    )


def files_in(folder: Path) -> list[Path]:
    """What a dataset is made of."""
    return sorted(path for path in folder.iterdir() if path.is_file())


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of a dataset without splits.

    Raises:
        ManifestError: if it has its rows from files elsewhere.
    """
    import datasets

    state = folder / _STATE
    names = [str(file["filename"]) for file in read_json(state)["_data_files"]]
    if any(Path(name).name != name for name in names):
        raise files_elsewhere(str(state))
    data = datasets.Dataset.load_from_disk(str(folder.absolute())).with_format(None)
    yield from rows_of_dataset(data.to_iterable_dataset())
