"""Windows to tokens: the search is repeated at higher temperatures while a text is unsure or a loop.

After Radford et al. (2022), Robust Speech Recognition via Large-Scale Weak Supervision, section 4.5. Windows
are decoded together; those whose text is not good enough go on without the others.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from studio.transcription.engine import USUAL_BEAMS, TranscribeOptions
from studio.transcription.loops import cut_loop, is_loop, once
from studio.transcription.window_model import Search, WindowModel, Written

_TOKENS_A_SECOND = 50
"""More than anybody says, also in scripts that take three tokens a letter."""
_TOKENS_AT_LEAST = 24
"""Whatever the length: punctuation, and a word said quickly."""


@dataclass(frozen=True)
class Window:
    """What a model is to write down."""

    prompt: Sequence[int]
    seconds: float
    """Its length without padding."""
    is_once: bool = False
    """Heard at the first temperature alone, and not taken for silence: somebody speaks, but who judges a word
    by itself is never sure of it."""


@dataclass(frozen=True)
class Decoded:
    """The text of a window, and what is to be thought of it."""

    tokens: list[int]
    is_sure: bool = False
    """At some temperature it was neither unsure nor a loop."""
    is_stuck: bool = False
    """It was a loop that no temperature got rid of; of it, the first round is left."""
    temperature: float = 0.0
    """At which it was found."""
    average_logprob: float = -math.inf
    """Mean natural logarithm of the probability of each token; no text and a loop are the least likely."""


class _Choice:
    """What was written of one window so far."""

    def __init__(self) -> None:
        self.first: Written | None = None
        self.temperature = 0.0
        """Of the best."""
        self.best: Written | None = None
        """Of those that do not repeat themselves, the surest."""
        self.is_silence = self.is_sure = False

    def result(self, model: WindowModel) -> Decoded:
        """The text to take."""
        if self.is_silence or self.first is None:
            return Decoded([])
        if self.best is not None:
            return Decoded(
                once(self.best.tokens),
                is_sure=self.is_sure,
                temperature=self.temperature,
                average_logprob=self.best.average_logprob,
            )
        tokens = cut_loop(_plain(model, self.first), model.decoded, was_cut=True)
        return Decoded(tokens, is_stuck=True)


def decode(
    model: WindowModel, encoded: Any, windows: Sequence[Window], options: TranscribeOptions
) -> list[Decoded]:
    """The text of each window, or none where probably nobody speaks; `encoded` has their hidden states.

    If no temperature gives a good text, the surest of those that do not repeat themselves is taken.
    """
    choices = [_Choice() for _ in windows]
    limits = [_limit(model, window, options) for window in windows]
    waiting = list(range(len(windows)))
    for temperature in options.temperature:
        unsure = []
        for numbers in _alike(waiting, windows, model.tokens.no_timestamps):
            search = Search(
                options.num_beams or USUAL_BEAMS,
                temperature,
                max(limits[number] for number in numbers),
                options.suppress_tokens,
                options.logprob_threshold,
            )
            states = encoded if len(numbers) == len(windows) else model.rows(encoded, numbers)
            prompts = [windows[number].prompt for number in numbers]
            found = model.generate(states, prompts, search, [windows[number].seconds for number in numbers])
            for number, written in zip(numbers, found, strict=True):
                is_settled = _is_settled(
                    model, choices[number], windows[number], written, temperature, limits[number], options
                )
                if not is_settled and not windows[number].is_once:
                    unsure.append(number)
        waiting = sorted(unsure)
        if not waiting:
            break
    return [choice.result(model) for choice in choices]


def _limit(model: WindowModel, window: Window, options: TranscribeOptions) -> int:
    """How many tokens a window may have: none that can be said is longer, and a loop ends here."""
    room = model.text_context - len(window.prompt)
    longest = int(_TOKENS_AT_LEAST + _TOKENS_A_SECOND * window.seconds)
    return min(room, options.max_new_tokens or room, longest)


def _alike(numbers: Iterable[int], windows: Sequence[Window], no_timestamps: int) -> Iterator[list[int]]:
    """Windows with equally long prompts, all with times or none: only those can be decoded together."""

    def kind(number: int) -> tuple[int, bool]:
        """The length of the prompt, and whether it asks for no times."""
        prompt = windows[number].prompt
        return len(prompt), no_timestamps in prompt

    for _, group in groupby(sorted(numbers, key=kind), key=kind):
        yield list(group)


def _is_settled(
    model: WindowModel,
    choice: _Choice,
    window: Window,
    written: Written,
    temperature: float,
    limit: int,
    options: TranscribeOptions,
) -> bool:
    """Notes a text; whether it is good enough, or silence."""
    choice.first = choice.first or written
    is_unsure = written.average_logprob < options.logprob_threshold
    is_silence = is_unsure and written.no_speech_probability > options.no_speech_threshold
    if is_silence and not window.is_once:
        choice.is_silence = True
        return True
    was_cut = len(written.tokens) >= limit
    threshold = options.compression_ratio_threshold
    if is_loop(model.text_of(written.tokens), was_cut=was_cut, threshold=threshold):
        return False
    if choice.best is None or written.average_logprob > choice.best.average_logprob:
        choice.best, choice.temperature = written, temperature
    choice.is_sure = not is_unsure
    return choice.is_sure


def write(
    model: WindowModel,
    encoded: Any,
    prompts: Sequence[Sequence[int]],
    search: Search,
    *,
    cuts_loops: bool = True,
) -> list[Written]:
    """What the first search finds, whatever it is worth; if it `cuts_loops`, a text stuck in one ends after
    its first round."""
    room = model.text_context - len(prompts[0])
    limit = min(search.max_new_tokens or room, room)
    found = model.generate(encoded, prompts, search)
    if not cuts_loops:
        return found
    cut = [cut_loop(_plain(model, one), model.decoded, was_cut=len(one.tokens) >= limit) for one in found]
    return [replace(one, tokens=tokens) for one, tokens in zip(found, cut, strict=True)]


def _plain(model: WindowModel, written: Written) -> list[int]:
    """Without time tokens."""
    return [token for token in written.tokens if token < model.tokens.end]
