"""The loss with smoothed labels: `label_smoothing_factor` of the trainer, for a model that shifts its labels.

transformers' own smoother takes the labels out of the batch, from which Whisper makes its decoder's input.
"""

from typing import Any

import torch
from torch.nn import functional

IGNORED = -100


def smoothed_loss(model: Any, inputs: dict[str, torch.Tensor], config: Any, factor: float) -> torch.Tensor:
    """Mean over the tokens of (1 - factor) × their own loss + factor × the mean loss of all tokens.

    `config` is the Whisper's: padding and start token. The logits are raised to float32 first, as the
    trainer does with a model's outputs under autocast.
    """
    from transformers.models.whisper.modeling_whisper import shift_tokens_right

    labels = inputs["labels"]
    shift: Any = shift_tokens_right
    rest = {name: value for name, value in inputs.items() if name != "labels"}
    if "decoder_input_ids" not in rest:
        rest["decoder_input_ids"] = shift(labels, config.pad_token_id, config.decoder_start_token_id)
    logits = model(**rest).logits
    return functional.cross_entropy(
        logits.view(-1, logits.shape[-1]).float(),
        labels.view(-1),
        ignore_index=IGNORED,
        label_smoothing=factor,
    )
