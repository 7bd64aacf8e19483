"""The picture of a recording."""

import numpy as np

from studio.dataset.waveform import waveform_peaks


def test_loud_and_quiet_stand_where_they_were_heard() -> None:
    samples = np.zeros(160_000, np.float32)
    samples[80_000:] = -0.5
    peaks = waveform_peaks([samples[:33_333], samples[33_333:]], 100)
    assert peaks.shape == (100,)
    assert np.all(peaks[:50] == 0) and np.all(peaks[50:] == 0.5)


def test_nothing_louder_than_full_scale_and_no_sample_lost_at_the_end() -> None:
    samples = np.zeros(16_001, np.float32)
    samples[-1] = 3.0
    assert waveform_peaks([samples], 10)[-1] == 1.0


def test_a_recording_of_nothing_has_no_peaks() -> None:
    assert waveform_peaks([], 10).shape == (0,)
    assert waveform_peaks([np.ones(8, np.float32)], 10).tolist() == [1.0]
