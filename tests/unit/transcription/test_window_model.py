"""What stands behind a single word, in both engines."""

from pathlib import Path

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.transcription.loading import loader
from studio.transcription.window_model import pad_word


def test_behind_a_single_word_is_the_middle_of_the_scale_and_behind_more_what_was_there() -> None:
    for samples, filled in ((8_000, 2_949), (15_999, 2_900), (16_000, 0)):
        features = np.full((80, 3_000), -1.0, np.float32)
        pad_word(features, samples)
        assert (features == 0.0).all(axis=0).sum() == filled
        assert features[0, samples // 160] == -1.0


@pytest.mark.parametrize("is_short", [False, True])
def test_both_engines_hear_the_same_of_a_word(
    demo_model: Path, demo_export: Path, demo_speech: Path, is_short: bool
) -> None:
    word = read_audio(demo_speech / "samples" / "kitchen-light.flac", 1.0, 1.6)
    states = []
    for folder, engine in ((demo_model, "transformers"), (demo_export, "faster-whisper")):
        with loader(threads=1)(folder, engine, "float32", "cpu").using(None) as model:
            encoded = model.encode([word, np.tile(word, 3)], is_short=is_short)
            states.append(np.array(encoded, dtype=np.float32))
    assert states[0].shape == states[1].shape
    assert np.abs(states[0] - states[1]).max() < 0.02
