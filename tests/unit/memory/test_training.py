"""Memory of a training step, against what is known to be true; `test_traces` compares it with traces."""

import dataclasses
from typing import Any

import pytest

from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.training import estimate_training
from studio.registry.catalog import RELEASED, find_released
from studio.registry.spec import ModelDimensions
from studio.units import GIB
from tests.unit.whisper_on_meta import DEMO_LIKE


def estimate(name: str, **values: Any) -> MemoryEstimate:
    model = find_released(name)
    assert model is not None
    return estimate_training(TrainingPlan(**values), model.dimensions)


@pytest.mark.parametrize("model", [m for m in RELEASED if m.dimensions], ids=lambda model: model.id)
@pytest.mark.parametrize("method", ["lora", "full"])
def test_parts_add_up_and_each_has_its_formula(method: str, model: Any) -> None:
    got = estimate_training(TrainingPlan(method=method, eval_batch_size=4), model.dimensions)
    assert sum(got.parts.values()) == got.device_bytes
    assert set(got.formulas) == set(got.parts) == set(Part)
    assert all(size >= 0 for size in got.parts.values())
    assert got.allocated_bytes < got.reserved_bytes < got.device_bytes
    assert got.low_bytes < got.device_bytes < got.high_bytes
    assert got.phases[got.peak_phase] == max(got.phases.values())


def test_the_numbers_stand_in_the_formulas() -> None:
    got = estimate("large-v3", method="full", batch_size=2)
    assert got.trainable_parameters == 1_541_570_560
    assert "1,541,570,560 trained parameters × 4 B" in str(got.formulas[Part.GRADIENTS])
    assert "2 clips × 128 tokens × 51,866" in str(got.formulas[Part.LOGITS_AND_LOSS])


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["lora", "dora", "full", "frozen_encoder"])
def test_more_work_never_needs_less_memory(method: str, checkpointing: bool) -> None:
    plan = {"method": method, "gradient_checkpointing": checkpointing}
    for name, values in (("batch_size", (1, 2, 8, 32)), ("label_length", (16, 64, 448))):
        sizes = [estimate("small", **plan, **{name: value}).device_bytes for value in values]
        assert sizes == sorted(sizes)
    sizes = [estimate(name, **plan).device_bytes for name in ("tiny", "base", "small", "medium", "large-v2")]
    assert sizes == sorted(sizes)


def test_checkpointing_saves_more_than_bits_do() -> None:
    plain = estimate("large-v3", base_dtype="bf16").device_bytes
    checkpointed = estimate("large-v3", base_dtype="bf16", gradient_checkpointing=True).device_bytes
    quantized = estimate("large-v3", quantization="4bit").device_bytes
    assert checkpointed < plain / 4
    assert quantized > plain


def test_only_the_part_that_depends_on_the_batch_shrinks_with_it() -> None:
    eight, two = (estimate("small", method="full", batch_size=size) for size in (8, 2))
    assert two.device_bytes > eight.device_bytes / 2
    assert two.parts[Part.OPTIMIZER_STATES] == eight.parts[Part.OPTIMIZER_STATES]


def test_weights_are_there_at_every_peak_and_gradients_where_they_are_summed() -> None:
    once = estimate("small", method="full")
    summed = estimate("small", method="full", gradient_accumulation_steps=4)
    assert once.peak_phase is Phase.FORWARD
    assert once.parts[Part.GRADIENTS] == 0
    assert summed.parts[Part.GRADIENTS] == 4 * summed.trainable_parameters
    assert summed.parts[Part.WEIGHTS_TRAINABLE] == 4 * summed.trainable_parameters


def test_evaluation_can_be_the_highest_moment() -> None:
    plan = {"base_dtype": "bf16", "gradient_checkpointing": True, "batch_size": 1}
    without = estimate("large-v2", **plan)
    with_beams = estimate("large-v2", **plan, eval_batch_size=16, generation_num_beams=5)
    assert Phase.EVALUATION not in without.phases
    assert with_beams.peak_phase is Phase.EVALUATION
    assert with_beams.device_bytes > without.device_bytes


def test_an_unusual_shape_is_estimated_too() -> None:
    demo = ModelDimensions(128, 3, 2, 4, 4, 512, 384, 470)
    got = estimate_training(TrainingPlan(precision="fp32", eval_batch_size=8), demo)
    assert got.all_parameters > got.trainable_parameters > 0
    assert dataclasses.replace(got).device_bytes > GIB // 2


@pytest.mark.parametrize("precision", ["bf16", "pure_bf16", "fp32"])
@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_smoothed_loss_is_estimated_as_its_trace_says(method: str, precision: str) -> None:
    from studio.memory.trace.step import trace_step

    values = {"batch_size": 8, "label_length": 448, "label_smoothing_factor": 0.1}
    plan = TrainingPlan(method=method, precision=precision, **values)
    vocabulary = dataclasses.replace(DEMO_LIKE, vocab_size=9000)
    traced = trace_step(plan, vocabulary)
    estimated = estimate_training(plan, vocabulary)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert estimated.phases[phase] == pytest.approx(traced.phases[phase], rel=0.01)


def test_every_formula_has_numbers_and_says_what_is_divided() -> None:
    alone = estimate("small", method="full", batch_size=2)
    assert "an encoder layer in the backward pass 35.3 MiB" in str(alone.formulas[Part.TEMPORARIES])
    assert "3% of " in str(alone.formulas[Part.OVERHEAD])
    divided = estimate("small", method="full", batch_size=2, num_gpus=8, sharding="zero2")
    assert "÷ 8 GPUs (ZeRO-2, Rajbhandari" in str(divided.formulas[Part.OPTIMIZER_STATES])
    assert "÷ 8 GPUs (ZeRO-2" in str(divided.formulas[Part.GRADIENTS])
    assert "whole on each of 8 GPUs" in str(divided.formulas[Part.WEIGHTS_TRAINABLE])
    assert "exchange between 8 GPUs" in str(divided.formulas[Part.TEMPORARIES])


@pytest.mark.parametrize("method", ["lora", "adalora", "full"])
def test_resuming_is_a_phase_and_never_takes_more_than_a_step(method: str) -> None:
    got = estimate("small", method=method, batch_size=1)
    lasting = (Part.WEIGHTS_TRAINABLE, Part.WEIGHTS_FROZEN, Part.OPTIMIZER_STATES)
    held = sum(got.parts[part] for part in lasting)
    assert held < got.phases[Phase.RESUMING] <= got.phases[Phase.OPTIMIZER_STEP]
