"""Stretches of recordings: which are heard together, and where in the recording their words come to stand."""

from collections import deque

import numpy as np
import pytest

from studio.transcription.engine import Segment, Word
from studio.transcription.stretches import Recording, Stretch, next_batch

RATE = 16_000


def stretch(recording: Recording, start: float = 0.0, seconds: float = 70.0) -> Stretch:
    samples = np.arange(int(seconds * RATE), dtype=np.float32)
    return Stretch(recording, samples, start, with_times=True)


def test_windows_follow_each_other_and_the_last_is_what_is_left() -> None:
    one = stretch(Recording("en"))
    assert len(one.window) == 30 * RATE
    one.position_seconds = 65.0
    assert one.window[0] / RATE == 65.0
    assert len(one.window) == 5 * RATE


def test_of_each_recording_one_stretch_is_heard_at_a_time_and_in_its_order() -> None:
    mine, other = Recording("en"), Recording("zh")
    first, second, third = stretch(mine), stretch(mine, 70.0), stretch(other)
    waiting = deque([first, second, third])
    assert next_batch(waiting, 8, in_turn=True) == [first, third]
    assert list(waiting) == [second]
    waiting = deque([first, second, third])
    assert next_batch(waiting, 2, in_turn=False) == [first, second]
    assert list(waiting) == [third]


def test_segments_come_to_their_place_and_never_before_what_was_written_already() -> None:
    one = stretch(Recording("en"), start=100.0)
    one.position_seconds = 10.0
    one.add([Segment(0.0, 2.0, "a", (Word(0.0, 2.0, "a", 1.0),))], 30.0)
    one.add([Segment(1.5, 31.0, "b", (Word(1.5, 1.8, "b", 1.0),))], 30.0)
    assert [(part.start_seconds, part.end_seconds) for part in one.recording.segments] == [
        (110.0, 112.0),
        (112.0, 140.0),
    ]
    assert one.recording.segments[1].words[0].start_seconds == 112.0


@pytest.mark.parametrize(("span", "with_times"), [((5.0, 8.0), False), ((2.0, 20.0), True)])
def test_what_was_left_out_is_a_stretch_of_its_own(span: tuple[float, float], with_times: bool) -> None:
    one = stretch(Recording("en"), start=100.0)
    one.position_seconds = 30.0
    part = one.part(span)
    assert part.start_seconds == pytest.approx(130.0 + span[0])
    assert part.samples[0] / RATE == pytest.approx(30.0 + span[0])
    assert part.seconds == pytest.approx(span[1] - span[0])
    assert (part.is_left_out, part.with_times) == (True, with_times)
