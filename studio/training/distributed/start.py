"""Where an attempt begins, in all processes alike: at the first step, or at the last checkpoint."""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from studio.files import storage_errors
from studio.options.arguments import config_to_dict
from studio.options.training import FIELDS, TrainingConfig
from studio.training.checkpoints import has_evaluated, last_checkpoint, step_of
from studio.training.distributed.world import World
from studio.training.record import evaluations
from studio.training.run_dir import RunDir
from studio.training.schedule import Schedule

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


@dataclass(frozen=True)
class Start:
    """As the main process found it."""

    checkpoint: Path | None
    step: int
    is_evaluated: bool
    """Whether that step's evaluation is done; at step 0, the base's."""

    @classmethod
    def of(cls, run: RunDir, world: World) -> "Start":
        """Looks for the last checkpoint; a machine that lacks it gets a copy."""
        found: dict[str, Any] = {}
        if world.is_main:
            checkpoint = last_checkpoint(run.checkpoints)
            found["step"] = step_of(checkpoint)
            found["is_evaluated"] = has_evaluated(checkpoint) if checkpoint else 0 in evaluations(run)
            found["name"] = checkpoint.name if checkpoint else ""
        found = world.share(found)
        folder = run.checkpoints / found["name"] if found["name"] else None
        if folder is not None:
            hand_out(world, folder)
        return cls(folder, found["step"], found["is_evaluated"])

    def evaluates_first(self, config: TrainingConfig, schedule: Schedule) -> bool:
        """Whether an evaluation is owed before the next step."""
        if self.checkpoint is None:
            is_wanted = config.eval_on_start and config.evaluates
        else:
            is_wanted = schedule.evaluates_at(self.step, config)
        return is_wanted and not self.is_evaluated


def shared_options(config: TrainingConfig) -> dict[str, Any]:
    """What must be the same in all processes of a run; the clips are compared once they are read."""
    values = config_to_dict(config)
    return {name: values[name] for name, option in FIELDS.items() if not option.metadata["of_machine"]}
