"""Where a recording is cut: in long silences, or, for windows that are decoded together, in pauses.

Whisper's own algorithm moves on by the last time that the model wrote, and decodes again what it may have
cut: each window depends on the one before. Windows cut in pauses do not.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.voice_activity import voiced_spans

WINDOW_SECONDS = 30.0
WINDOW_SAMPLES = int(WINDOW_SECONDS * SAMPLING_RATE)
SHORTEST_SECONDS = 1.0
PIECE_SECONDS = 600.0
"""So much of a recording is in memory at a time."""
_SEARCHED_SECONDS = 20.0
"""A piece ends in the quietest place of its last seconds."""
_USUAL_PAUSE_SECONDS = 0.3
"""A window that is nearly full ends in the last pause of this length; else in the longest there is."""
SILENCE_SECONDS = 3.0
"""What is longer is not shown to a model, which would make words up."""
_NEARLY_AS_QUIET = 2.0
"""Up to 3 dB louder."""
EDGE_SECONDS = 0.3
"""Kept around a voice, beside the detector's margin: the first and the last consonant are quiet."""


@dataclass(frozen=True)
class WindowLengths:
    """How long windows are.

    A model tuned on whole windows reads 30 s at once. One tuned in short-audio mode has never read, or
    written, more than a clip of its own: of a longer window it leaves out most.
    """

    usual_seconds: float = WINDOW_SECONDS
    """Speech, with its pauses, is put together up to this length."""
    longest_seconds: float = WINDOW_SECONDS
    """Speech without a pause is cut at this length."""

    @classmethod
    def of_clips(cls, clip_seconds: tuple[float, float] | None) -> "WindowLengths":
        """For a model tuned on clips of this mean and greatest length; None: on whole windows."""
        if clip_seconds is None:
            return cls()
        mean, longest = (min(max(SHORTEST_SECONDS, length), WINDOW_SECONDS) for length in clip_seconds)
        return cls(mean, max(mean, longest))


def pieces(
    blocks: Iterable[NDArray[np.float32]], longest_seconds: float = PIECE_SECONDS
) -> Iterator[NDArray[np.float32]]:
    """A recording in pieces of at most `longest_seconds`, cut where the last 20 s of each are quietest."""
    longest, search = int(longest_seconds * SAMPLING_RATE), int(_SEARCHED_SECONDS * SAMPLING_RATE)
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
    """The middle of the quietest 200 ms of mono samples at 16 kHz, (samples,), as an index; the last of those
    that are nearly as quiet: so windows begin with little silence."""
    width = SAMPLING_RATE // 5
    power = np.square(samples[: len(samples) // width * width].reshape(-1, width)).mean(axis=1)
    return int(np.flatnonzero(power <= _NEARLY_AS_QUIET * power.min())[-1]) * width + width // 2


def cut_windows(
    samples: NDArray[np.float32], lengths: WindowLengths, *, vad: bool = True
) -> list[tuple[int, int]]:
    """Windows of a piece, (start, end) in samples and in order: where somebody may speak, cut in pauses.

    Without `vad`, all of it, cut where it is quiet.
    """
    if not vad:
        return _cut_where_quiet(samples, 0, len(samples), lengths)
    spans = [
        (int(start * SAMPLING_RATE), min(len(samples), int(end * SAMPLING_RATE)))
        for start, end in voiced_spans(samples)
    ]
    usual, longest = (int(s * SAMPLING_RATE) for s in (lengths.usual_seconds, lengths.longest_seconds))
    windows: list[tuple[int, int]] = []
    while spans:
        start = spans[0][0]
        fitting = sum(end - start <= usual for _, end in spans)
        if fitting == len(spans):
            windows.append((start, spans[-1][1]))
            break
        if fitting:
            last = _pause_to_cut(spans[: fitting + 1], start + usual // 2)
            windows.append((start, spans[last][1]))
            spans = spans[last + 1 :]
        elif spans[0][1] - start <= longest:
            windows.append(spans.pop(0))
        else:
            first, *_ = _cut_where_quiet(samples, *spans[0], lengths)
            windows.append(first)
            spans[0] = (first[1], spans[0][1])
    return _with_edges(windows, len(samples), longest)


def without_silence(samples: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Stretches of a piece, (start, end) in samples, of whatever length, between silences of some seconds."""
    stretches: list[tuple[int, int]] = []
    for start, end in voiced_spans(samples):
        first, after = int(start * SAMPLING_RATE), min(len(samples), int(end * SAMPLING_RATE))
        if stretches and first - stretches[-1][1] < SILENCE_SECONDS * SAMPLING_RATE:
            stretches[-1] = (stretches[-1][0], after)
        else:
            stretches.append((first, after))
    return _with_edges(stretches, len(samples), len(samples))


def _with_edges(windows: list[tuple[int, int]], length: int, longest: int) -> list[tuple[int, int]]:
    """The windows with some of the silence around them: half of a pause at most."""
    edge = int(EDGE_SECONDS * SAMPLING_RATE)
    ends = [0, *(end for _, end in windows)]
    starts = [*(start for start, _ in windows), length]
    wider = []
    for number, (start, end) in enumerate(windows):
        spare = longest - (end - start)
        before = min(edge, (start - ends[number]) // (2 if number else 1), max(0, spare // 2))
        behind = min(
            edge, (starts[number + 1] - end) // (2 if number + 1 < len(windows) else 1), max(0, spare // 2)
        )
        wider.append((start - before, end + behind))
    return wider


def _pause_to_cut(spans: list[tuple[int, int]], earliest: int) -> int:
    """The last of some voices in a window; `spans` are those that fit into it, and the one that follows.

    The latest behind which there is a pause worth the name, if the window is half full by then; else the one
    with the longest pause.
    """
    pauses = [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    late = [number for number in range(len(pauses)) if spans[number][1] >= earliest] or [len(pauses) - 1]
    worthy = [number for number in late if pauses[number] >= _USUAL_PAUSE_SECONDS * SAMPLING_RATE]
    return worthy[-1] if worthy else max(late, key=lambda number: pauses[number])


def _cut_where_quiet(
    samples: NDArray[np.float32], start: int, end: int, lengths: WindowLengths
) -> list[tuple[int, int]]:
    """All of a stretch in windows of at most `longest_seconds`, cut where their second half is quietest."""
    longest = int(lengths.longest_seconds * SAMPLING_RATE)
    starts = [start]
    while end - starts[-1] > longest:
        middle, limit = starts[-1] + longest // 2, starts[-1] + longest
        starts.append(middle + quietest(samples[middle:limit]))
    return list(zip(starts, [*starts[1:], end], strict=True))
