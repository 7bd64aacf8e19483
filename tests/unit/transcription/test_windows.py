"""Where a recording is cut."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import read_audio
from studio.transcription.windows import WindowLengths, cut_windows, pieces, quietest, without_silence
from tests.unit.transcription.small_models import Sample

RATE = 16_000
SHORT = WindowLengths.of_clips((2.0, 6.0))


@pytest.fixture
def speech(samples: dict[str, Sample]) -> NDArray[np.float32]:
    """More than a minute of sentences with pauses."""
    return read_audio(samples["long"].path)


@pytest.mark.parametrize("lengths", [WindowLengths(), SHORT], ids=["full", "short"])
@pytest.mark.parametrize("vad", [True, False])
def test_windows_follow_one_another_and_are_no_longer_than_they_may(
    speech: NDArray[np.float32], lengths: WindowLengths, vad: bool
) -> None:
    windows = cut_windows(speech, lengths, vad=vad)
    edges = [edge for window in windows for edge in window]
    assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= len(speech)
    longest = int(lengths.longest_seconds * RATE)
    assert all(0 < end - start <= longest for start, end in windows)
    if not vad:
        assert (edges[0], edges[-1]) == (0, len(speech)) and edges[1:-1:2] == edges[2:-1:2]


def test_no_sentence_lies_on_a_border_and_none_outside(
    speech: NDArray[np.float32], samples: dict[str, Sample]
) -> None:
    windows = cut_windows(speech, WindowLengths())
    assert len(windows) < len(speech) / RATE / 15, "windows are at least half full"
    for row in samples["long"].segments:
        inside = [start <= row["start"] * RATE and row["end"] * RATE <= end for start, end in windows]
        assert sum(inside) == 1, row


def test_speech_without_a_pause_is_cut_where_it_is_quietest(speech: NDArray[np.float32]) -> None:
    voice = speech[int(0.5 * RATE) : int(1.5 * RATE)]
    tight = np.tile(voice, 50)
    tight[22 * RATE : 22 * RATE + RATE // 10] *= 0.1
    windows = cut_windows(tight, WindowLengths())
    assert windows[0][0] == 0 and windows[-1][1] == len(tight)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(windows))


def test_silence_has_no_window_and_a_long_one_divides_stretches(speech: NDArray[np.float32]) -> None:
    silence = np.zeros(5 * RATE, np.float32)
    assert cut_windows(np.tile(silence, 12), WindowLengths()) == without_silence(silence) == []
    whole = without_silence(np.concatenate([silence, speech, silence, speech[: 20 * RATE]]))
    (first, second), (third, fourth) = whole
    assert 4.5 < first / RATE < 6 and 65 < second / RATE < 90
    assert second + 4 * RATE < third and fourth <= 2 * len(silence) + len(speech) + 20 * RATE


def test_a_recording_is_cut_into_pieces_where_it_is_quiet() -> None:
    sound = np.random.default_rng(0).standard_normal(100 * RATE).astype(np.float32)
    sound[25 * RATE : 26 * RATE] = 0
    cut = list(pieces(np.split(sound, 20), longest_seconds=30))
    assert np.array_equal(np.concatenate(cut), sound)
    assert 25 <= len(cut[0]) / RATE <= 26
    assert all(len(piece) <= 30 * RATE for piece in cut)


def test_of_places_that_are_nearly_as_quiet_the_last_is_taken() -> None:
    samples = np.full(5 * RATE, 0.1, np.float32)
    for second, level in ((1, 0.01), (3, 0.012), (4, 0.03)):
        samples[second * RATE : second * RATE + RATE // 5] = level
    assert quietest(samples) / RATE == pytest.approx(3.1)
