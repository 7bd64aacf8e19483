"""What times a Whisper may write: rules that transformers' own `WhisperTimeStampLogitsProcessor` lacks."""

import math
from collections.abc import Sequence
from typing import Any

from studio.transcription.special_tokens import SECONDS_PER_TOKEN


class WithinTheSound:
    """Forbids times after the end of a clip, in the padding where nothing can be said.

    Whisper's rule writes a time wherever the times together are likelier than each text token. Times that
    cannot be count there, too: where a model is unsure, as at a word it has just learned, they would cut the
    word in two.
    """

    def __init__(self, first_time: int, seconds: Sequence[float]) -> None:
        """`first_time` is the token `<|0.00|>`, `seconds` the length of each clip of a batch."""
        self._last = [first_time + math.ceil(length / SECONDS_PER_TOKEN) for length in seconds]
        self._mask: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """As a logits processor; scores (clips × beams, tokens), a clip's beams one after the other."""
        import torch

        if self._mask is None:
            last = torch.tensor(self._last, device=scores.device)
            last = last.repeat_interleave(len(scores) // len(last))
            tokens = torch.arange(scores.shape[-1], device=scores.device)
            self._mask = tokens > last[:, None]
        return scores.masked_fill(self._mask, -math.inf)
