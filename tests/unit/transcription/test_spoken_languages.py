"""Where a recording has more than one language."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.spoken_languages import Odds, spoken_languages
from tests.unit.transcription.small_models import Sample

Sound = NDArray[np.float32]
PAUSE = np.zeros(SAMPLING_RATE // 2, np.float32)
LOUD, QUIET = 1.0, 0.25


def sentences(sample: Sample, *levels: float) -> Sound:
    """A recording again and again, as loud as that, with pauses."""
    sound = sample.sound / np.abs(sample.sound).max()
    return np.concatenate([part for level in levels for part in (np.float32(level) * sound, PAUSE)])


def by_loudness(sounds: Sequence[Sound]) -> list[Odds]:
    """What is loud is Mandarin, and what is quiet perhaps English."""
    peaks = [float(np.abs(sound).max()) for sound in sounds]
    return [{"zh": 0.98, "en": 0.01} if peak > 0.3 else {"zh": 0.1, "en": 0.85} for peak in peaks]


def spoken(samples: Sound, before: str = "") -> list[tuple[str, float, float]]:
    """Languages with the seconds between which they are spoken."""
    found, _ = spoken_languages(samples, by_loudness, before)
    return [(one.language, one.start / SAMPLING_RATE, one.end / SAMPLING_RATE) for one in found]


def test_a_language_begins_in_the_pause_before_it(command: Sample) -> None:
    length = len(sentences(command, LOUD)) / SAMPLING_RATE
    (first, begin, border), (second, end_of_first, end) = spoken(
        sentences(command, *[LOUD] * 3, *[QUIET] * 4)
    )
    assert (first, second, begin) == ("zh", "en", 0.0) and end == pytest.approx(7 * length)
    assert border == end_of_first == pytest.approx(3 * length, abs=0.6)
    assert [one for one, *_ in spoken(sentences(command, *[QUIET] * 4, *[LOUD] * 3))] == ["en", "zh"]


def test_a_short_part_that_is_taken_for_something_else_tears_nothing_apart(command: Sample) -> None:
    assert [one for one, *_ in spoken(sentences(command, LOUD, LOUD, QUIET, LOUD, LOUD))] == ["zh"]
    assert [one for one, *_ in spoken(sentences(command, QUIET), before="zh")] == ["zh"]
    assert [one for one, *_ in spoken(sentences(command, *[QUIET] * 6), before="zh")] == ["en"]


def test_nobody_speaks_nothing_and_who_stops_is_not_asked_on(command: Sample) -> None:
    assert spoken(np.zeros(40 * SAMPLING_RATE, np.float32)) == []
    asked: list[int] = []

    def ask(sounds: Sequence[Sound]) -> list[Odds]:
        asked.append(len(sounds))
        return by_loudness(sounds)

    samples = sentences(command, *[LOUD] * 20)
    [only], _ = spoken_languages(samples, ask, should_stop=lambda: bool(asked))
    assert len(asked) == 1 and only.end == len(samples)
