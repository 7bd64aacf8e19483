"""Speech is told from silence, noise and tones."""

from pathlib import Path

import numpy as np
import pytest

from studio.dataset.audio import read_audio
from studio.transcription.voice_activity import has_voice, loud_enough, voice_probability, voiced_spans

RATE = 16_000


def noise(amplitude: float, seconds: float = 5.0) -> np.ndarray:
    return (amplitude * np.random.default_rng(0).standard_normal(int(seconds * RATE))).astype(np.float32)


@pytest.mark.parametrize("amplitude", [0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.3])
def test_silence_and_noise_are_no_voice_however_loud(amplitude: float) -> None:
    assert not has_voice(noise(amplitude, seconds=30.0))


@pytest.mark.parametrize("hertz", [0, 50, 60, 100, 120])
def test_a_voice_is_found_in_a_hum_and_beside_an_offset_that_are_as_loud(
    demo_speech: Path, hertz: float
) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    speech *= np.float32(0.3 / np.abs(speech).max())
    hum = 0.3 * np.cos(2 * np.pi * hertz * np.arange(len(speech)) / RATE).astype(np.float32)
    expected = sum(end - start for start, end in voiced_spans(speech))
    found = voiced_spans(speech + hum)
    assert sum(end - start for start, end in found) == pytest.approx(expected, rel=0.15)
    assert not has_voice(np.tile(hum, 5))


@pytest.mark.parametrize("decibels", [20, 30, 40])
def test_who_speaks_low_is_found_beside_who_speaks_loud(demo_speech: Path, decibels: int) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    silence = noise(1e-5, seconds=4.0)
    low = (speech * 10 ** (-decibels / 20)).astype(np.float32)
    found = voiced_spans(np.concatenate([speech, silence, low, silence, speech]))
    begins, ends = len(speech) / RATE + 4.0, 2 * len(speech) / RATE + 4.0
    middle = [span for span in found if begins - 0.5 < span[0] and span[1] < ends + 0.5]
    assert sum(end - start for start, end in middle) > 0.7 * (ends - begins)


def test_a_hum_and_a_click_are_no_voice() -> None:
    time = np.arange(5 * RATE) / RATE
    hum = (0.1 * np.sin(2 * np.pi * 50 * time) + 0.05 * np.sin(2 * np.pi * 150 * time)).astype(np.float32)
    assert not has_voice(hum)
    click = np.zeros(5 * RATE, np.float32)
    click[RATE : RATE + 20] = 0.9
    assert not has_voice(click)


def test_speech_is_a_voice_also_when_faint_and_in_the_middle_of_noise(demo_speech: Path) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    assert voice_probability(speech) > 0.8
    assert has_voice(0.02 * speech)
    assert has_voice(np.concatenate([noise(1e-3), speech, noise(1e-3)]))


@pytest.mark.parametrize("gain", [1e-2, 3e-3])
def test_a_voice_is_found_at_its_place_however_low_the_microphone_was_set(
    demo_speech: Path, gain: float
) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    speech = np.concatenate([np.zeros(3 * RATE, np.float32), speech])
    speech[RATE] = 0.9  # the click with which it was switched on
    low = np.round(gain * speech * 32_768) / np.float32(32_768)
    assert voice_probability(low.astype(np.float32)) > 0.5
    spans, expected = voiced_spans(low.astype(np.float32)), voiced_spans(speech)
    assert spans[0][0] == pytest.approx(expected[0][0], abs=0.15)
    assert spans[-1][1] == pytest.approx(expected[-1][1], abs=0.15)


def test_a_model_hears_a_low_voice_louder_and_any_other_as_it_is(demo_speech: Path) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    assert loud_enough(speech) is speech
    low = (1e-3 * speech).astype(np.float32)
    raised = loud_enough(low)
    assert 0.4 < np.abs(raised).max() <= 1.0
    assert np.corrcoef(raised, speech)[0, 1] > 0.99
    for level in (0.0, 1e-6, 3e-3):
        nobody = noise(level)
        assert loud_enough(nobody) is nobody, "noise is not made louder"


def test_no_samples_are_no_voice() -> None:
    assert voice_probability(np.zeros(0, np.float32)) == 0.0
    assert voice_probability(noise(0.01, seconds=0.01)) < 0.2


def test_a_voice_is_found_where_it_is(demo_speech: Path) -> None:
    speech = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    silence = np.zeros(3 * RATE, np.float32)
    spans = voiced_spans(np.concatenate([silence, speech, silence]))
    assert 3.0 < spans[0][0] < 3.6
    assert 3.0 + len(speech) / RATE - 1.0 < spans[-1][1] < 3.2 + len(speech) / RATE
    assert voiced_spans(silence) == voiced_spans(silence[:0]) == []
    assert voiced_spans(speech[::-1]) != voiced_spans(speech) == voiced_spans(speech.copy())
