"""What a Whisper may write, and how likely it found what it wrote: while it writes, at little cost.

transformers' own rules make their masks anew at each token, and judging a text afterwards takes another pass
of the decoder; on a CPU both are felt with small models.
"""

import math
from collections.abc import Sequence
from typing import Any


class Forbidden:
    """Tokens that are never written, and some that do not come first; as a logits processor."""

    def __init__(self, always: Sequence[int], first: Sequence[int], begin: int) -> None:
        """`first` are not written at position `begin`, the end of the prompt."""
        self._always = tuple(always)
        self._first = tuple({*always, *first})
        self._begin = begin

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores (clips × beams, tokens) with those of forbidden tokens at minus infinity."""
        import torch

        tokens = self._first if input_ids.shape[-1] == self._begin else self._always
        if not tokens:
            return scores
        return scores.index_fill(1, torch.tensor(tokens, device=scores.device), -math.inf)


class ChosenLogprobs:
    """Notes how likely each token was that a greedy search wrote, before any rule forbade another.

    A logits processor that changes nothing and comes before all others. One step's probabilities are kept.
    """

    def __init__(self) -> None:
        self._step: Any = None
        self._chosen: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Takes scores (clips, tokens) that nothing was done to."""
        import torch

        self._note(input_ids[:, -1])
        self._step = torch.log_softmax(scores.float(), dim=-1)
        return scores

    def averages(self, rows: Any, length: int, end: int) -> list[float | None]:
        """Mean natural logarithm over each row's tokens behind a prompt of `length`, its end token included.

        None where a row ended for want of room. `rows` (clips, tokens) are what the search gave.
        """
        import torch

        self._note(rows[:, -1])
        self._step = None
        odds = torch.stack(self._chosen, dim=1).tolist()
        found: list[float | None] = []
        for row, chosen in zip(rows[:, length:].tolist(), odds, strict=True):
            count = row.index(end) + 1 if end in row else 0
            found.append(sum(chosen[:count]) / count if count else None)
        return found

    def _note(self, tokens: Any) -> None:
        if self._step is not None:
            self._chosen.append(self._step.gather(1, tokens[:, None])[:, 0])
