"""The memory oracle, against the allocator of real steps on this machine, and against its own rules."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from studio.memory.plan import Part, Phase, TrainingPlan
from studio.memory.trace.ledger import PARTS, Ledger
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.registry.catalog import find_released
from studio.registry.parameters import count_parameters
from studio.registry.spec import ModelDimensions
from tests.unit.memory.real_step import measured_peak_bytes
from tests.unit.whisper_on_meta import DEMO_LIKE

_POSITIONS = {"tiny": 750, "base": 400, "small": 150}
"""Shorter windows than 30 seconds, so that the larger models run in seconds on one core."""
_QUERY_VALUE = ("q_proj", "v_proj")

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("tiny", {"method": "full", "precision": "fp32", "batch_size": 2}),
    ("tiny", {"method": "full", "precision": "bf16", "gradient_checkpointing": True, "batch_size": 2}),
    ("tiny", {"method": "full", "attention": "eager", "gradient_accumulation_steps": 2}),
    ("tiny", {"method": "frozen_encoder", "optimizer": "adamw_torch", "label_length": 128}),
    ("tiny", {"method": "lora", "base_dtype": "bf16"}),
    ("tiny", {"method": "dora", "precision": "fp32", "target_modules": _QUERY_VALUE}),
    ("tiny", {"method": "adalora", "precision": "fp32", "gradient_checkpointing": True}),
    ("tiny", {"method": "lora", "quantization": "8bit", "gradient_checkpointing": True}),
    ("base", {"method": "full", "precision": "pure_bf16", "optimizer": "adamw_torch"}),
    ("base", {"method": "lora", "precision": "fp32", "gradient_checkpointing": True, "use_reentrant": True}),
    ("base", {"method": "lora", "quantization": "4bit", "target_modules": _QUERY_VALUE}),
    ("base", {"method": "full", "precision": "fp32", "optimizer": "adafactor"}),
    ("small", {"method": "full", "precision": "fp32", "gradient_checkpointing": True}),
    ("small", {"method": "lora", "precision": "bf16"}),
]


def dimensions_of(name: str, **values: Any) -> ModelDimensions:
    model = find_released(name)
    assert model is not None
    return dataclasses.replace(model.dimensions, **values)


@pytest.mark.parametrize(("name", "values"), STEPS, ids=lambda value: str(value))
def test_a_trace_tells_what_the_allocator_of_a_real_step_saw(name: str, values: dict[str, Any]) -> None:
    from studio.memory.trace.step import CPU, trace_step

    plan = TrainingPlan(**{"batch_size": 1, "label_length": 24, "lora_r": 8, **values})
    dimensions = dimensions_of(name, max_source_positions=_POSITIONS[name])
    assert trace_step(plan, dimensions, CPU).peak_bytes == pytest.approx(
        measured_peak_bytes(plan, dimensions), rel=0.005
    )
