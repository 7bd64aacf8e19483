"""What faster-whisper heard, judged and told in the studio's own terms."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.dataset.audio import SAMPLING_RATE
from studio.transcription.engine import Segment, TranscribeOptions
from studio.transcription.loaded_export import LoadedExport
from studio.transcription.windows import compression_ratio, cut_loop
from studio.transcription.word_times import spread, without_stretched


def judged(
    model: Any,
    found: Iterable[Any],
    samples: NDArray[np.float32],
    options: TranscribeOptions,
    arguments: dict[str, Any],
) -> Iterator[Any]:
    """Windows decoded together: silence is left out, and what is unsure or a loop is decoded once more.

    faster-whisper itself judges only windows that it decodes alone.
    """
    alone = {**arguments, "temperature": list(options.temperature[1:]), "vad_filter": False}
    for name in ("batch_size", "clip_timestamps"):
        alone.pop(name)
    for _, group in itertools.groupby(found, key=lambda segment: segment.seek):
        window = list(group)
        is_unsure = window[0].avg_logprob < options.logprob_threshold
        text = "".join(segment.text for segment in window)
        if is_unsure and window[0].no_speech_prob > options.no_speech_threshold:
            continue
        is_loop = compression_ratio(text) > options.compression_ratio_threshold
        if not (is_unsure or is_loop) or not alone["temperature"]:
            yield from window
            continue
        yield from heard_alone(model, samples, float(window[0].start), float(window[-1].end), alone)[0]


def heard_alone(
    model: Any, samples: NDArray[np.float32], start: float, end: float, arguments: dict[str, Any]
) -> tuple[Iterator[Any], Any]:
    """What faster-whisper says of the part of a recording from `start` to `end`, in seconds: segments with
    their times in the recording, and its `info`."""
    found, info = model.transcribe(
        samples[int(start * SAMPLING_RATE) : int(end * SAMPLING_RATE)], **arguments
    )
    return (_later(segment, start) for segment in found), info


def _later(segment: Any, seconds: float) -> Any:
    words = [
        replace(word, start=word.start + seconds, end=word.end + seconds) for word in segment.words or ()
    ]
    return replace(segment, start=segment.start + seconds, end=segment.end + seconds, words=words)


def plain(segment: Any, export: LoadedExport, options: TranscribeOptions) -> Segment:
    """A segment of faster-whisper as one of the studio's; of a loop only the first round."""
    words = [
        part
        for word in segment.words or ()
        for part in spread(float(word.start), float(word.end), word.word, float(word.probability))
    ]
    text = segment.text
    if compression_ratio(text) > options.compression_ratio_threshold:
        tokens = [token for token in segment.tokens if token < export.tokens.end]
        kept = cut_loop(text, tokens, export.tokens, was_cut=False)
        if len(kept) < len(tokens):
            text = export.text_of(kept)
            words = words[: max(1, round(len(words) * len(kept) / len(tokens)))]
    words = without_stretched(words)
    start, end = float(segment.start), float(segment.end)
    if words:
        start, end = words[0].start_seconds, max(words[-1].end_seconds, words[0].start_seconds)
    return Segment(start, end, text.strip(), tuple(words))
