"""Recordings while they are being heard, and the stretches of them that windows are taken from."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.messages import Message
from studio.transcription.chinese_script import AUTO, OneScript
from studio.transcription.engine import Segment, Span, Word
from studio.transcription.windows import WINDOW_SAMPLES

PLAIN_SECONDS = 15.0
"""What is not longer is written without times if nobody asks for them: fewer tokens. Of longer windows a
model leaves out more without."""


@dataclass
class Recording:
    """A recording while it is being heard."""

    language: str
    """Code; empty until speech was found, if it is to be detected."""
    language_probabilities: dict[str, float] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    end_seconds: float = 0.0
    context: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    """Where what was said so far begins, and its tokens and times, if the next window is told of them."""
    is_begun: bool = False
    goes_on: bool = False
    """Whether its last stretch does, in what is still to come of the sound."""
    script: OneScript = field(default_factory=lambda: OneScript(AUTO))
    """In which Chinese of it is written."""
    notes: list[Message] = field(default_factory=list)
    """What is to be told with the transcript."""

    def languages(self) -> list[str]:
        """Codes of what was said so far, first the one in which most was."""
        seconds: dict[str, float] = defaultdict(float)
        for one in self.segments:
            seconds[one.language] += one.end_seconds - one.start_seconds
        return sorted(seconds, key=lambda code: -seconds[code])

    def said_before(self, seconds: float) -> list[int]:
        """Of the context what comes before a window."""
        return [token for begins, tokens in self.context if begins < seconds for token in tokens]


@dataclass
class Stretch:
    """A part of a recording, heard from window to window; none depends on another."""

    recording: Recording
    samples: NDArray[np.float32]
    """Mono at 16 kHz."""
    start_seconds: float
    """In the recording."""
    with_times: bool
    """Whether the model writes time tokens, and what it leaves is heard once more."""
    is_short: bool = False
    """Whether the encoder sees its length, and not a full window."""
    is_left_out: bool = False
    """It was left out when its neighbours were written: only a text that is sure counts."""
    position_seconds: float = 0.0
    """Where the next window begins."""
    text_end_seconds: float = 0.0
    """Nothing that is written later was said before this."""
    grows: bool = False
    """Whether more of it is to come: only its full windows are heard."""
    own_language: str = ""
    """Code, where it is known of this part of the recording."""

    @property
    def language(self) -> str:
        """Code; empty until it is known."""
        return self.own_language or self.recording.language

    @property
    def window_seconds(self) -> float:
        """Where the next window begins in the recording."""
        return self.start_seconds + self.position_seconds

    @property
    def window(self) -> NDArray[np.float32]:
        """The next samples for the model, at most 30 s."""
        first = int(self.position_seconds * SAMPLING_RATE)
        return self.samples[first : first + WINDOW_SAMPLES]

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / SAMPLING_RATE

    def part(self, span: Span) -> "Stretch":
        """A part of the window at hand that was left out, as a stretch of its own."""
        first, after = (int((self.position_seconds + edge) * SAMPLING_RATE) for edge in span)
        offset = self.start_seconds + first / SAMPLING_RATE
        samples = self.samples[first:after]
        with_times = len(samples) > PLAIN_SECONDS * SAMPLING_RATE
        return replace(
            self,
            samples=samples,
            start_seconds=offset,
            with_times=with_times,
            is_left_out=True,
            position_seconds=0.0,
            text_end_seconds=0.0,
            grows=False,
        )

    def add(self, segments: Sequence[Segment], seconds: float) -> None:
        """Moves a window's segments to their place in the recording, and keeps times from going back."""
        offset = self.window_seconds
        for segment in segments:
            earliest = max(self.start_seconds, self.text_end_seconds)
            placed = moved(segment, offset, earliest, offset + seconds)
            self.recording.segments.append(replace(placed, language=self.language))
            self.text_end_seconds = placed.end_seconds
        self.recording.segments.sort(key=lambda one: one.start_seconds)


def next_batch(waiting: deque[Stretch], size: int, *, in_turn: bool) -> list[Stretch]:
    """Takes the stretches that are heard next; `in_turn`: only one of each recording."""
    batch: list[Stretch] = []
    left: list[Stretch] = []
    while waiting and len(batch) < size:
        stretch = waiting.popleft()
        is_behind = in_turn and any(stretch.recording is other.recording for other in (*batch, *left))
        (left if is_behind else batch).append(stretch)
    waiting.extendleft(reversed(left))
    return batch


def moved(segment: Segment, offset: float, earliest: float, latest: float) -> Segment:
    """A segment `offset` seconds later, its times and those of its words between the two limits."""

    def place(seconds: float, not_before: float) -> float:
        """A time in the recording, within its limits."""
        return min(round(max(seconds + offset, not_before), 3), max(latest, not_before))

    start = place(segment.start_seconds, earliest)
    words = []
    at = start
    for word in segment.words:
        begin = place(word.start_seconds, at)
        at = place(word.end_seconds, begin)
        words.append(Word(begin, at, word.text, word.probability))
    end = place(segment.end_seconds, at)
    return Segment(start, end, segment.text, tuple(words))
