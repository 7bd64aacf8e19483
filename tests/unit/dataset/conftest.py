"""Sound made here: the same sweep in every format people have."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

SECONDS = 3.0


def sweep(rate: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    """A tone that rises from 200 Hz, so that every moment sounds different from every other."""
    time = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * (200 * time + 150 * time**2))).astype(np.float32)


def encode(path: Path, codec: str, samples: NDArray[np.float32], rate: int) -> Path:
    """Writes mono samples with one of FFmpeg's encoders, as a phone or a browser would."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.sample_rate = rate
        resampler = av.AudioResampler(format=stream.codec_context.format, layout="mono", rate=rate)
        fifo = av.AudioFifo()
        for part in resampler.resample(frame):
            part.pts = None
            fifo.write(part)
        while (chunk := fifo.read(stream.codec_context.frame_size or 960, partial=True)) is not None:
            container.mux(stream.encode(chunk))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="session")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sweep as a file of each kind, by name."""
    folder = tmp_path_factory.mktemp("sounds")
    wide = sweep(48_000)
    stereo = np.stack([wide, wide], axis=1)
    soundfile.write(folder / "narrow.wav", sweep(8_000), 8_000, subtype="PCM_16")
    soundfile.write(folder / "stereo.wav", stereo, 48_000, subtype="PCM_16")
    soundfile.write(folder / "float.wav", wide, 48_000, subtype="FLOAT")
    soundfile.write(folder / "deep.wav", sweep(44_100), 44_100, subtype="PCM_24")
    soundfile.write(folder / "plain.flac", sweep(16_000), 16_000)
    soundfile.write(folder / "song.mp3", stereo, 48_000)
    soundfile.write(folder / "vorbis.ogg", wide, 48_000, format="OGG", subtype="VORBIS")
    soundfile.write(folder / "call.opus", wide, 48_000, format="OGG", subtype="OPUS")
    encode(folder / "memo.m4a", "aac", wide, 48_000)
    encode(folder / "browser.webm", "libopus", wide, 48_000)
    return {path.name: path for path in folder.iterdir()}
