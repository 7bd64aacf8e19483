"""The walk over a recording: nothing is kept that is not needed, times never go back, it always ends."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from studio.transcription.engine import Progress, Segment, Word
from studio.transcription.long_form import HeardWindow, SampleBuffer, hear_recording

RATE = 16_000


def blocks(seconds: float, block_seconds: float = 7.3) -> Iterator[NDArray[np.float32]]:
    """Samples whose value is their time."""
    samples = np.arange(int(seconds * RATE), dtype=np.float32) / RATE
    size = int(block_seconds * RATE)
    return (samples[at : at + size] for at in range(0, len(samples), size))


def test_windows_follow_one_another_without_gap_or_overlap() -> None:
    starts, lengths = [], []

    def hear(samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        starts.append(float(samples[0]))
        lengths.append(len(samples) / RATE)
        return HeardWindow((), min(20.0, lengths[-1]))

    segments, duration = hear_recording(blocks(75), 75.0, hear)
    assert (segments, duration) == ((), 75.0)
    assert starts == [0.0, 20.0, 40.0, 60.0]
    assert lengths == [30.0, 30.0, 30.0, 15.0]


def test_what_lies_before_the_window_is_let_go() -> None:
    buffer = SampleBuffer(blocks(600))
    held = []
    for start in range(0, 600 * RATE, 30 * RATE):
        assert buffer.window(start, 30 * RATE)[0] == pytest.approx(start / RATE)
        held.append(len(buffer._held))
    assert max(held) < 40 * RATE
    assert buffer.read_seconds == pytest.approx(600)


def test_times_stay_in_the_recording_and_never_go_back() -> None:
    def hear(samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        words = (Word(-1.0, 0.2, "a"), Word(0.1, 99.0, "b"))
        first = Segment(0.0, 99.0, "a b", words)
        return HeardWindow((first, Segment(1.0, 2.0, "c")), 10.0)

    segments, duration = hear_recording(blocks(25), 25.0, hear)
    assert duration == 25.0
    assert len(segments) == 6
    times = [at for segment in segments for at in (segment.start_seconds, segment.end_seconds)]
    assert times == sorted(times)
    assert max(times) <= 25.0
    for segment in segments:
        inside = [at for word in segment.words for at in (word.start_seconds, word.end_seconds)]
        whole = [segment.start_seconds, *inside, segment.end_seconds]
        assert whole == sorted(whole)


def test_progress_is_told_after_each_window_and_reaches_the_end() -> None:
    told: list[Progress] = []

    def hear(samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        return HeardWindow((Segment(0.0, 1.0, "x"),), len(samples) / RATE)

    hear_recording(blocks(65), 64.0, hear, told.append)
    assert [(p.done_seconds, len(p.segments)) for p in told] == [(30.0, 1), (60.0, 2), (65.0, 3)]
    assert told[-1].total_seconds == 65.0


def test_a_stop_keeps_what_was_heard() -> None:
    heard = []

    def hear(samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        heard.append(context)
        return HeardWindow((Segment(0.0, 1.0, "x"),), 30.0, (*context, 1))

    segments, duration = hear_recording(blocks(300), 300.0, hear, should_stop=lambda: len(heard) == 2)
    assert len(segments) == 2
    assert duration == 300.0
    assert heard == [(), (1,)]


def test_a_window_that_does_not_move_on_cannot_hang() -> None:
    count = 0

    def hear(samples: NDArray[np.float32], context: tuple[int, ...]) -> HeardWindow:
        nonlocal count
        count += 1
        return HeardWindow((), 0.0)

    hear_recording(blocks(0.01), 0.01, hear)
    assert 0 < count <= 160
