"""What can be told of a clip by going through its samples once: length, loudness, clipping, identity."""

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from studio.dataset.audio import require_sound
from studio.dataset.declared import fault_of
from studio.dataset.decoders import open_sound
from studio.dataset.example import Example
from studio.errors import AudioError
from studio.messages import Message

_FULL_SCALE = 0.999
"""Samples from here on are as loud as the format can hold."""


@dataclass(frozen=True)
class ClipLevels:
    """What the samples of a clip say."""

    duration_seconds: float
    rms_db: float
    """Loudness below full scale; minus infinity for digital silence."""
    clipped_share: float
    """Share of the samples that are as loud as the format can hold."""
    fingerprint: bytes
    """The same for the same samples, whatever lossless file they are in."""
    fault: Message | None = None
    """What is missing of it, if its file has less than it declares."""


def listen(example: Example) -> ClipLevels:
    """Goes through a clip in blocks, at the file's own rate; what was heard is remembered for a while.

    Raises:
        AudioError: if the file cannot be decoded, has no sound where the clip is, or its samples are none.
    """
    try:
        status = example.audio_path.stat()
        state = (status.st_size, status.st_mtime_ns)
    except (OSError, ValueError):
        state = (0, 0)  # opening it says why
    return _listened(example.audio_path, example.start_seconds or 0.0, example.end_seconds, state)


@lru_cache(maxsize=4096)
def _listened(path: Path, start: float, end: float | None, _state: tuple[int, int]) -> ClipLevels:
    """A file in another state is another one."""
    count, clipped = 0, 0
    energy = 0.0
    digest = hashlib.blake2b(digest_size=16)
    with open_sound(path) as sound:
        for block in sound.blocks(start, end):
            require_sound(block, path)
            count += len(block)
            energy += float(np.dot(block, block))
            clipped += int(np.count_nonzero(np.abs(block) >= _FULL_SCALE))
            digest.update(block.tobytes())
        rate = sound.rate
        fault = fault_of(sound.declared, count / rate, start, end)
    if not count:
        raise AudioError("{path} has no sound where the clip is.", path=path)
    rms_db = 10 * math.log10(energy / count) if energy else -math.inf
    return ClipLevels(count / rate, rms_db, clipped / count, digest.digest(), fault)
