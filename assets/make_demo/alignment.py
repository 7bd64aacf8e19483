"""Which cross-attention heads tell the time of a word best; they become the model's alignment heads."""

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers import WhisperForConditionalGeneration, WhisperTokenizer
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter

from .batches import Targets, pad_features
from .clips import Clip
from .model import DECODER_LAYERS, HEADS

Heads = list[list[int]]
_SECONDS_PER_POSITION = 0.02
_MEDIAN_WIDTH = 7


def choose_heads(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, clips: Sequence[Clip]
) -> tuple[Heads, float]:
    """The best set of (layer, head) on clips, and its median error in seconds.

    Heads are ranked one by one, then the best one, two, three … are tried together.
    """
    targets = Targets(tokenizer)
    cases = [case for clip in clips if (case := _attend(model, tokenizer, targets, clip)) is not None]
    every = [[layer, head] for layer in range(DECODER_LAYERS) for head in range(HEADS)]
    ranked = sorted(every, key=lambda head: _median_error(cases, [head]))
    sets = [ranked[:count] for count in range(1, len(ranked) + 1)]
    errors = [_median_error(cases, heads) for heads in sets]
    best = int(np.argmin(errors))
    return sorted(sets[best]), errors[best]


Case = tuple[torch.Tensor, list[int], list[float]]


def _attend(
    model: WhisperForConditionalGeneration, tokenizer: WhisperTokenizer, targets: Targets, clip: Clip
) -> Case | None:
    """Attention (layers, heads, text tokens, positions), first token of each word, start of each word."""
    words = [word for segment in clip.segments for word in segment.text.split()]
    starts = [start for segment in clip.segments for start in segment.word_starts]
    if len(words) != len(starts):
        return None
    tokens, _, _ = targets.sequence(Clip(clip.features, clip.segments), False, random.Random(0))
    with torch.no_grad():
        output = model(
            input_features=pad_features([clip], 3000).to(model.device, model.dtype),
            decoder_input_ids=torch.tensor([tokens], device=model.device), output_attentions=True,
        )  # fmt: skip
    positions = clip.features.shape[1] // 2
    weights = torch.stack([layer[0] for layer in output.cross_attentions])[:, :, 3:-1, :positions]
    first = [
        i
        for i, token in enumerate(tokens[4:-1])
        if str(tokenizer.convert_ids_to_tokens(token)).startswith("\u0120")
    ]
    return (weights.float().cpu(), first, starts) if len(first) == len(words) else None


def token_starts(weights: torch.Tensor, heads: Heads) -> npt.NDArray[np.float64]:
    """When each text token starts, seconds, by Whisper's dynamic time warping over the heads' attention."""
    chosen = torch.stack([weights[layer, head] for layer, head in heads])
    deviation, mean = torch.std_mean(chosen, dim=-2, keepdim=True, unbiased=False)
    smooth = _median_filter(((chosen - mean) / (deviation + 1e-9))[None], _MEDIAN_WIDTH)[0]
    text, times = _dynamic_time_warping(-smooth.mean(0).double().numpy())
    jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
    starts: npt.NDArray[np.float64] = times[jumps] * _SECONDS_PER_POSITION
    return starts


def _median_error(cases: list[Case], heads: Heads) -> float:
    errors = [np.abs(token_starts(weights, heads)[first] - starts) for weights, first, starts in cases]
    return float(np.median(np.concatenate(errors)))
