"""What a frozen encoder makes of each clip: computed in the first epoch, kept on disk for the others."""

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from studio.files import free_bytes, storage_errors
from studio.options.training import TrainingConfig
from studio.training.data.clips import Clip
from studio.training.schedule import Schedule
from studio.units import GIB, format_bytes

_LEFT_FREE_BYTES = 2 * GIB
"""Of the disk: checkpoints need some."""
_NAME = "states"
log = logging.getLogger("studio.training")


class EncoderStates:
    """States of clips, (positions, d_model), a file each; what another process writes is seen, too."""

    def __init__(self, folder: Path, base: Path, dtype: str) -> None:
        """Within `folder`, those of other weights (files in `base`) or another arithmetic lie apart."""
        found = [(file.name, file.stat()) for file in sorted(base.glob("*.safetensors"))]
        weights = [(name, status.st_size, status.st_mtime_ns) for name, status in found]
        made_of = hashlib.blake2b(repr((str(base), weights, dtype)).encode(), digest_size=8)
        self._folder = folder / f"encoder-{made_of.hexdigest()}"
        self._is_full = False

    def __call__(self, clips: Sequence[Clip]) -> torch.Tensor | None:
        """Those of a batch, (clips, positions, d_model), as they were computed; None where one is missing.

        A file that was cut short, as a power failure leaves it, goes: what was in it is computed again.
        """
        rows = []
        for file in map(self._file, clips):
            try:
                rows.append(load_file(file)[_NAME])
            except (FileNotFoundError, SafetensorError, KeyError):
                file.unlink(missing_ok=True)
                return None
        return torch.stack(rows)

    def keep(self, clips: Sequence[Clip], states: torch.Tensor) -> None:
        """Writes those of a batch, (clips, positions, d_model), unless the disk is nearly full.

        Raises:
            StorageError: if they cannot be written.
        """
        if self._is_full or not self._has_room(states.nbytes):
            return
        with storage_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for clip, rows in zip(clips, states.cpu(), strict=True):
                file = self._file(clip)
                aside = file.with_suffix(f".{os.getpid()}")
                save_file({_NAME: rows.contiguous()}, aside)
                aside.replace(file)

    def _has_room(self, size_bytes: int) -> bool:
        self._is_full = free_bytes(self._folder) < size_bytes + _LEFT_FREE_BYTES
        if self._is_full:
            log.info("The disk has less than %s left: no more is kept.", format_bytes(_LEFT_FREE_BYTES))
        return not self._is_full

    def _file(self, clip: Clip) -> Path:
        parts = clip.example.parts or (clip.example,)
        rows = [
            (str(part.audio_path), part.audio_bytes, part.start_seconds, part.end_seconds) for part in parts
        ]
        name = hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()
        return self._folder / f"{name}.safetensors"


def repeats_itself(config: TrainingConfig, schedule: Schedule, *, is_short: bool) -> bool:
    """Whether a run's encoder would compute the same again: it is frozen, sees whole windows and clips that
    never change, and each of them more than once.
    """
    return (
        config.may_keep_encoder_states
        and not config.training_method.trains_encoder
        and not is_short
        and schedule.max_steps > schedule.steps_per_epoch
    )
