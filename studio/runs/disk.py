"""What runs take on the disk, what is left of it, and how to get some back."""

import os
import shutil
from pathlib import Path

from studio.files import storage_errors
from studio.training.checkpoints import WRITING, best_checkpoint, last_checkpoint
from studio.training.run_dir import RunDir
from studio.units import GIB

LITTLE_SPACE_BYTES = 5 * GIB
"""Below this a run may not be able to save, and the disk is worth a word."""


def checkpoints_bytes(run: RunDir) -> int:
    """What a run's checkpoints take, and what it keeps so as not to compute it again."""
    return _size(run.checkpoints) + _size(run.cache)


def remove_checkpoints(run: RunDir, *, keep_last: bool) -> int:
    """Deletes checkpoints and gives back how many bytes they had; with `keep_last`, the best stays as well:
    a model may be made of it.

    Raises:
        StorageError: if one cannot be deleted.
    """
    freed = 0
    for folder in _removable(run, keep_last=keep_last):
        size = _size(folder)
        with storage_errors(folder):
            shutil.rmtree(folder)
        freed += size
    return freed


def removable_bytes(run: RunDir, *, keep_last: bool) -> int:
    """What `remove_checkpoints` would give back."""
    return sum(map(_size, _removable(run, keep_last=keep_last)))


def _removable(run: RunDir, *, keep_last: bool) -> list[Path]:
    last = last_checkpoint(run.checkpoints) if keep_last else None
    kept = {last, best_checkpoint(last)} if last else set()
    folders = (*run.checkpoints.glob("checkpoint-*"), run.checkpoints / WRITING, run.cache)
    return [folder for folder in folders if folder not in kept and folder.exists()]


def _size(folder: Path) -> int:
    """What is in a folder, in which a worker may be tidying up meanwhile: what has gone does not count."""
    total = 0
    for parent, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += Path(parent, name).stat().st_size
            except FileNotFoundError:
                continue
    return total
