"""The decoder alone: the encoder is frozen."""

from typing import Any

from studio.messages import Message
from studio.methods.full import Full


class FrozenEncoder(Full):
    """All weights of the decoder."""

    key = "frozen_encoder"
    label = "Decoder only (encoder frozen)"
    trains_encoder = False
    switches = ("freeze_encoder",)
    smaller = ("lora",)
    instead = (
        Message("Train the decoder only"),
        Message("The encoder stays as it is: less can be learned about new voices, noise and channels."),
    )

    def mark_trained(self, model: Any) -> None:
        """As transformers freezes it."""
        model.freeze_encoder()
