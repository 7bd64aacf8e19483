"""What is to be measured, and what was predicted for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import psutil

from studio.errors import ConfigError
from studio.memory.plan import MemoryEstimate, TrainingPlan
from studio.memory.training import estimate_training
from studio.options.arguments import config_from_dict, config_to_dict
from studio.options.training import FIELDS, TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.training.plan import training_plan
from studio.units import GIB, format_bytes

STEPS = 2
"""The second one meets the optimizer's states that the first has made."""
_LIBRARIES_BYTES = round(1.2 * GIB)
"""What a process holds for Python, torch and transformers before it has a tensor."""
_ON_PROCESSOR = 2.1
"""Times the tensors of a step on a GPU: so much the processes of runs grew at most, beside the libraries.
Measured with 8 clips a step and LoRA, whose dropout keeps larger masks on a processor (whisper-tiny: 2.1; the
demo model: 1.0), and with 4 and all weights (1.0)."""


def process_bytes(estimate: MemoryEstimate) -> int:
    """The most of main memory that the process of a run may take without a GPU."""
    return round(_ON_PROCESSOR * max(estimate.phases.values())) + _LIBRARIES_BYTES


@dataclass(frozen=True)
class ProbeQuestion:
    """A run of which two steps are made, each with the worst batch."""

    config: TrainingConfig
    dimensions: ModelDimensions
    label_length: int
    """Tokens of every text: the longest there may be."""

    def run_config(self) -> TrainingConfig:
        """The run as the worker carries it out: one process, two steps of full windows, no checkpoint.

        What it would read (an adapter to start from, weights of files, noises) does not change its memory.
        """
        as_usual = {
            name: f.metadata["in_probe"] for name, f in FIELDS.items() if f.metadata["in_probe"] != ...
        }
        return replace(self.config.alone(), max_steps=STEPS, **as_usual)

    def plan(self, *, has_gpu: bool, precision: str = "") -> TrainingPlan:
        """For the calculator; `precision` is what the card really takes, if that is known."""
        config = self.run_config()
        if precision:
            config = replace(config, precision=precision)
        # Its steps are of clips alone: nothing is rehearsed beside them.
        plan = training_plan(config, has_gpu)
        return replace(plan, label_length=self.label_length, window_label_length=0)

    def estimate(self, *, has_gpu: bool, precision: str = "") -> MemoryEstimate:
        """What is predicted, without any correction."""
        return estimate_training(self.plan(has_gpu=has_gpu, precision=precision), self.dimensions)

    def check_main_memory(self) -> None:
        """For a measurement without a GPU: refuses what this machine has no room for.

        Raises:
            ConfigError: says what it needs and what is there.
        """
        needed = process_bytes(self.estimate(has_gpu=False))
        available = int(psutil.virtual_memory().available)
        if needed > available:
            raise ConfigError(
                "There is no GPU here, and on the processor these steps need about {needed} of main memory, "
                "of which {available} are free: take a smaller model or batch.",
                needed=format_bytes(needed),
                available=format_bytes(available),
            )

    def to_json(self) -> dict[str, Any]:
        """For the process that measures."""
        return {
            "config": config_to_dict(self.config),
            "dimensions": dict(self.dimensions.__dict__),
            "label_length": self.label_length,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "ProbeQuestion":
        """What `to_json` wrote."""
        return cls(
            config_from_dict(row["config"]), ModelDimensions(**row["dimensions"]), int(row["label_length"])
        )
