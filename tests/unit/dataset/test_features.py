import numpy as np
import pytest

from studio.dataset.features import log_mel

from .conftest import sweep


def clip(seconds: float, loudness: float = 1.0) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 0.02, int(seconds * 16_000))
    return (loudness * (sweep(16_000, seconds) + noise)).astype(np.float32)


BATCHES = {
    "short": [clip(1.0), clip(2.345), clip(0.05)],
    "loud and soft": [clip(3.0), clip(3.0, 0.001)],
    "silence": [np.zeros(16_000, np.float32), clip(1.0)],
    "tone that stops at once": [np.ones(15_999, np.float32)],
    "full window": [clip(30.0), clip(1.0)],
    "too long": [clip(31.0)],
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("bins", [80, 128])
def test_features_are_those_of_the_extractor_for_each_clip(name: str, bins: int) -> None:
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=bins)
    features = log_mel(extractor, BATCHES[name])
    assert features.shape == (len(BATCHES[name]), bins, 3000)
    assert features.dtype == np.float32
    for row, samples in zip(features, BATCHES[name], strict=True):
        alone = extractor(samples, sampling_rate=16_000, return_tensors="np")["input_features"][0]
        np.testing.assert_allclose(row, alone, atol=2e-5)
