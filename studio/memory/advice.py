"""What to train by how much speech there is, and the largest model for which that fits."""

from dataclasses import dataclass

from studio.messages import Message
from studio.options.checks import check_between
from studio.registry.catalog import find_released

FEW_HOURS, MANY_HOURS = 10.0, 50.0
MODELS = tuple(
    model
    for name in ("large-v3", "large-v3-turbo", "medium", "small", "base", "tiny")
    if (model := find_released(name)) is not None
)
"""Models to start from, the most accurate first."""


@dataclass(frozen=True)
class Advice:
    """A method for an amount of speech."""

    method: str
    lora_r: int
    reason: Message


def advise(hours: float) -> Advice:
    """The method that suits so many hours of transcribed speech; 0 if nobody knows yet.

    Raises:
        ConfigError: if it is no number of hours.
    """
    check_between("hours", hours, 0, 1_000_000)
    if hours == 0:
        return Advice("lora", 32, _UNKNOWN)
    if hours < FEW_HOURS:
        return Advice("lora", 16, _FEW)
    if hours <= MANY_HOURS:
        return Advice("lora", 32, _SOME)
    return Advice("full", 64, _MANY)


_UNKNOWN = Message(
    "Without a number of hours: LoRA, which suits most amounts of speech. Say how many you have for better "
    "advice."
)
_FEW = Message(
    "Under 10 hours: LoRA of a low rank. There is too little to move all weights without forgetting what the "
    "model knows, so take the largest model that fits: the more it knows, the less it must be taught."
)
_SOME = Message(
    "10 to 50 hours: LoRA on all linear layers. It learns nearly as much as training all weights would, "
    "forgets less, and leaves room for a larger model."
)
_MANY = Message(
    "Over 50 hours: enough to train all weights, where they fit. Where they do not, the decoder alone or "
    "LoRA of rank 64 comes close."
)
