"""Beams that hear the same sound, which transformers gives each of them a copy of.

All beams of a window look at the same sound. Here its keys and values are computed once, kept once, and not
copied when a beam goes on from another one; the beams look at them together, as if they were tokens of one
text. The texts are the same (`tests/benchmarks/reports/beams.md`): whisper-tiny on one core, five beams: a
window in 0.6 of the time, eight together in 0.2.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_KERNEL = "sdpa"
"""What can look at keys and values that are fewer than the beams; of other kernels each beam has its own."""


def can_share(model: Any, beams: int) -> bool:
    """Whether there is something to share, and the model's attention can."""
    return beams > 1 and model.config._attn_implementation == _KERNEL


@contextmanager
def shared_sound(model: Any, encoded: Any) -> Iterator[Any]:
    """The cache to write texts with: hidden states (windows, positions, d_model) as keys and values of each
    layer of the decoder. Within it, the model takes rows (windows × beams) that look at them.

    `model` is a Whisper of which nobody else makes use meanwhile, and which `can_share`.
    """
    import torch

    config = model.config
    with torch.no_grad():
        shared = _cache_class().of(model, encoded)
    config._attn_implementation = _registered()
    try:
        yield shared
    finally:
        config._attn_implementation = _KERNEL


@cache
def _cache_class() -> Any:
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    class SharedSound(EncoderDecoderCache):
        """Texts so far, a beam each, and the sound, a window each."""

        @classmethod
        def of(cls, model: Any, encoded: Any) -> "SharedSound":
            """Nothing is written yet; the sound is read by each layer."""
            sound = DynamicCache()
            for number, layer in enumerate(model.get_decoder().layers):
                attention = layer.encoder_attn
                heads = (len(encoded), -1, attention.num_heads, attention.head_dim)
                keys = attention.k_proj(encoded).view(heads).transpose(1, 2).contiguous()
                values = attention.v_proj(encoded).view(heads).transpose(1, 2).contiguous()
                sound.update(keys, values, number)
            return cls(DynamicCache(), sound)

        def reorder_cache(self, beam_idx: Any) -> None:
            """Beams go on from others of the same window: their texts change places, the sound does not."""
            self.self_attention_cache.reorder_cache(beam_idx)

    return SharedSound


@cache
def _registered() -> str:
    """The name under which transformers knows the attention of beams that share."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> tuple[Any, None]:
        """Queries (windows × beams, heads, tokens, width) at keys of as many rows, or of windows."""
        rows, heads, tokens, width = query.shape
        beams = rows // len(key)
        if beams == 1:
            plain: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, mask, **more)
            return plain
        together = query.view(len(key), beams, heads, tokens, width).transpose(1, 2)
        together = together.reshape(len(key), heads, beams * tokens, width)
        more["is_causal"] = False
        found, _ = sdpa_attention_forward(module, together, key, value, None, **more)
        return found.reshape(rows, tokens, heads, width), None

    name = "sdpa_shared_sound"
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, sdpa_mask)
    return name
