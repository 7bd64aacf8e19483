"""What is saved, or would be, without touching the result much: the loss in chunks, and short audio."""

from dataclasses import dataclass, replace

from studio.memory.calibration import Calibration
from studio.memory.ladder import sized
from studio.memory.plan import TrainingPlan
from studio.messages import Message
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes
from studio.whisper.audio_context import POSITIONS, positions_of

CHUNK = 256
"""Tokens of a chunk where a plan has none: as `TrainingConfig` has it unless told."""
SECONDS = 10
"""Longest clip of a list of short ones, where a plan knows of 30-second windows only."""
_POSITIONS_A_SECOND = 50


@dataclass(frozen=True)
class Saving:
    """One of them."""

    key: str
    """The option of a run."""
    is_on: bool
    """Whether the plan has it."""
    saves_bytes: int
    """Of the device's total, in the middle of its range: with it against without it, all else as it is."""
    sentence: Message

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "option": self.key,
            "is_on": self.is_on,
            "saves_bytes": self.saves_bytes,
            "sentence": str(self.sentence),
        }


def savings(
    plan: TrainingPlan, dimensions: ModelDimensions, known: Calibration | None = None
) -> tuple[Saving, ...]:
    """What each of the two saves in this plan, or would save; `known` was measured on the card."""

    def device_bytes(changed: TrainingPlan) -> int:
        """What the changed run takes on the card."""
        return sized(changed, dimensions, known).device_bytes

    now = device_bytes(plan)
    chunked = bool(plan.loss_chunk_size)
    chunk = device_bytes(replace(plan, loss_chunk_size=0 if chunked else CHUNK))
    is_short = plan.audio_positions < POSITIONS
    audio = device_bytes(_padded(plan) if is_short else _short(plan))
    return (
        _saving("loss_chunk_size", chunked, max(0, chunk - now if chunked else now - chunk), plan),
        _saving("short_audio", is_short, max(0, audio - now if is_short else now - audio), plan),
    )


def _short(plan: TrainingPlan) -> TrainingPlan:
    return replace(plan, audio_positions=positions_of(SECONDS), has_padded_batches=True)


def _padded(plan: TrainingPlan) -> TrainingPlan:
    return replace(plan, audio_positions=POSITIONS, has_padded_batches=False)


def _saving(key: str, is_on: bool, saves: int, plan: TrainingPlan) -> Saving:
    template = _SENTENCES[key, is_on] if saves else _NOTHING[key, is_on]
    sentence = Message(
        template.template,
        saved=format_bytes(saves),
        count=plan.loss_chunk_size or CHUNK,
        seconds=round(plan.audio_positions / _POSITIONS_A_SECOND) if is_on else SECONDS,
    )
    return Saving(key, is_on, saves, sentence)


_SENTENCES = {
    ("loss_chunk_size", True): Message(
        "The loss in chunks of {count} tokens saves {saved}, with the same result."
    ),
    ("loss_chunk_size", False): Message(
        "The loss in chunks of {count} tokens would save {saved}, with the same result."
    ),
    ("short_audio", True): Message(
        "Short-audio mode, with no clip longer than {seconds} s, saves {saved} against clips padded to 30 s."
    ),
    ("short_audio", False): Message(
        "Short-audio mode would save {saved} if no clip were longer than {seconds} s."
    ),
}
_NOTHING = {
    ("loss_chunk_size", True): Message(
        "The loss in chunks of {count} tokens saves nothing here: the peak is elsewhere."
    ),
    ("loss_chunk_size", False): Message(
        "The loss in chunks of {count} tokens would save nothing here: the peak is elsewhere."
    ),
    ("short_audio", True): Message(
        "Short-audio mode, with no clip longer than {seconds} s, saves nothing here: the peak is elsewhere."
    ),
    ("short_audio", False): Message(
        "Short-audio mode would save nothing here, even if no clip were longer than {seconds} s."
    ),
}
