"""The runs that are measured on a card, and what was predicted for them before anybody measured.

`python -m tests.gpu.plans` writes the predictions to `predictions.json`, which is committed: what a card says
is compared with what was said first. Every third plan is held back: no correction learns from it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.memory.inference import estimate_inference
from studio.memory.inference_plan import InferencePlan
from studio.memory.overhead import on_card, step_figures
from studio.memory.plan import MemoryEstimate
from studio.memory.trace.store import library_versions
from studio.options.training import TrainingConfig
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions
from studio.training.probe.question import ProbeQuestion

PREDICTIONS = Path(__file__).parent / "predictions.json"
LABEL_LENGTH = 128
OTHER = "other"
ARCHITECTURES = (OTHER, "Hopper")
"""Cards that are predicted for: an architecture, and all of which nothing is known."""
FIGURES = ("allocated_bytes", "reserved_bytes", "device_bytes", "low_bytes", "high_bytes")


@dataclass(frozen=True)
class TrainingCase:
    """One run of which two steps are measured."""

    model: str
    batch_size: int
    options: dict[str, Any] = field(default_factory=dict)
    is_held_back: bool = False

    @property
    def name(self) -> str:
        """What it is, in a line."""
        said = [f"{key} {value}" if value is not True else key for key, value in self.options.items()]
        return ", ".join([self.model, f"batch {self.batch_size}", *said])

    def question(self) -> ProbeQuestion:
        """For the measurement."""
        options = {"precision": "bf16", **self.options}
        config = TrainingConfig(base_model=self.model, per_device_train_batch_size=self.batch_size, **options)
        return ProbeQuestion(config, dimensions_of(self.model), LABEL_LENGTH)

    def estimate(self) -> MemoryEstimate:
        """What is predicted today."""
        return self.question().estimate(has_gpu=True)


@dataclass(frozen=True)
class InferenceCase:
    """One transcription that is measured."""

    model: str
    plan: InferencePlan

    @property
    def name(self) -> str:
        """What it is, in a line."""
        p = self.plan
        return f"{self.model}, {p.engine}, {p.precision}, batch {p.batch_size}, {p.num_beams} beams"

    def estimate(self) -> MemoryEstimate:
        """What is predicted today, of texts as long as there may be: the measurement writes such."""
        return estimate_inference(self.plan, dimensions_of(self.model), self.plan.max_length)


_CHECKPOINTING = {"gradient_checkpointing": True}
_RUNS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("tiny", 8, {"method": "full"}),
    ("tiny", 16, {"method": "lora", **_CHECKPOINTING}),
    ("base", 16, {"method": "full"}),
    ("base", 8, {"method": "lora", "quantization": "8bit", **_CHECKPOINTING}),
    ("small", 8, {"method": "lora"}),
    ("small", 4, {"method": "full", **_CHECKPOINTING}),
    ("small", 8, {"method": "lora", "quantization": "4bit", **_CHECKPOINTING}),
    ("small", 4, {"method": "adalora"}),
    ("small", 8, {"method": "dora", "gradient_accumulation_steps": 2}),
    ("medium", 4, {"method": "full", **_CHECKPOINTING}),
    ("medium", 8, {"method": "lora", "quantization": "8bit", **_CHECKPOINTING}),
    ("medium", 8, {"method": "lora"}),
    ("large-v3", 4, {"method": "lora"}),
    ("large-v3", 4, {"method": "lora", "quantization": "4bit", **_CHECKPOINTING}),
    ("large-v3", 8, {"method": "lora", **_CHECKPOINTING}),
    ("large-v3-turbo", 2, {"method": "frozen_encoder", **_CHECKPOINTING}),
    ("base", 32, {"method": "lora", "precision": "fp16"}),
    ("large-v3-turbo", 8, {"method": "lora"}),
)
TRAINING = tuple(
    TrainingCase(model, batch, options, is_held_back=number % 3 == 2)
    for number, (model, batch, options) in enumerate(_RUNS)
)
INFERENCE = (
    InferenceCase("tiny", InferencePlan(batch_size=8)),
    InferenceCase("small", InferencePlan(batch_size=4, num_beams=5)),
    InferenceCase("large-v3", InferencePlan(batch_size=1, num_beams=5)),
    InferenceCase("tiny", InferencePlan(engine="faster-whisper", batch_size=8, num_beams=5)),
    InferenceCase("tiny", InferencePlan(engine="faster-whisper", precision="int8", batch_size=8)),
)


def dimensions_of(model: str) -> ModelDimensions:
    """Of a released model."""
    found = find_released(model)
    assert found is not None
    return found.dimensions


def predictions(architecture: str) -> list[dict[str, Any]]:
    """What is predicted today for every case on a card, under its name."""
    rows = []
    for case in (*TRAINING, *INFERENCE):
        estimate = on_card(case.estimate(), architecture)
        if isinstance(case, TrainingCase):  # two steps are measured, without evaluation and resuming
            figures = step_figures(estimate)
        else:
            figures = {key: getattr(estimate, key) for key in FIGURES}
        rows.append({"name": case.name, **{key: figures[key] for key in FIGURES}})
    return rows


def committed(architecture: str) -> dict[str, dict[str, Any]]:
    """What was predicted before for a card, by the name of the case."""
    said = json.loads(PREDICTIONS.read_text(encoding="utf-8"))["predictions"]
    return {row["name"]: row for row in said[architecture if architecture in said else OTHER]}


def main() -> None:
    """Writes the predictions, a line each, so that a change shows."""
    head = json.dumps({"label_length": LABEL_LENGTH, "versions": library_versions()})[:-1]
    of_cards = []
    for architecture in ARCHITECTURES:
        lines = ",\n".join(json.dumps(row) for row in predictions(architecture))
        of_cards.append(f'"{architecture}": [\n{lines}\n]')
    PREDICTIONS.write_text(f'{head}, "predictions": {{{", ".join(of_cards)}}}}}\n', encoding="utf-8")
    print(f"predictions for {', '.join(ARCHITECTURES)} in {PREDICTIONS}")


if __name__ == "__main__":
    main()
