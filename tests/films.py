"""Recordings as FFmpeg's encoders make them, and films: a grey picture and a voice."""

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

PICTURES_A_SECOND = 5


def encode(path: Path, codec: str, samples: NDArray[np.float32], rate: int) -> Path:
    """Writes mono samples with one of FFmpeg's encoders, as a phone or a browser would."""
    with av.open(str(path), "w") as container:
        _mux_voice(container, codec, samples, rate)
    return path


def make_video(path: Path, samples: NDArray[np.float32], rate: int, codec: str = "aac") -> Path:
    """A film with this sound, mono (samples,) at `rate` Hz, of the kind that the ending of `path` names."""
    with av.open(str(path), "w") as container:
        picture = container.add_stream(
            "libvpx" if path.suffix == ".webm" else "mpeg4", rate=PICTURES_A_SECOND
        )
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        grey = np.full((48, 64, 3), 128, np.uint8)
        _mux_voice(container, codec, samples, rate)
        for _ in range(int(len(samples) / rate * PICTURES_A_SECOND)):
            container.mux(picture.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        container.mux(picture.encode(None))
    return path


def _mux_voice(
    container: av.container.OutputContainer, codec: str, samples: NDArray[np.float32], rate: int
) -> None:
    voice = container.add_stream(codec, rate=rate, layout="mono")
    frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format=voice.codec_context.format, layout="mono", rate=rate)
    fifo = av.AudioFifo()
    for part in resampler.resample(frame):
        part.pts = None
        fifo.write(part)
    while (chunk := fifo.read(voice.codec_context.frame_size or 960, partial=True)) is not None:
        container.mux(voice.encode(chunk))
    container.mux(voice.encode(None))
