"""The memory oracle, against the allocator of real steps on this machine, and against its own rules."""

import dataclasses
from typing import Any

import pytest

from studio.memory.plan import TrainingPlan
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions
from tests.unit.memory.real_step import measured_peak_bytes, traced_peak_bytes

_POSITIONS = {"tiny": 300, "base": 200, "small": 100}
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
    plan = TrainingPlan(**{"batch_size": 1, "label_length": 24, "lora_r": 8, **values})
    dimensions = dimensions_of(name, max_source_positions=_POSITIONS[name])
    assert traced_peak_bytes(plan, dimensions) == pytest.approx(
        measured_peak_bytes(plan, dimensions), rel=0.005
    )
