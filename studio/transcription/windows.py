"""The tokens of one window to segments, and where the next window begins: Whisper's sequential algorithm.

After Radford et al. (2022), Robust Speech Recognition via Large-Scale Weak Supervision, section 3.8. Also the
guard against its known weakness, text that repeats itself without end.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from studio.transcription.special_tokens import SpecialTokens

WINDOW_SECONDS = 30.0
SHORTEST_ADVANCE_SECONDS = 1.0
"""A window moves on by at least this, whatever the model says."""
LOOP_COMPRESSION_RATIO = 2.4
"""Text that zlib makes smaller by more than this repeats itself."""
_REPEATS_OF_A_LOOP = 5
"""A sentence said three times in a row is no loop."""
_REPEATS_CUT = 3


@dataclass(frozen=True)
class WindowLengths:
    """How a long recording is cut where nobody speaks, before its windows are decoded together.

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
        mean, longest = (
            min(max(SHORTEST_ADVANCE_SECONDS, length), WINDOW_SECONDS) for length in clip_seconds
        )
        return cls(mean, max(mean, longest))


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

    `tokens` as generated with time tokens; `length_seconds` is the sound in the window, without padding.
    Text behind the last pair of time tokens was cut off by the window's end: it is left to the next window.
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
    advance = max(SHORTEST_ADVANCE_SECONDS, min(advance, length_seconds))
    return [segment for segment in segments if segment.text_tokens], advance


def _segment(piece: Sequence[int], special: SpecialTokens, length_seconds: float) -> TokenSegment:
    times = [special.seconds(token) for token in piece if special.is_time(token)]
    start = min(times[0] if times else 0.0, length_seconds)
    end = times[-1] if len(times) > 1 else length_seconds
    return TokenSegment(
        start,
        min(end, length_seconds) if end > start else length_seconds,
        tuple(token for token in piece if token < special.end),
    )


def compression_ratio(text: str) -> float:
    """How much smaller zlib makes a text: 2 is half its size; 0 for none."""
    raw = text.encode("utf-8")
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def is_loop(
    text: str,
    tokens: Sequence[int],
    special: SpecialTokens,
    *,
    was_cut: bool,
    threshold: float = LOOP_COMPRESSION_RATIO,
) -> bool:
    """Whether a text repeats itself as only a model that is stuck does.

    `tokens` are those of the text, `was_cut` tells that it ended for want of room, `threshold` is the
    compression ratio from which on it is looked at. People repeat themselves too, and come to an end.
    """
    if compression_ratio(text) <= threshold:
        return False
    plain = tuple(token for token in tokens if token < special.end)
    return was_cut or _without_repeats(plain, _REPEATS_OF_A_LOOP) != plain


def cut_loop(text: str, tokens: Sequence[int], special: SpecialTokens, *, was_cut: bool) -> list[int]:
    """The tokens of a text; of a loop that it is stuck in, only the first round. See `is_loop`."""
    if not is_loop(text, tokens, special, was_cut=was_cut):
        return list(tokens)
    return list(_without_repeats(tuple(token for token in tokens if token < special.end), _REPEATS_CUT))


def without_loops(segments: Sequence[TokenSegment]) -> list[TokenSegment]:
    """What repeats itself once, and of a row of equal segments the first."""
    kept: list[TokenSegment] = []
    for segment in segments:
        tokens = _without_repeats(segment.text_tokens, _REPEATS_CUT)
        if not kept or kept[-1].text_tokens != tokens:
            kept.append(TokenSegment(segment.start_seconds, segment.end_seconds, tokens))
    return kept


def _without_repeats(tokens: tuple[int, ...], at_least: int) -> tuple[int, ...]:
    """The tokens with whatever comes `at_least` times in a row, or more often, only once."""
    for start in range(len(tokens)):
        for period in range(1, (len(tokens) - start) // at_least + 1):
            end = start + period
            while end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start >= at_least * period:
                return tokens[: start + period] + _without_repeats(tokens[end:], at_least)
    return tokens
