"""Cross-entropy of a decoder's states, a chunk of tokens at a time: the logits are never there as a whole.

Whisper has 51,865 words to choose from, so that logits, their softmax and its gradient are the largest
tensors of a step with long texts. As in Liger kernels (Hsu et al. 2024, arXiv:2410.10989), each chunk's
gradient is taken in the forward pass, while its probabilities are there: nothing is computed twice, and
between the passes only the gradient of the states is kept (and that of the weight, if it is trained).
"""

import inspect
from types import MethodType
from typing import Any

import torch
from torch.nn import functional

IGNORED = -100


def chunked_cross_entropy(
    states: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    chunk_size: int,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Mean cross-entropy of `states @ weight.T` over the labels that are not -100, in float32.

    The same as `torch.nn.functional.cross_entropy` on the logits, with the same gradients.

    Args:
        states: (…, d_model).
        weight: (vocabulary, d_model).
        labels: (…), with -100 where nothing is to be learned.
        chunk_size: tokens whose logits are there at once.
        label_smoothing: share of the target that all words have in common.
    """
    states = states.reshape(-1, states.shape[-1])
    labels = labels.reshape(-1).to(states.device)
    wanted = (
        torch.is_grad_enabled() and states.requires_grad,
        torch.is_grad_enabled() and weight.requires_grad,
    )
    apply: Any = _ChunkedCrossEntropy.apply
    loss: torch.Tensor = apply(states, weight, labels, chunk_size, label_smoothing, wanted)
    return loss


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        chunk_size: int,
        smoothing: float,
        wanted: tuple[bool, bool],
    ) -> torch.Tensor:
        """States (tokens, d_model), weight (vocabulary, d_model), labels (tokens): the mean loss, a scalar.

        `wanted`: whether gradients of the states and of the weight are.
        """
        # Tensors without memory stand for those of a GPU, where a step is traced.
        device = states.device.type if states.device.type != "meta" else "cuda"
        is_autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_autocast else states.dtype
        is_known = labels != IGNORED
        targets = labels.clamp_min(0)
        count = is_known.sum()
        state_gradient = torch.empty_like(states) if wanted[0] else None
        weight_gradient = torch.zeros_like(weight) if wanted[1] else None
        total = torch.zeros((), dtype=torch.float32, device=states.device)
        with torch.autocast(device, enabled=False):
            lowered = weight.to(dtype)
            for first in range(0, len(states), chunk_size):
                part = slice(first, first + chunk_size)
                chunk = states[part].to(dtype)
                losses, slope = _chunk(chunk, lowered, targets[part], smoothing, is_wanted=any(wanted))
                total += (losses * is_known[part]).sum()
                if slope is None:
                    continue
                # Not divided by the count yet: float16 would lose numbers that small.
                slope = slope.mul_(is_known[part, None]).to(dtype)
                if state_gradient is not None:
                    state_gradient[part] = slope @ lowered
                if weight_gradient is not None and weight_gradient.dtype == dtype:
                    weight_gradient.addmm_(slope.T, chunk)
                elif weight_gradient is not None:
                    weight_gradient += slope.T @ chunk
                del slope  # or the next chunk's would be made beside it
        ctx.count = count
        # Not as saved tensors: they are scaled in place and handed on, once.
        ctx.gradients = (state_gradient, weight_gradient)
        return total / count

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients that were made with the loss, times the one of the loss."""
        scale = gradients[0] / ctx.count
        made, ctx.gradients = ctx.gradients, None
        for gradient in made:
            if gradient is not None:
                gradient.mul_(scale)
        return *made, None, None, None, None


def _chunk(
    states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, smoothing: float, *, is_wanted: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Loss of each token, and the gradient of the logits, made in their place."""
    logits = functional.linear(states, weight).float()
    chosen = logits.gather(1, targets[:, None])[:, 0]
    shared = logits.mean(dim=1) if smoothing else 0.0
    highest = logits.amax(dim=1)
    odds = logits.sub_(highest[:, None]).exp_()
    sums = odds.sum(dim=1)
    losses = highest + sums.log() - (1 - smoothing) * chosen - smoothing * shared
    if not is_wanted:
        return losses, None
    slope = odds.div_(sums[:, None])
    if smoothing:
        slope.sub_(smoothing / slope.shape[1])
    slope.scatter_add_(1, targets[:, None], torch.full_like(slope[:, :1], smoothing - 1))
    return losses, slope


def use_chunked_loss(model: Any, chunk_size: int, label_smoothing: float = 0.0) -> None:
    """Lets a `WhisperForConditionalGeneration` take its loss in chunks where it is given labels.

    Its results have no logits then. Labels are smoothed in training only. What is saved of the model does not
    change.
    """
    plain = type(model).forward

    def forward(self: Any, input_features: Any = None, *, labels: Any = None, **options: Any) -> Any:
        """As the model's own; given labels, with their loss and without logits."""
        from transformers.modeling_outputs import Seq2SeqLMOutput
        from transformers.models.whisper.modeling_whisper import shift_tokens_right

        if labels is None:
            return plain(self, input_features, **options)
        if options.get("decoder_input_ids") is None:
            config = self.config
            options["decoder_input_ids"] = shift_tokens_right(
                labels, config.pad_token_id, config.decoder_start_token_id
            )
        outputs = self.model(input_features, **{**options, "use_cache": False})
        states, smoothing = outputs.last_hidden_state, label_smoothing if self.training else 0.0
        loss = chunked_cross_entropy(states, self.proj_out.weight, labels, chunk_size, smoothing)
        return Seq2SeqLMOutput(loss=loss, encoder_last_hidden_state=outputs.encoder_last_hidden_state)

    # Generation looks into it for what the model takes.
    forward.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    model.forward = MethodType(forward, model)
