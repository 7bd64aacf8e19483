"""Full fine-tuning: all weights of the model are trained."""

from studio.methods.method import Method


class Full(Method):
    """All weights."""

    key = "full"
    label = "All weights"
    is_adapter = False
    learning_rates = ((0, 5e-4), (384, 3.75e-5), (512, 2.5e-5), (768, 1.25e-5), (1024, 6.25e-6), (1280, 5e-6))
    """A fortieth of what OpenAI pre-trained each size with (Whisper paper, table 17), as its authors
    advise."""
    smaller: tuple[str, ...] = ("frozen_encoder", "lora")
