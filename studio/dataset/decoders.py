"""Opening sound files: libsndfile for what it knows, PyAV's own FFmpeg for the rest (M4A, WebM, …).

Both give the same: a rate, a length, and mono float32 blocks at the file's own rate. Neither needs a program
on the path.
"""

import math
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from studio.dataset.declared import Declared, is_mp3_cut_off, is_ogg_cut_off, wav_length
from studio.errors import AudioError
from studio.files import in_unicode, is_unicode

BLOCK_SECONDS = 10.0
"""How much is decoded at a time."""
_LEAD_SAMPLES = 11_520
"""Ten frames of MP3: after a seek its first five are silent."""
_SEEK_MARGIN_SECONDS = 0.2
"""Compressed sound needs the packets before a point to be right at that point."""
_CANCELLED = 1e-3
"""Share of the loudest channel's power that a mean must keep: of eight channels with one voice it keeps
0.016, of two that were wired against each other nothing."""
_UNTOLD_FRAMES = (0, 2**63 - 1)
"""What libsndfile says of a header without a length: a WAV whose recorder was killed, a piped FLAC."""

_SAMPLE_BYTES = {"PCM_S8": 1, "PCM_16": 2, "PCM_24": 3}
_LEAST_PACKED = 32_768
"""Bytes by which a FLAC may be larger than its samples."""
_LEAST_BEHIND = 4096
"""Bytes of sound, an eighth of a second; fewer are what some programs leave behind the last chunk."""
_LEAST_RATE, _MOST_RATE = 4_000, 768_000
_GAP_SECONDS = 0.01
"""Between two frames of a FLAC that follow each other there is none."""
_DEMUXERS = (
    "mov,matroska,mp3,ogg,flac,wav,w64,aac,aiff,asf,avi,amr,caf,mpegts,mpeg,flv,ac3,eac3,wv,ape,au,tta"
)
"""Formats that FFmpeg may see in a file. Not playlists: they could name other files or addresses."""


class Sound(Protocol):
    """An open sound file."""

    rate: int
    """Samples a second in the file."""

    @property
    def duration_seconds(self) -> float:
        """Length as the header has it (counted where the header has none)."""
        ...

    @property
    def declared(self) -> Declared | None:
        """Length as the header has it, where that is no guess, whatever there is of it."""
        ...

    def blocks(self, start_seconds: float, end_seconds: float | None) -> Iterator[NDArray[np.float32]]:
        """Mono blocks (samples,) at `rate`, from start to end (None: to the end of the file)."""
        ...


@contextmanager
def open_sound(path: Path) -> Iterator[Sound]:
    """Opens a sound file of any kind.

    Raises:
        AudioError: if it is missing, a folder, empty, not to be read, or not sound.
    """
    check_file(path)
    import soundfile

    try:
        file = soundfile.SoundFile(path)
    except (soundfile.LibsndfileError, TypeError):  # TypeError: a .raw file has no header to tell its rate
        file = None
    if file is not None and file.samplerate > 0 and file.frames not in _UNTOLD_FRAMES:
        with file:
            if not _holds_more(path, file):
                _require_rate(path, file.samplerate)
                yield _SndFileSound(path, file)
                return
    with _open_container(path) as container:
        _require_rate(path, container.streams.audio[0].codec_context.sample_rate)
        yield _ContainerSound(path, container)


def _holds_more(path: Path, file: Any) -> bool:
    """Whether there is sound behind what a header promises: of a recorder that was killed between two writes
    of the length, or of a WAV above 4 GB, whose length does not fit into its field.
    """
    if file.format == "FLAC":  # it is packed: hardly ever larger than its samples
        raw = int(file.frames) * int(file.channels) * _SAMPLE_BYTES.get(file.subtype, 4)
        return path.stat().st_size - _begin_of_flac(path) > 1.1 * raw + _LEAST_PACKED
    return file.format in ("WAV", "WAVEX") and _goes_on_behind_its_data(path)


def _begin_of_flac(path: Path) -> int:
    """Where the sound begins, behind tags and pictures; 0 where something stands before the file's name."""
    with path.open("rb") as file:
        place, is_last = 4, file.read(4) != b"fLaC"
        if is_last:
            return 0
        while not is_last and len(head := file.read(4)) == 4:
            is_last = head[0] >= 128
            place += 4 + int.from_bytes(head[1:], "big")
            file.seek(place)
    return place


def _goes_on_behind_its_data(path: Path) -> bool:
    """Whether a WAV's data are followed by what is no chunk of a name and a length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        place = 12
        while place + 8 <= size:
            file.seek(place)
            name, length = file.read(4), int.from_bytes(file.read(4), "little")
            is_chunk = all(32 <= letter < 127 for letter in name) and place + 8 + length <= size + 1
            if not is_chunk:
                return size - place > _LEAST_BEHIND
            place += 8 + length + length % 2
    return False


def _require_rate(path: Path, rate: int) -> None:
    """Of speech, less than 4 kHz leaves nothing; and a few kilobytes at 1 Hz would become gigabytes."""
    if not _LEAST_RATE <= rate <= _MOST_RATE:
        raise AudioError(
            "{path} has {rate} samples a second, where {least} to {most} can be read: export it again.",
            path=path,
            rate=rate,
            least=_LEAST_RATE,
            most=_MOST_RATE,
        )


def check_file(path: Path) -> None:
    """Looks whether there is a file that may be read, without opening it.

    Raises:
        AudioError: if there is none.
    """
    if not is_unicode(str(path)):  # neither libsndfile nor FFmpeg is given it, nor is it written to a file
        raise AudioError(
            "{path} cannot be read: its name or that of its folder is not UTF-8. Rename it.",
            path=in_unicode(path),
        )
    try:
        status = path.stat()
    except PermissionError as error:
        raise AudioError("No permission to read {path}.", path=path) from error
    except (OSError, ValueError) as error:
        raise AudioError("There is no audio file {path}.", path=path) from error
    if stat.S_ISDIR(status.st_mode):
        raise AudioError("{path} is a folder, where one audio file is needed.", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise AudioError("{path} is not a file.", path=path)
    if status.st_size == 0:
        raise AudioError("{path} is an empty file.", path=path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise AudioError("No permission to read {path}.", path=path) from error


class _SndFileSound:
    """What libsndfile opened: WAV, FLAC, OGG, Opus, MP3, AIFF, …"""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self.rate: int = file.samplerate

    @property
    def duration_seconds(self) -> float:
        """Length of the whole sound, as the file says."""
        return float(self._file.frames / self.rate)

    @property
    def declared(self) -> Declared | None:
        """Of FLAC, WAV, and an MP3 or Ogg that is shorter than its table of contents, or its last page."""
        if self._file.format == "FLAC":
            return Declared(self.duration_seconds, is_counted=True)
        if self._file.format in ("WAV", "WAVEX"):  # libsndfile tells what is there, not what was promised
            return wav_length(self._path)
        if self._file.format == "OGG" and is_ogg_cut_off(self._path):
            return Declared(math.inf)
        is_cut_off = self._file.format == "MP3" and is_mp3_cut_off(self._path)
        return Declared(self.duration_seconds) if is_cut_off else None

    def blocks(self, start_seconds: float, end_seconds: float | None) -> Iterator[NDArray[np.float32]]:
        """Mono blocks (samples,) at `rate`, from start to end (None: to the end of the file)."""
        import soundfile

        position = min(round(start_seconds * self.rate), self._file.frames)
        end = self._file.frames if end_seconds is None else round(end_seconds * self.rate)
        size = int(BLOCK_SECONDS * self.rate)
        try:
            while position < end:
                # Every read of soundfile ends in a seek, after which MP3 starts with silence: read some
                # frames more in front, in the same read, and drop them.
                lead = min(position, _LEAD_SAMPLES)
                self._file.seek(position - lead)
                block = self._file.read(lead + min(size, end - position), dtype="float32", always_2d=True)
                block = block[lead:]
                if not len(block):
                    return
                position += len(block)
                yield _mono(block.T)
        except soundfile.LibsndfileError as error:
            if self._file.format != "FLAC":
                raise _damaged(self._path, position / self.rate) from error
            # Of one whose header promises more than there is, libsndfile keeps the last block to itself.
            with _open_container(self._path) as container:
                yield from _ContainerSound(self._path, container).blocks(position / self.rate, end_seconds)


@contextmanager
def _open_container(path: Path) -> Iterator[Any]:
    import av

    not_audio = AudioError(
        "{path} is not a sound file that can be read: give WAV, MP3, M4A, FLAC, OGG, Opus or WebM.", path=path
    )
    if _begins_with(path, b"NIST_1A"):  # what is not packed, libsndfile reads
        new = path.with_stem(f"{path.stem}-unpacked") if path.suffix == ".wav" else path.with_suffix(".wav")
        raise AudioError(
            "{path} is packed with shorten, which is not read: unpack it with {command}.",
            path=path,
            command=shlex.join(["sph2pipe", "-f", "wav", str(path), str(new)]),
        )
    # A WAV comes here if its length is not known, or wrong: it goes to the end of the file.
    options = {"protocol_whitelist": "file", "format_whitelist": _DEMUXERS, "ignore_length": "1"}
    try:
        container = av.open(str(path.absolute()), options=options)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise not_audio from error
    with container:
        streams = container.streams.audio
        codec = streams[0].codec_context if streams else None
        if codec is None or not codec.sample_rate:
            raise not_audio
        if codec.name.startswith("pcm_") and codec.channels < 1:  # its length would be counted all the same
            raise not_audio
        yield container


def _begins_with(path: Path, begin: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(begin)) == begin


class _ContainerSound:
    """What FFmpeg opened: M4A, WebM, and whatever libsndfile does not know."""

    def __init__(self, path: Path, container: Any) -> None:
        self._path = path
        self._container = container
        self._stream = container.streams.audio[0]
        self.rate: int = self._stream.codec_context.sample_rate
        start = self._stream.start_time
        self._origin_seconds = float(start * self._stream.time_base) if start else 0.0

    @property
    def duration_seconds(self) -> float:
        """Length as the file says, or counted where it says nothing."""
        if self._stream.duration:
            return float(self._stream.duration * self._stream.time_base)
        if self._container.duration:
            return float(self._container.duration / 1_000_000)
        return self._counted_seconds()

    @property
    def declared(self) -> Declared | None:
        """Of WAV, and of an M4A or MP4 whose table of contents names places behind the end of the file."""
        kind = self._container.format.name
        if kind == "wav":
            return wav_length(self._path)
        packets = self._stream.index_entries
        if "mp4" not in kind or not len(packets) or not self._stream.duration:
            return None
        last = packets[len(packets) - 1]
        is_cut_off = last.pos + last.size > self._path.stat().st_size
        return Declared(self.duration_seconds) if is_cut_off else None

    def _counted_seconds(self) -> float:
        """A browser's recorder writes no length: the last packet tells it, without decoding."""
        import av

        end = 0.0
        try:
            for packet in self._container.demux(self._stream):
                if packet.pts is not None:
                    end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            self._container.seek(0)
        except av.FFmpegError as error:
            raise _damaged(self._path, end) from error
        return max(0.0, end - self._origin_seconds)

    def blocks(self, start_seconds: float, end_seconds: float | None) -> Iterator[NDArray[np.float32]]:
        """Mono blocks (samples,) at `rate`, from start to end (None: to the end of the file)."""
        first = round(start_seconds * self.rate)
        last = None if end_seconds is None else round(end_seconds * self.rate)
        pieces: list[NDArray[np.float32]] = []
        held = 0
        for position, samples in self._frames(start_seconds):
            if last is not None and position >= last:
                break
            cut = samples[max(0, first - position) : None if last is None else last - position]
            if len(cut):
                pieces.append(cut)
                held += len(cut)
            if held >= BLOCK_SECONDS * self.rate:
                yield np.concatenate(pieces)
                pieces, held = [], 0
        if pieces:
            yield np.concatenate(pieces)

    def _frames(self, start_seconds: float) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Decoded frames and the sample in the file at which each begins."""
        import av

        planar = av.AudioResampler(format="fltp")
        is_seeking = start_seconds > _SEEK_MARGIN_SECONDS and self._seek(start_seconds - _SEEK_MARGIN_SECONDS)
        position = -1
        try:
            for frame in self._decoded():
                if position < 0:
                    self.rate = frame.sample_rate
                    at_seconds = (frame.time or 0.0) - self._origin_seconds
                    position = round(at_seconds * self.rate) if is_seeking else 0
                elif self._is_missing_some(frame, position):
                    raise _damaged(self._path, position / self.rate)
                for part in planar.resample(frame):
                    samples = _mono(np.asarray(part.to_ndarray(), dtype=np.float32))
                    yield position, samples
                    position += len(samples)
        except (av.FFmpegError, ValueError) as error:
            raise _damaged(self._path, max(0, position) / self.rate) from error

    def _is_missing_some(self, frame: Any, position: int) -> bool:
        """Whether FFmpeg, in silence, went past a part of a FLAC: its frames know their place.

        Those of other kinds may leave a gap where a recorder paused.
        """
        if self._stream.codec_context.name != "flac" or frame.time is None:
            return False
        return bool(frame.time - self._origin_seconds - position / self.rate > _GAP_SECONDS)

    def _decoded(self) -> Iterator[Any]:
        """Frames up to the end of the file, in the middle of one of which it may have been cut off."""
        import av

        cut_off: Exception | None = None
        is_begun = False
        for packet in self._container.demux(self._stream):
            try:
                frames = packet.decode()
            except av.InvalidDataError as error:
                cut_off = error
                continue
            for frame in frames:
                if cut_off is not None:
                    raise cut_off
                is_begun = True
                yield frame
        if cut_off is not None and not is_begun:
            raise cut_off

    def _seek(self, seconds: float) -> bool:
        """Whether the file could be wound forward; if not, what comes before is decoded and dropped."""
        import av

        try:
            self._container.seek(int((seconds + self._origin_seconds) * 1_000_000))
        except av.FFmpegError:
            return False
        return True


def _mono(channels: NDArray[np.float32]) -> NDArray[np.float32]:
    """(channels, samples) to the mean of the channels, (samples,); to the loudest where they cancel out."""
    if len(channels) == 1:
        return np.ascontiguousarray(channels[0])
    mean: NDArray[np.float32] = channels.mean(axis=0, dtype=np.float32)
    power = np.square(channels).mean(axis=1)
    if float(np.square(mean).mean()) < _CANCELLED * float(power.max()):
        return np.ascontiguousarray(channels[int(power.argmax())])
    return mean


def _damaged(path: Path, seconds: float) -> AudioError:
    return AudioError(
        "{path} is damaged: it cannot be decoded past {seconds:.1f} s.", path=path, seconds=seconds
    )
