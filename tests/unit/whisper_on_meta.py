"""Real Whisper models on torch's meta device: every shape, no memory."""

from typing import Any

from studio.registry.spec import ModelDimensions

TINY = ModelDimensions(384, 4, 4, 6, 6, 1536, 1536, 51865)
DEMO_LIKE = ModelDimensions(128, 3, 2, 4, 4, 512, 384, 470)
"""Few layers, different ones in encoder and decoder, a small vocabulary."""


def make_whisper_on_meta(dimensions: ModelDimensions) -> Any:
    """`WhisperForConditionalGeneration` of these dimensions."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    special = {
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "decoder_start_token_id": 1,
        "dropout": 0.0,
        "use_cache": False,
    }
    with torch.device("meta"):
        return WhisperForConditionalGeneration(WhisperConfig(**dimensions.__dict__, **special))
