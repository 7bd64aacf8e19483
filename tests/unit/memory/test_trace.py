"""The memory oracle, against the allocator of real steps on this machine, and against its own rules."""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from studio.errors import RunError
from studio.memory.plan import Part, Phase, TrainingPlan
from studio.memory.trace.allocator import replay
from studio.memory.trace.ledger import Ledger
from studio.memory.trace.result import Trace
from studio.memory.trace.step import trace_step
from studio.memory.trace.store import traced
from studio.memory.training import estimate_training
from studio.registry.catalog import find_released
from studio.registry.parameters import count_parameters
from studio.registry.spec import ModelDimensions
from studio.settings import Settings
from studio.translation import said
from studio.units import MIB
from tests.forking import Popen
from tests.unit.memory.real_step import measured_peak_bytes, traced_peak_bytes
from tests.unit.whisper_on_meta import DEMO_LIKE

_POSITIONS = {"tiny": 300, "base": 200, "small": 100}
"""Shorter windows than 30 seconds, so that the larger models run in a moment."""
TINY = ModelDimensions(384, 2, 2, 6, 6, 1536, 1536, 51865)
"""With half of its layers: a trace takes as long as there are."""
_QUERY_VALUE = ("q_proj", "v_proj")
_PADDED = {"audio_positions": 48, "has_padded_batches": True}

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("tiny", {"method": "full", "precision": "fp32", "batch_size": 2}),
    ("tiny", {"method": "full", "precision": "bf16", "gradient_checkpointing": True, "batch_size": 2}),
    ("tiny", {"method": "full", "attention": "eager", "gradient_accumulation_steps": 2}),
    ("tiny", {"method": "frozen_encoder", "optimizer": "adamw_torch", "label_length": 128}),
    (
        "tiny",
        {"method": "frozen_encoder", "keeps_encoder_states": True, "gradient_accumulation_steps": 24},
    ),
    ("tiny", {"method": "lora", "base_dtype": "bf16"}),
    ("tiny", {"method": "dora", "precision": "fp32", "target_modules": _QUERY_VALUE, "lora_dropout": 0.05}),
    (
        "tiny",
        {"method": "adalora", "precision": "fp32", "gradient_checkpointing": True, "optimizer": "adafactor"},
    ),
    ("tiny", {"method": "lora", "quantization": "8bit", "gradient_checkpointing": True}),
    ("base", {"method": "full", "precision": "pure_bf16", "optimizer": "adamw_torch"}),
    ("base", {"method": "lora", "precision": "fp32", "gradient_checkpointing": True, "use_reentrant": True}),
    ("base", {"method": "lora", "quantization": "4bit", "target_modules": _QUERY_VALUE}),
    ("base", {"method": "full", "precision": "fp32", "optimizer": "adafactor"}),
    ("small", {"method": "full", "precision": "fp32", "gradient_checkpointing": True}),
    ("small", {"method": "lora", "precision": "bf16", "lora_dropout": 0.1}),
    ("tiny", {"method": "lora", "precision": "fp32", "loss_chunk_size": 8, "audio_positions": 96}),
    ("tiny", {"method": "full", "base_dtype": "fp32", "loss_chunk_size": 16, "audio_positions": 48}),
    ("base", {"method": "full", "precision": "fp32", "loss_chunk_size": 24, "label_smoothing_factor": 0.1}),
    ("tiny", {"method": "dora", "batch_size": 4, **_PADDED, "loss_chunk_size": 32}),
]


def dimensions_of(name: str, precision: str) -> ModelDimensions:
    model = find_released(name)
    assert model is not None
    few = {"encoder_layers": 2, "decoder_layers": 2, "vocab_size": 12000 if precision == "fp32" else 2000}
    if precision == "fp32":
        return dataclasses.replace(model.dimensions, **few, max_source_positions=_POSITIONS[name])
    # Many processors take ten times as long to multiply numbers of 16 bits.
    ends = ("d_model", "ffn_dim", "heads")
    few |= {name: size // 2 for name, size in vars(model.dimensions).items() if name.endswith(ends)}
    return dataclasses.replace(model.dimensions, **few, max_source_positions=64)


@pytest.mark.parametrize(("name", "values"), STEPS, ids=lambda value: str(value))
def test_a_trace_tells_what_the_allocator_of_a_real_step_saw(name: str, values: dict[str, Any]) -> None:
    plan = TrainingPlan(**{"batch_size": 1, "label_length": 24, "lora_r": 8, **values})
    dimensions = dimensions_of(name, plan.precision)
    measured = measured_peak_bytes(plan, dimensions)
    assert traced_peak_bytes(plan, dimensions) == pytest.approx(measured, rel=0.005)


def test_a_trace_is_made_in_a_process_of_its_own_and_kept(settings: Settings, popen: Popen) -> None:
    small = {"batch_size": 1, "label_length": 8, "target_modules": _QUERY_VALUE}
    plan = TrainingPlan(**small, gradient_checkpointing=True)
    trace = traced(plan, DEMO_LIKE, settings)
    (kept,) = (settings.cache / "traces").iterdir()
    assert Trace.from_json(json.loads(kept.read_text(encoding="utf-8"))) == trace
    kept.write_text("{}", encoding="utf-8")
    assert traced(plan, DEMO_LIKE, dataclasses.replace(settings, popen=popen)) == trace

    assert sum(trace.parts.values()) == trace.peak_bytes == max(trace.phases.values())
    assert trace.all_parameters == count_parameters(DEMO_LIKE) + trace.trainable_parameters
    assert trace.peak_bytes < trace.peak_bytes + trace.slack_bytes == trace.needed_bytes
    assert trace.needed_bytes <= trace.reserved_bytes
    phases = [sample.phase for sample in trace.timeline]
    assert set(phases) == {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP}
    assert phases == sorted(phases, key=[Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP].index)
    assert 100 <= len(trace.timeline) <= 400
    assert max(sample.total for sample in trace.timeline) == trace.peak_bytes


def test_a_step_that_cannot_be_run_is_an_error_with_its_reason(settings: Settings, popen: Popen) -> None:
    odd_heads = dataclasses.replace(DEMO_LIKE, encoder_attention_heads=3)
    with pytest.raises(RunError, match=r"cannot be traced .*divisible by num_heads"):
        traced(TrainingPlan(), odd_heads, dataclasses.replace(settings, popen=popen))
    assert not (settings.cache / "traces").exists()


def test_a_tracer_that_answers_nothing_is_said_in_the_visitors_language(settings: Settings) -> None:
    words = [sys.executable, "-c", "print([])"]
    silent = dataclasses.replace(settings, popen=lambda _words, **how: subprocess.Popen(words, **how))
    with pytest.raises(RunError) as caught:
        traced(TrainingPlan(), DEMO_LIKE, silent)
    assert "没有响应" in said(caught.value, "zh-CN")


def test_a_sum_in_place_needs_no_second_block() -> None:
    ledger = Ledger()
    kept = ledger.allocate(512, Part.TEMPORARIES)
    mark = len(ledger.events)
    made = ledger.allocate(512, Part.TEMPORARIES)
    ledger.release(kept)
    ledger.forget_out_of_place(mark, kept, made)
    ledger.observe()
    ledger.release(kept)
    assert ledger.events == [(kept, 512), (kept, -512)]
    assert ledger.peak.total == 512


def test_the_timeline_keeps_the_peak_and_every_phase() -> None:
    ledger = Ledger()
    for phase, size in ((Phase.FORWARD, 1024), (Phase.BACKWARD, 512), (Phase.OPTIMIZER_STEP, 256)):
        ledger.phase = phase
        for _ in range(5000 if phase is not Phase.OPTIMIZER_STEP else 2):
            ledger.observe()
        ledger.observe(size)
    assert ledger.phase_peaks() == {Phase.FORWARD: 1024, Phase.BACKWARD: 512, Phase.OPTIMIZER_STEP: 256}
    timeline = ledger.timeline()
    assert max(sample.total for sample in timeline) == 1024
    assert {sample.phase for sample in timeline} == set(ledger.phase_peaks())


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ([1], 2 * MIB),
        ([MIB, MIB], 2 * MIB),
        ([MIB + 1], 20 * MIB),
        ([9 * MIB, 9 * MIB, 9 * MIB], 40 * MIB),
        ([10 * MIB], 10 * MIB),
        ([11 * MIB], 12 * MIB),
    ],
)
def test_the_allocator_takes_segments_as_pytorch_does(sizes: list[int], reserved: int) -> None:
    assert replay(enumerate(sizes)).peak_reserved_bytes == reserved


def test_the_allocator_joins_free_neighbours_and_uses_them_again() -> None:
    allocator = replay([(1, 5 * MIB), (2, 5 * MIB), (3, 5 * MIB), (1, -5 * MIB), (2, -5 * MIB)])
    allocator.allocate(4, 9 * MIB)
    assert allocator.peak_reserved_bytes == 20 * MIB
    assert allocator.peak_allocated_bytes == 15 * MIB


def test_a_full_device_is_given_back_what_is_empty() -> None:
    events = [(1, 30 * MIB), (1, -30 * MIB), (2, 40 * MIB), (3, 4 * MIB), (2, -40 * MIB), (4, 50 * MIB)]
    assert replay(events).peak_reserved_bytes == (30 + 40 + 50) * MIB
    assert replay(events, is_full=True).peak_reserved_bytes == (20 + 50) * MIB


def test_packed_weights_are_counted_as_the_parameters_that_they_are() -> None:
    plain, packed = (
        trace_step(TrainingPlan(batch_size=1, quantization=bits), DEMO_LIKE).all_parameters
        for bits in ("none", "4bit")
    )
    assert packed == plain


@pytest.mark.parametrize("precision", ["fp32", "bf16", "pure_bf16"])
@pytest.mark.parametrize("accumulated", [1, 2, 24])
def test_kept_states_of_a_frozen_encoder_are_estimated_as_traced(precision: str, accumulated: int) -> None:
    values = {"method": "frozen_encoder", "precision": precision, "gradient_accumulation_steps": accumulated}
    plan = TrainingPlan(keeps_encoder_states=True, batch_size=4, **values)
    traced, estimate = trace_step(plan, TINY), estimate_training(plan, TINY)
    assert max(estimate.phases.values()) == pytest.approx(traced.peak_bytes, rel=0.01)
    if accumulated == 24:
        without = estimate_training(dataclasses.replace(plan, keeps_encoder_states=False), TINY)
        assert max(estimate.phases.values()) > 1.1 * max(without.phases.values())


@pytest.mark.parametrize("values", [{}, {"quantization": "4bit"}, {"target_modules": ("k_proj",)}], ids=str)
def test_dora_takes_a_float32_bias_off_in_float32(values: dict[str, Any]) -> None:
    plan = TrainingPlan(method="dora", batch_size=8, **values)
    traced = trace_step(plan, TINY).peak_bytes
    assert max(estimate_training(plan, TINY).phases.values()) == pytest.approx(traced, rel=0.01)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"method": "full"},
        {"method": "full", "precision": "pure_bf16"},
        {"method": "dora", "base_dtype": "bf16"},
        {"method": "dora", "precision": "pure_bf16", "target_modules": _QUERY_VALUE, "label_length": 8},
        {"precision": "fp32", "label_length": 448},
        {"base_dtype": "bf16", "generation_num_beams": 4},
        {"base_dtype": "bf16", "attention": "eager", "label_length": 8},
        {"quantization": "8bit"},
        {"quantization": "4bit", "generation_max_length": 444, "generation_num_beams": 5},
        {"base_dtype": "bf16", "gradient_checkpointing": True, "label_smoothing_factor": 0.1},
        {"loss_chunk_size": 2048, "label_length": 448, "base_dtype": "bf16", "audio_positions": 96},
        {"loss_chunk_size": 256, "label_length": 300, "method": "full", "label_smoothing_factor": 0.1},
    ],
    ids=lambda values: " ".join(map(str, values.values())) or "default",
)
@pytest.mark.parametrize("dimensions", [TINY, DEMO_LIKE], ids=["tiny", "demo-like"])
def test_the_closed_form_of_an_evaluation_meets_its_trace(
    dimensions: ModelDimensions, values: dict[str, Any]
) -> None:
    dimensions = dataclasses.replace(dimensions, encoder_layers=1)  # one is gone before the next
    plan = TrainingPlan(**{"batch_size": 1, "eval_batch_size": 16, **values})
    traced = trace_step(plan, dimensions).phases[Phase.EVALUATION]
    estimated = estimate_training(plan, dimensions).phases[Phase.EVALUATION]
    assert -0.01 < estimated / traced - 1 < 0.04
