"""The trainer's checkpoints as folders: which are whole, which is the last, what they say of themselves."""

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

from studio.errors import ModelBrokenError
from studio.files import read_json
from studio.registry.tensors import read_shapes

STATE_FILE = "trainer_state.json"
_FILES = ("optimizer*", "scheduler.pt", "rng_state*.pth", STATE_FILE)
"""Several processes have a random state each; sharded states of an optimizer are a folder."""
WRITING = ".writing"
"""Beside the checkpoints, for the one being written; what a killed worker left there is none."""
_WEIGHTS = ("adapter_model.safetensors", "model.safetensors", "model.safetensors.index.json")


def complete_checkpoints(checkpoints: Path) -> list[Path]:
    """By step; those whose writing was cut off are passed over."""
    found = []
    for folder in checkpoints.glob("checkpoint-*"):
        number = folder.name.rpartition("-")[2]
        if number.isdecimal() and _is_complete(folder):
            found.append((int(number), folder))
    return [folder for _, folder in sorted(found)]


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The latest that is complete."""
    found = complete_checkpoints(checkpoints)
    return found[-1] if found else None


def step_of(checkpoint: Path | None) -> int:
    """The optimizer steps done at a checkpoint; 0 without one."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def best_checkpoint(last: Path) -> Path:
    """The best when the last was written: itself where none was evaluated."""
    best = (_state(last) or {}).get("best_global_step") or step_of(last)
    return last.with_name(f"checkpoint-{best}")


def has_evaluated(checkpoint: Path) -> bool:
    """Whether the evaluation of that very step is recorded in it."""
    state = _state(checkpoint) or {}
    rows = state.get("log_history", [])
    return any(row.get("step") == state["global_step"] and "eval_wer" in row for row in rows)


def put_in_place(written: Path, place: Path) -> None:
    """Renames a checkpoint that is written whole, and on the disk, to `place`; one that is there goes.

    Raises:
        OSError: if the disk does not take it.
    """
    for path in (*written.rglob("*"), written):
        _flush(path)
    if place.exists():
        shutil.rmtree(place)
    written.rename(place)
    _flush(place.parent)


def _flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders, and writes their names at once
        return
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_complete(folder: Path) -> bool:
    """The trainer writes its state last, after weights and optimizer; a disk may have lost a part since.

    A trainer that is at work may remove it meanwhile.
    """
    try:
        if not all(any(folder.glob(name)) for name in _FILES):
            return False
        if not any((folder / name).is_file() for name in _WEIGHTS) or _state(folder) is None:
            return False
        return all(_is_whole(path) for path in folder.iterdir())
    except FileNotFoundError:
        return False


def _is_whole(path: Path) -> bool:
    """Whether a file ends where it says: tensors by their header, what torch wrote as the archive it is."""
    try:
        if path.suffix == ".safetensors":
            read_shapes(path)
        return path.suffix not in (".pt", ".pth") or zipfile.is_zipfile(path)
    except (ModelBrokenError, OSError):
        return False


def _state(folder: Path) -> dict[str, Any] | None:
    try:
        state = read_json(folder / STATE_FILE)
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "global_step" in state else None
