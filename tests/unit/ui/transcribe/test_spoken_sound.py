"""The sound of those who speak to the page is kept whole and for an hour, or not at all."""

from pathlib import Path

import numpy as np

from studio.dataset.audio import read_audio
from studio.ui.transcribe.spoken_sound import SpokenSound

SECOND = np.full(16_000, 0.25, np.float32)


def test_what_was_said_is_one_file_until_it_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    sound = SpokenSound(folder, 60)
    sound.add(SECOND)
    sound.add(-SECOND)
    path = sound.end()
    assert path is not None
    np.testing.assert_allclose(read_audio(path), np.concatenate([SECOND, -SECOND]), atol=1e-4)
    sound.forget()
    assert list(folder.iterdir()) == []
    assert SpokenSound(folder, 60).end() is None, "nothing was said"


def test_sound_that_is_too_long_or_has_no_place_is_not_kept(tmp_path: Path) -> None:
    long = SpokenSound(tmp_path, 1.5)
    (tmp_path / "file").write_text("in the way")
    nowhere = SpokenSound(tmp_path / "file", 60)
    for sound in (long, nowhere):
        for _ in range(3):
            sound.add(SECOND)
        assert sound.end() is None
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
