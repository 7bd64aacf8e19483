"""A checkpoint for machines that lack it: the main process has it; one may be new, or have a new disk."""

import logging
import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist

from studio.files import storage_errors
from studio.training.world import World

_PIECE_BYTES = 16 * 1024**2
log = logging.getLogger("studio.training")


def hand_out(world: World, folder: Path) -> None:
    """Copies the main process's `folder` to every machine where it is not the same; where the disk is shared,
    or there is one machine, it is there already.

    Raises:
        StorageError: if it cannot be written.
    """
    if world.size == 1:
        return
    wanted: dict[str, int] = world.share(_listing(folder))
    # Random states belong to their machines: a process writes its own beside what the main process wrote.
    there = _listing(folder)
    is_missing = any(there.get(name) != size for name, size in wanted.items())
    if not world.any(is_missing):
        return
    log.info("The checkpoint %s goes to the machines that lack it.", folder.name)
    writes = is_missing and world.is_first_here
    aside = folder.with_name(f".{folder.name}.new")
    if writes:
        shutil.rmtree(aside, ignore_errors=True)
    for name, size in wanted.items():
        _send(world, folder / name, size, aside / name if writes else None)
    if writes:
        with storage_errors(folder):
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
    world.any(False)  # until everybody has it


def _listing(folder: Path) -> dict[str, int]:
    """Files and their sizes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _send(world: World, source: Path, size: int, target: Path | None) -> None:
    """One file, from the main process, piece by piece; this process writes it to `target`, if to anything."""
    sink = Path(os.devnull) if target is None else target
    with storage_errors(sink):
        sink.parent.mkdir(parents=True, exist_ok=True)
        reader = source.open("rb") if world.is_main else None
        try:
            with sink.open("wb") as writer:
                for start in range(0, size, _PIECE_BYTES):
                    piece = torch.zeros(min(_PIECE_BYTES, size - start), dtype=torch.uint8)
                    if reader is not None:
                        piece = torch.frombuffer(bytearray(reader.read(len(piece))), dtype=torch.uint8)
                    dist.broadcast(piece, src=0, group=world.group)
                    writer.write(piece.numpy().tobytes())
        finally:
            if reader is not None:
                reader.close()
