"""Presets: for common cards, for as little memory as possible, for Breeze on a small card."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from studio.actions.fit import FitAnswer, FitQuestion, find_fit
from studio.memory.gpus import card
from studio.memory.myths import Claim, claim
from studio.messages import Message
from studio.options.checks import check_choice
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry

MACHINE = "machine"
"""Key of the preset for the machine that the studio runs on."""


@dataclass(frozen=True)
class Preset:
    """A question that many have, and what they may have read about it."""

    key: str
    title: Message
    question: FitQuestion
    claim_key: str

    @property
    def claim(self) -> Claim:
        """What guides say, and what is true."""
        return _claim(self.claim_key)


def preset_answers(registry: ModelRegistry) -> tuple[tuple[Preset, FitAnswer], ...]:
    """Every preset with the run that fits its card."""
    return tuple((row, find_fit(row.question, registry)) for row in PRESETS)


def preset_config(key: str, base_model: str, registry: ModelRegistry) -> TrainingConfig:
    """The run of a preset. `machine` is the best for `base_model` on this machine's GPU; without a GPU, one
    that a processor can do: a small adapter, and few clips at a time.

    Raises:
        ConfigError: if there is no such preset, or nothing is known of the model's shape.
        ModelNotFoundError: if there is no such model.
    """
    if key != MACHINE:
        return find_fit(preset(key).question, registry).config
    if card("") is not None:
        return find_fit(FitQuestion(base_model=base_model), registry).config
    registry.get(base_model)
    return TrainingConfig(
        base_model=base_model,
        lora_r=8,
        lora_alpha=16,
        precision="fp32",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        per_device_eval_batch_size=4,
    )


def preset_row(row: Preset, answer: FitAnswer) -> dict[str, Any]:
    """For JSON: our figures beside what guides say."""
    return {
        "preset": row.key,
        "title": str(row.title),
        "said": str(row.claim.said),
        "truth": str(row.claim.truth),
        **answer.to_json(),
    }


@cache
def _claim(key: str) -> Claim:
    return claim(key)


def preset(key: str) -> Preset:
    """The preset of that name.

    Raises:
        ConfigError: if there is none.
    """
    by_key = {row.key: row for row in PRESETS}
    check_choice("preset", key, by_key)
    return by_key[key]


PRESETS: tuple[Preset, ...] = (
    Preset("8gb", Message("A card with 8 GB"), FitQuestion(gpu="GeForce RTX 4060"), "bits"),
    Preset(
        "12gb",
        Message("large-v3 on a card with 12 GB"),
        FitQuestion(gpu="GeForce RTX 3060", base_model="openai/whisper-large-v3"),
        "twelve",
    ),
    Preset(
        "16gb",
        Message("large-v3 on a card with 16 GB"),
        FitQuestion(gpu="GeForce RTX 4060 Ti 16 GB", base_model="openai/whisper-large-v3"),
        "batch",
    ),
    Preset(
        "24gb",
        Message("All of large-v3 on a card with 24 GB"),
        FitQuestion(gpu="GeForce RTX 4090", base_model="openai/whisper-large-v3", hours=100),
        "full",
    ),
    Preset(
        "minimal",
        Message("Minimal: turbo in 4 GiB"),
        FitQuestion(memory_gib=4, base_model="openai/whisper-large-v3-turbo"),
        "audio",
    ),
    Preset(
        "aggressive",
        Message("Aggressive: large-v3 in 3.5 GiB, by every means"),
        FitQuestion(memory_gib=3.5, base_model="openai/whisper-large-v3"),
        "half",
    ),
    Preset(
        "breeze",
        Message("Breeze on a card with 8 GB"),
        FitQuestion(gpu="GeForce RTX 4060", base_model="MediaTek-Research/Breeze-ASR-25"),
        "weight",
    ),
)
