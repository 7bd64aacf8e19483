"""Text that repeats itself without end: Whisper's known weakness, found and cut."""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

LOOP_COMPRESSION_RATIO = 2.4
"""Text that zlib makes smaller by more than this repeats itself."""
_REPEATS_OF_A_LOOP = 5
"""A sentence said three times in a row is no loop."""
_REPEATS_CUT = 3
_REPEATS_WITHOUT_END = 8
"""Nobody says anything so often in a row, whatever else stands in the text."""

Token = TypeVar("Token")


def compression_ratio(text: str) -> float:
    """How much smaller zlib makes a text: 2 is half its size; 0 for none."""
    raw = text.encode("utf-8")
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def is_loop(text: str, *, was_cut: bool, threshold: float = LOOP_COMPRESSION_RATIO) -> bool:
    """Whether a text repeats itself as only a model that is stuck does, whatever its commas.

    `was_cut` tells that it ended for want of room, `threshold` is the compression ratio from which on it is
    looked at. People repeat themselves too, and come to an end.
    """
    if compression_ratio(text) <= threshold:
        return False
    letters = tuple(re.findall(r"\d+|\w", text.casefold()))
    return was_cut or without_repeats(letters, _REPEATS_OF_A_LOOP) != letters


def cut_loop(tokens: Sequence[int], text_of: Callable[[Sequence[int]], str], *, was_cut: bool) -> list[int]:
    """The tokens of a text; of a loop that it is stuck in, only the first round. See `is_loop`."""
    if not is_loop(text_of(tokens), was_cut=was_cut):
        return list(tokens)
    words = without_repeats(_words(tokens, text_of), _REPEATS_CUT)
    return list(chain.from_iterable(word.tokens for word in words))


@dataclass(frozen=True)
class _Word:
    """A token of letters, and the signs behind it, which may differ from round to round."""

    letters: str
    tokens: tuple[int, ...] = field(compare=False)


def _words(tokens: Sequence[int], text_of: Callable[[Sequence[int]], str]) -> tuple[_Word, ...]:
    words: list[_Word] = []
    for token in tokens:
        text = text_of([token])
        letters = "".join(re.findall(r"\w", text.casefold()))
        is_part = "\ufffd" in text  # of a character that takes several tokens
        if letters or is_part or not words:
            words.append(_Word(letters or f"#{token}", (token,)))
        else:
            words[-1] = _Word(words[-1].letters, (*words[-1].tokens, token))
    return tuple(words)


def once(tokens: Sequence[int]) -> list[int]:
    """The tokens of a good text, time tokens included; what repeats itself without end comes once."""
    return list(without_repeats(tuple(tokens), _REPEATS_WITHOUT_END))


def without_repeats(tokens: tuple[Token, ...], at_least: int) -> tuple[Token, ...]:
    """The tokens with whatever comes `at_least` times in a row, or more often, only once.

    If it is broken off in the middle, that much of it stands twice, so that what follows goes on as it was.
    """
    for start in range(len(tokens)):
        for period in range(1, (len(tokens) - start) // at_least + 1):
            end = start + period
            while end < len(tokens) and tokens[end] == tokens[end - period]:
                end += 1
            if end - start >= at_least * period:
                return tokens[: start + period + (end - start) % period] + without_repeats(
                    tokens[end:], at_least
                )
    return tokens
