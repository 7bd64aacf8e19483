"""The decoder alone: what the encoder hears stays as it is."""

from typing import Any

from studio.methods.full import Full
from studio.sentences import Sentence


class FrozenEncoder(Full):
    """All weights of the decoder."""

    key = "frozen_encoder"
    label = "Decoder only (encoder frozen)"
    trains_encoder = False
    switches = ("freeze_encoder",)
    smaller = ("lora",)
    instead = (
        Sentence("Train the decoder only"),
        Sentence("The encoder stays as it is: less can be learned about new voices, noise and channels."),
    )

    def mark_trained(self, model: Any) -> None:
        """As transformers freezes it."""
        model.freeze_encoder()
