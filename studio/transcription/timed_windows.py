"""faster-whisper without times after the end of the sound, which the library lets a model write.

The rule is that of `studio.transcription.time_rules`, in what the library offers: tokens to suppress. They are
the same for all windows that are decoded together, so there the longest sets the limit, and what is later
in a shorter one becomes its end.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studio.transcription.short_windows import sound_frames
from studio.transcription.special_tokens import SECONDS_PER_TOKEN, SpecialTokens

_FRAMES_PER_TOKEN = SECONDS_PER_TOKEN / 0.01
"""A frame of features is a hundredth of a second."""


def within_the_sound(model: Any, tokens: SpecialTokens) -> Any:
    """The same `faster_whisper.WhisperModel`, weights shared, for one thread."""
    bound = copy(model)
    last = [tokens.last_time]

    def encode(features: NDArray[np.float32]) -> Any:
        last[0] = max(last_times(features, tokens))
        return model.encode(features)

    def generate(encoded: Any, prompt: Any, tokenizer: Any, options: Any) -> Any:
        bounded = _without_later(options, last[0], tokens)
        return model.generate_with_fallback(encoded, prompt, tokenizer, bounded)

    bound.encode, bound.generate_with_fallback = encode, generate
    return bound


def within_each_sound(pipeline: Any, tokens: SpecialTokens) -> Any:
    """A `faster_whisper.BatchedInferencePipeline` that keeps to the rule, for one thread."""
    decode = pipeline.generate_segment_batched

    def generate(features: NDArray[np.float32], tokenizer: Any, options: Any) -> Any:
        lasts = last_times(features, tokens)
        encoded, rows = decode(features, tokenizer, _without_later(options, max(lasts), tokens))
        for row, last in zip(rows, lasts, strict=True):
            row["tokens"] = [min(token, last) for token in row["tokens"]]
        return encoded, rows

    pipeline.generate_segment_batched = generate
    return pipeline


def last_times(features: NDArray[np.float32], tokens: SpecialTokens) -> list[int]:
    """The last time token that each of some windows may have; features (…, bins, frames)."""
    frames = sound_frames(features).reshape(-1).tolist()
    return [min(tokens.last_time, tokens.first_time + ceil(count / _FRAMES_PER_TOKEN)) for count in frames]


def _without_later(options: Any, last: int, tokens: SpecialTokens) -> Any:
    """faster-whisper's options of a decoding, in which no time after `last` is written."""
    named: Sequence[int] = options.suppress_tokens or ()
    return replace(options, suppress_tokens=[*named, *range(last + 1, tokens.last_time + 1)])
