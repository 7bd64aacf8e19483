"""Sound made here: the same sweep in every format people have."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.films import encode

SECONDS = 3.0


def sweep(rate: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    """A tone that rises from 200 Hz, so that every moment sounds different from every other."""
    time = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * (200 * time + 150 * time**2))).astype(np.float32)


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
    soundfile.write(folder / "pcm.sph", sweep(16_000), 16_000, format="NIST", subtype="PCM_16")
    soundfile.write(folder / "call.WV1", sweep(8_000), 8_000, format="NIST", subtype="ULAW")
    soundfile.write(folder / "plain.flac", sweep(16_000), 16_000)
    soundfile.write(folder / "song.mp3", stereo, 48_000)
    soundfile.write(folder / "vorbis.ogg", wide, 48_000, format="OGG", subtype="VORBIS")
    soundfile.write(folder / "call.opus", wide, 48_000, format="OGG", subtype="OPUS")
    encode(folder / "memo.m4a", "aac", wide, 48_000)
    encode(folder / "browser.webm", "libopus", wide, 48_000)
    return {path.name: path for path in folder.iterdir()}
