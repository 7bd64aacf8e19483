"""Recordings heard together: first windows of several are encoded and decoded in one batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.decoding import Decoder
from studio.transcription.engine import Segment, TranscribeOptions
from studio.transcription.hearing import Hearing, Start
from studio.transcription.long_form import hear_recording, moved, pieces, quietest
from studio.transcription.voice_activity import voiced_windows
from studio.transcription.windows import WindowLengths

CLIPS_TOGETHER = 8
"""Short recordings that are decoded together, unless told."""

Acquire = Callable[[], AbstractContextManager[Decoder]]
"""Gives the decoder under its lock."""


def begin_together(model: Acquire, clips: Sequence[NDArray[np.float32]], hearings: Sequence[Hearing]) -> None:
    """Decodes clips of at most 30 s at once, and tells each hearing what came out of its own.

    All hearings have the same options. Those of clips without a voice are told nothing.
    """
    pairs = [(clip, hearing) for clip, hearing in zip(clips, hearings, strict=True) if hearing.wants(clip)]
    if len(pairs) < 2:
        return
    with model() as decoder:
        first = pairs[0][1]
        encoded = decoder.encode([clip for clip, _ in pairs], is_short=first.is_short)
        odds = first.odds(decoder, encoded)
        prompts = [
            hearing.prompt(decoder, hearing.language or next(iter(row)), (), is_first=True)
            for (_, hearing), row in zip(pairs, odds, strict=True)
        ]
        seconds = [len(clip) / SAMPLING_RATE for clip, _ in pairs]
        rows = decoder.hear(encoded, prompts, first.search, seconds)
    for number, (_, hearing) in enumerate(pairs):
        hearing.begin_with(Start(encoded[number : number + 1], odds[number], rows[number]))


def cut_at_pauses(
    samples: NDArray[np.float32], lengths: WindowLengths, options: TranscribeOptions
) -> list[tuple[int, int]]:
    """Windows of a recording, (start, end) in samples: those in which somebody speaks, or, where that is not
    to be judged, all of it, cut where it is quietest."""
    if options.vad:
        return voiced_windows(samples, lengths.longest_seconds, lengths.usual_seconds)
    longest = int(lengths.longest_seconds * SAMPLING_RATE)
    starts = [0]
    while len(samples) - starts[-1] > longest:
        middle, end = starts[-1] + longest // 2, starts[-1] + longest
        starts.append(middle + quietest(samples[middle:end]))
    return list(zip(starts, [*starts[1:], len(samples)], strict=True))


def hear_windows_together(
    model: Acquire,
    blocks: Iterable[NDArray[np.float32]],
    options: TranscribeOptions,
    language: str,
    *,
    with_times: bool,
    is_short: bool = False,
    lengths: WindowLengths | None = None,
) -> Iterator[tuple[list[Segment], float, str]]:
    """A long recording, cut where nobody speaks into `lengths`, `options.batch_size` windows at a time.

    One at a time, each is told of the text before it, if the options say so. Yields the segments of each
    batch, the seconds that are done, and the language as far as it is known.
    """
    length = end = 0.0
    lengths = lengths or WindowLengths()
    before: Hearing | None = None
    for samples in pieces(blocks):
        offset, length = length, length + len(samples) / SAMPLING_RATE
        all_windows = cut_at_pauses(samples, lengths, options)
        for first in range(0, len(all_windows), options.batch_size):
            windows = all_windows[first : first + options.batch_size]
            clips = [samples[start:stop] for start, stop in windows]
            hearings = [
                Hearing(model, options, language, with_times=with_times, is_short=is_short) for _ in clips
            ]
            if options.batch_size == 1 and before is not None:
                hearings[0].go_on(before)
            before = hearings[-1]
            begin_together(model, clips, hearings)
            found = []
            for (start, _), clip, hearing in zip(windows, clips, hearings, strict=True):
                for segment in hear_recording([clip], len(clip) / SAMPLING_RATE, hearing)[0]:
                    found.append(moved(segment, offset + start / SAMPLING_RATE, end, length))
                    end = found[-1].end_seconds
                language = hearing.language or language
            yield found, offset + windows[-1][1] / SAMPLING_RATE, language
        yield [], length, language
