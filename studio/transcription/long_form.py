"""A recording of any length, window after window, with never more than a minute of it in memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.engine import OnProgress, Progress, Segment, ShouldStop
from studio.transcription.windows import WINDOW_SECONDS

_WINDOW_SAMPLES = int(WINDOW_SECONDS * SAMPLING_RATE)
_SHORTEST_TAIL_SAMPLES = SAMPLING_RATE // 20
"""Less than this at the end of a recording holds no word."""


@dataclass(frozen=True)
class HeardWindow:
    """What was heard in one window; times from its beginning."""

    segments: tuple[Segment, ...]
    advance_seconds: float
    """Where the next window begins."""
    context: tuple[int, ...] = ()
    """Text tokens that the next window may be told of."""


HearWindow = Callable[[NDArray[np.float32], tuple[int, ...]], HeardWindow]
"""Samples of at most 30 s and the context before them → what was heard."""


class SampleBuffer:
    """The part of a stream of blocks that a window looks at; what lies before it is let go."""

    def __init__(self, blocks: Iterable[NDArray[np.float32]]) -> None:
        """`blocks` are mono samples at 16 kHz, of any lengths."""
        self._blocks: Iterator[NDArray[np.float32]] = iter(blocks)
        self._held = np.zeros(0, np.float32)
        self._offset = 0
        self.is_exhausted = False

    @property
    def read_seconds(self) -> float:
        """How much has come so far; the recording's length once it is exhausted."""
        return (self._offset + len(self._held)) / SAMPLING_RATE

    def window(self, start: int, size: int) -> NDArray[np.float32]:
        """`size` samples from `start` on (both in samples), fewer at the end; `start` never goes back."""
        while not self.is_exhausted and self._offset + len(self._held) < start + size + 1:
            block = next(self._blocks, None)
            if block is None:
                self.is_exhausted = True
            else:
                self._held = np.concatenate([self._held, block])
        skipped = min(start - self._offset, len(self._held))
        self._held = self._held[skipped:]
        self._offset += skipped
        return self._held[:size]


def pieces(
    blocks: Iterable[NDArray[np.float32]], longest_seconds: float = 600.0
) -> Iterator[NDArray[np.float32]]:
    """A recording in pieces of at most `longest_seconds`, cut where the last 20 s of each are quietest."""
    longest, search = int(longest_seconds * SAMPLING_RATE), 20 * SAMPLING_RATE
    held: list[NDArray[np.float32]] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block)
        while count > longest:
            whole = np.concatenate(held)
            at = longest - search + quietest(whole[longest - search : longest])
            yield whole[:at]
            held, count = [whole[at:]], count - at
    if count:
        yield held[0] if len(held) == 1 else np.concatenate(held)


def quietest(samples: NDArray[np.float32]) -> int:
    """The middle of the quietest 200 ms of mono samples at 16 kHz, (samples,), as an index."""
    width = SAMPLING_RATE // 5
    power = np.square(samples[: len(samples) // width * width].reshape(-1, width)).mean(axis=1)
    return int(power.argmin()) * width + width // 2


@dataclass
class _Recording:
    """The segments of a recording while it is being heard."""

    segments: list[Segment] = field(default_factory=list)
    end_seconds: float = 0.0

    def add(self, heard: HeardWindow, offset_seconds: float, length_seconds: float) -> None:
        """Moves a window's segments to their place and keeps times from going back."""
        for segment in heard.segments:
            placed = moved(segment, offset_seconds, self.end_seconds, length_seconds)
            self.segments.append(placed)
            self.end_seconds = placed.end_seconds


def hear_recording(
    blocks: Iterable[NDArray[np.float32]],
    total_seconds: float,
    hear: HearWindow,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
) -> tuple[tuple[Segment, ...], float]:
    """All segments of a recording, and its length in seconds.

    `total_seconds` is what the file's header says; the length returned is what was decoded. After each window
    `on_progress` is told; if `should_stop` says so, what was heard up to there is returned.
    """
    buffer = SampleBuffer(blocks)
    recording = _Recording()
    context: tuple[int, ...] = ()
    position = 0
    while not (should_stop and should_stop()):
        samples = buffer.window(position, _WINDOW_SAMPLES)
        if len(samples) < (_SHORTEST_TAIL_SAMPLES if position else 1):
            break
        heard = hear(samples, context)
        context = heard.context
        offset_seconds = position / SAMPLING_RATE
        recording.add(heard, offset_seconds, offset_seconds + len(samples) / SAMPLING_RATE)
        position += max(1, round(heard.advance_seconds * SAMPLING_RATE))
        if on_progress:
            done = min(position / SAMPLING_RATE, buffer.read_seconds)
            total = buffer.read_seconds if buffer.is_exhausted else max(total_seconds, done)
            on_progress(Progress(done, total, tuple(recording.segments)))
    length = buffer.read_seconds if buffer.is_exhausted else max(total_seconds, buffer.read_seconds)
    return tuple(recording.segments), length


def moved(segment: Segment, offset: float, earliest: float, latest: float) -> Segment:
    """A segment `offset` seconds later, its times and those of its words between the two limits."""

    def place(seconds: float, not_before: float) -> float:
        return min(round(max(seconds + offset, not_before), 3), max(latest, not_before))

    start = place(segment.start_seconds, earliest)
    words = []
    at = start
    for word in segment.words:
        begin = place(word.start_seconds, at)
        at = place(word.end_seconds, begin)
        words.append(replace(word, start_seconds=begin, end_seconds=at))
    end = place(segment.end_seconds, at)
    return replace(segment, start_seconds=start, end_seconds=end, words=tuple(words))
