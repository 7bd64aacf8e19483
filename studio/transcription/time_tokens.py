"""Whisper's time tokens: which of them a model may write, and the segments that they make of a text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studio.transcription.special_tokens import SpecialTokens

_LEAST_ADVANCE_SECONDS, _SHORTEST_TEXT_SECONDS = 1.0, 0.2
"""A window from which nothing is taken moves on by the first, any other by the second: nobody says a word in
less, and whatever the model says, each window gets further."""


@dataclass(frozen=True)
class TokenSegment:
    """A segment still in tokens, its times from the beginning of the window."""

    start_seconds: float
    end_seconds: float
    text_tokens: tuple[int, ...]


def split_segments(
    tokens: Sequence[int], special: SpecialTokens, length_seconds: float
) -> tuple[list[TokenSegment], float]:
    """Segments of a window, and the seconds that the next window begins later.

    After Radford et al. (2022), section 3.8. `tokens` as generated with time tokens; `length_seconds` is the
    sound in the window, without padding. Text behind the last pair of time tokens was cut off by the window's
    end: it is left to the next window.
    """
    is_time = [special.is_time(token) for token in tokens]
    pairs = [i + 1 for i in range(len(tokens) - 1) if is_time[i] and is_time[i + 1]]
    ends_with_one_time = is_time[-2:] == [False, True]
    advance = length_seconds
    if pairs and not ends_with_one_time:
        advance = special.seconds(tokens[pairs[-1] - 1])
        pieces = [tokens[a:b] for a, b in zip([0, *pairs], pairs, strict=False)]
    else:
        pieces = [tokens[a:b] for a, b in zip([0, *pairs], [*pairs, len(tokens)], strict=True)]
    segments = [_segment(piece, special, length_seconds) for piece in pieces]
    said = [segment for segment in segments if segment.text_tokens]
    least = _SHORTEST_TEXT_SECONDS if said and advance > 0 else _LEAST_ADVANCE_SECONDS
    return said, max(least, min(advance, length_seconds))


def taken(
    tokens: Sequence[int], segments: Sequence[TokenSegment], special: SpecialTokens
) -> list[tuple[float, tuple[int, ...]]]:
    """Of a window's tokens those up to the end of its last segment: where each part begins, and the part,
    times and all."""
    left = sum(len(segment.text_tokens) for segment in segments)
    parts: list[list[int]] = [[]]
    for token in tokens:
        if parts[-1] and special.is_time(token) and special.is_time(parts[-1][-1]):
            parts.append([])
        parts[-1].append(token)
        if left == 0 and special.is_time(token):
            break
        left -= token < special.end
    return [
        (special.seconds(part[0]) if special.is_time(part[0]) else 0.0, tuple(part)) for part in parts if part
    ]


def _segment(piece: Sequence[int], special: SpecialTokens, length_seconds: float) -> TokenSegment:
    times = [special.seconds(token) for token in piece if special.is_time(token)]
    start = min(times[0] if times else 0.0, length_seconds)
    end = times[-1] if len(times) > 1 else length_seconds
    return TokenSegment(
        start,
        min(end, length_seconds) if end > start else length_seconds,
        tuple(token for token in piece if token < special.end),
    )


class WithinTheSound:
    """Forbids times after the end of a clip, in the padding where nothing can be said; a logits processor.

    Whisper's rule writes a time wherever the times together are likelier than each text token. Times that
    cannot be count there, too: where a model is unsure, as at a word it has just learned, they would cut the
    word in two.
    """

    def __init__(self, lasts: Sequence[int]) -> None:
        """`lasts` are the last time tokens that each clip of a batch may have."""
        self._lasts = lasts
        self._mask: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores (clips × beams, tokens), a clip's beams one after the other."""
        import torch

        if self._mask is None:
            last = torch.tensor(self._lasts, device=scores.device)
            last = last.repeat_interleave(len(scores) // len(last))
            tokens = torch.arange(scores.shape[-1], device=scores.device)
            self._mask = tokens > last[:, None]
        return scores.masked_fill(self._mask, -math.inf)
