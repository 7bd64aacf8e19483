"""Sound files to what Whisper hears: mono float32 at 16 kHz."""

import errno
import io
import math
import os
import uuid
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.declared import fault_of
from studio.dataset.decoders import open_sound
from studio.errors import AudioError
from studio.files import storage_errors
from studio.messages import Message
from studio.units import duration_message

SAMPLING_RATE = 16_000
"""Samples a second that Whisper takes."""
VIDEO_FILES = (".mp4", ".mkv", ".mov", ".webm")
SOUND_FILES = (".wav", ".mp3", ".m4a", ".flac", ".ogg", ".opus", ".aac", ".sph", ".wv1", *VIDEO_FILES)
"""Endings of the files that are taken from a folder; of a video, its sound."""
OnFault = Callable[[Message], None]
"""Told what is missing of a file that was read to its end."""
_MOST_CHANNELS = 8
_UNDOUBTED_SECONDS = 60.0
"""What is read whole was thought short by its header: one of hours that says a second is stopped here."""
_MOST_WHOLE_SECONDS = 4 * 3600.0
"""A clip that is read whole: 0.9 GB of samples."""
_LOUDEST = 32.0
"""Peak of float samples, 30 dB above full scale: what is louder was never scaled."""


def read_audio(
    path: str | Path,
    start_seconds: float | None = None,
    end_seconds: float | None = None,
    most_seconds: float = math.inf,
    on_fault: OnFault | None = None,
) -> NDArray[np.float32]:
    """A whole sound file, or the part from `start_seconds` to `end_seconds`, as mono at 16 kHz, (samples,).

    Only the part asked for is decoded, where the format can be wound forward. `on_fault` is told if there is
    less of it than the file's header says.

    Raises:
        AudioError: if the file is missing, empty, not sound, has no sample (there), or one that is no number;
            if it is far longer than its header says, or than anything that is read whole, or has more than
            `most_seconds`.
    """
    pieces: list[NDArray[np.float32]] = []
    held, told = 0.0, math.inf
    for piece in _resampled(Path(path), start_seconds or 0.0, end_seconds, on_fault):
        pieces.append(piece)
        held += len(piece) / SAMPLING_RATE
        if held > most_seconds:
            raise too_long(path, most_seconds)
        if held > _MOST_WHOLE_SECONDS:
            raise AudioError(
                "{path} is longer than {most}, too long for a clip: cut it.",
                path=path,
                most=duration_message(_MOST_WHOLE_SECONDS),
            )
        if end_seconds is None and held > _UNDOUBTED_SECONDS:
            told = audio_duration(path) if math.isinf(told) else told
            if held > 1.1 * told + _UNDOUBTED_SECONDS:
                raise AudioError(
                    "{path} says that it lasts {told:.1f} s, and goes on: convert it to WAV or FLAC.",
                    path=path,
                    told=told,
                )
    return np.concatenate(pieces)


def stream_audio(
    path: str | Path,
    block_seconds: float = 30.0,
    most_seconds: float = math.inf,
    on_fault: OnFault | None = None,
) -> Iterator[NDArray[np.float32]]:
    """The same samples as `read_audio`, in blocks of `block_seconds` (the last may be shorter).

    Never more than a few blocks are in memory, however long the file is. `on_fault` is told at the end.

    Raises:
        AudioError: as `read_audio`, when the faulty place is reached; before `most_seconds` are passed,
            whatever the file says of its length.
    """
    size = max(1, round(block_seconds * SAMPLING_RATE))
    pieces: list[NDArray[np.float32]] = []
    held, left = 0, most_seconds * SAMPLING_RATE
    for piece in _resampled(Path(path), 0.0, None, on_fault):
        left -= len(piece)
        if left < 0:
            raise too_long(path, most_seconds)
        pieces.append(piece)
        held += len(piece)
        if held < size:
            continue
        joined = np.concatenate(pieces)
        whole = held - held % size
        yield from np.split(joined[:whole], whole // size)
        pieces, held = [joined[whole:].copy()], held - whole
    if held:
        yield np.concatenate(pieces)


class _Written(io.FileIO):
    """Remembers a full disk, of which libsndfile says nothing: it would leave a FLAC that is cut off."""

    _error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """All of it, or none."""
        try:
            if (written := super().write(data) or 0) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._error, written = error, 0
        return written

    def require_room(self) -> None:
        """Raises what could not be raised through libsndfile."""
        if self._error is not None:
            raise self._error


def save_sound(path: Path, target: Path, most_seconds: float = math.inf) -> Path:
    """The sound of a file of any kind, such as a video, as a FLAC that every browser plays; mono at 16 kHz.

    Raises:
        AudioError: as `read_audio`; if there is more of it than `most_seconds`.
        StorageError: if the folder cannot be written.
    """
    import soundfile

    aside = target.with_name(f".{uuid.uuid4().hex}.flac")
    try:
        with storage_errors(target.parent), _Written(aside, "wb+") as kept:
            try:
                with soundfile.SoundFile(kept, "w", SAMPLING_RATE, 1, format="FLAC") as file:
                    for block in stream_audio(path, most_seconds=most_seconds):
                        file.write(block)
                        kept.require_room()
            finally:
                kept.require_room()
        with storage_errors(target):
            aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def too_long(path: str | Path, most_seconds: float) -> AudioError:
    """The error for a recording that is longer than what is taken here."""
    return AudioError(
        "{path} is too long: here a recording may last {most}. Cut it, or run the studio on your own "
        "machine, where there is no such limit.",
        path=path,
        most=duration_message(most_seconds),
    )


def audio_duration(path: str | Path) -> float:
    """Length of a sound file in seconds, from its header.

    Raises:
        AudioError: if the file is missing, empty, not sound, or 0 s long.
    """
    with open_sound(Path(path)) as sound:
        duration = sound.duration_seconds
    if duration <= 0:
        raise _no_sound(Path(path))
    return duration


@lru_cache(maxsize=1024)
def file_seconds(path: Path, _size_bytes: int) -> float:
    """`audio_duration`, remembered: many clips lie in one recording. One of another size is another file.

    Raises:
        AudioError: as `audio_duration`.
    """
    return audio_duration(path)


def require_sound(block: NDArray[np.float32], path: Path) -> None:
    """Raises AudioError: if samples are no numbers, or far louder than sound can be."""
    peak = float(np.abs(block).max(initial=0.0))  # NaN if there is one
    if not np.isfinite(peak):
        raise AudioError(
            "{path} has samples that are no numbers (NaN or infinity): export it again.", path=path
        )
    if peak > _LOUDEST:
        raise AudioError(
            "{path} has samples as large as {peak:.0f}, where sound lies between -1 and 1: divide "
            "them by 32768 if they were whole numbers, or export it again.",
            path=path,
            peak=peak,
        )


def save_pcm(samples: NDArray[np.generic], sampling_rate: int, path: str | Path) -> Path:
    """Writes samples, as a microphone gives them, to a 16-bit FLAC or WAV file (by the ending of `path`).

    `samples` is (samples,) or (samples, channels): whole numbers of any width at their full scale, or floats
    between -1 and 1. The file is there whole or not at all.

    Raises:
        AudioError: if there is no sample, one is no number, or the shape or rate is not that of sound.
        StorageError: if the folder cannot be written.
    """
    import soundfile

    target = Path(path)
    if samples.ndim not in (1, 2) or (samples.ndim == 2 and not 1 <= samples.shape[1] <= _MOST_CHANNELS):
        raise AudioError(
            "The recording has the shape {shape}: one row a sample and at most {most} channels are accepted.",
            shape=samples.shape,
            most=_MOST_CHANNELS,
        )
    if not len(samples):
        raise AudioError("The recording is empty: record or choose a file, then try again.")
    if not 1 <= sampling_rate <= 655_350:
        raise AudioError("The recording has the invalid sampling rate {rate} Hz.", rate=sampling_rate)
    data = _full_scale(samples)
    aside = target.with_name(f".{target.stem}.part{target.suffix}")
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            sound = io.BytesIO()
            soundfile.write(sound, data, sampling_rate, subtype="PCM_16", format=target.suffix[1:].upper())
            # A copy: with a view of it, Python 3.12 can crash where the disk is full (garbage collection).
            # By itself, libsndfile says nothing of a full disk.
            aside.write_bytes(sound.getvalue())
            aside.replace(target)
        except soundfile.LibsndfileError as error:
            raise OSError(str(error)) from error
        finally:
            aside.unlink(missing_ok=True)
    return target


def _full_scale(samples: NDArray[np.generic]) -> NDArray[np.float32] | NDArray[np.int16]:
    if samples.dtype == np.int16:
        return samples.astype(np.int16, copy=False)
    if samples.dtype.kind in "iu":
        limits = np.iinfo(str(samples.dtype))
        middle = 0 if samples.dtype.kind == "i" else (limits.max + 1) // 2
        scaled = (samples.astype(np.float64) - middle) / float(limits.max - middle)
        return np.clip(scaled, -1.0, 1.0).astype(np.float32)
    floats = samples.astype(np.float32)
    if not np.isfinite(floats).all():
        raise AudioError("The recording has samples that are no numbers (NaN or infinity): record it again.")
    return np.clip(floats, -1.0, 1.0)


def _resampled(
    path: Path, start_seconds: float, end_seconds: float | None, on_fault: OnFault | None
) -> Iterator[NDArray[np.float32]]:
    import soxr

    resampler = None
    is_empty = True
    decoded = length = 0
    with open_sound(path) as sound:
        for block in sound.blocks(start_seconds, end_seconds):
            require_sound(block, path)
            is_empty = False
            decoded += len(block)
            if sound.rate == SAMPLING_RATE:
                yield block
                continue
            if resampler is None:
                resampler = soxr.ResampleStream(sound.rate, SAMPLING_RATE, 1, dtype="float32")
            piece = resampler.resample_chunk(block)
            length += len(piece)
            yield piece
        if is_empty and (start_seconds or end_seconds is not None):
            raise AudioError(
                "{path} is {duration:.2f} s long: there is no sound from {start:.2f} s to {end}.",
                path=path,
                duration=sound.duration_seconds,
                start=start_seconds,
                end=Message("its end")
                if end_seconds is None
                else Message("{seconds:.2f} s", seconds=end_seconds),
            )
        declared = None if on_fault is None else sound.declared
    if is_empty:
        raise _no_sound(path)
    if on_fault and (fault := fault_of(declared, decoded / sound.rate, start_seconds, end_seconds)):
        on_fault(fault)
    if resampler is not None:
        rest = resampler.resample_chunk(np.zeros(0, np.float32), last=True)
        if not length + len(rest):
            raise _no_sound(path)
        yield rest


def _no_sound(path: Path) -> AudioError:
    return AudioError("{path} is 0 s long: there is no sound in it.", path=path)
