"""Weights, gradients and optimizer states, against real models and a real optimizer."""

import dataclasses
from typing import Any

import pytest

from studio.memory.plan import TrainingPlan
from studio.memory.weights import quantized_bytes, static_bytes
from studio.options.choices import ALL_LINEAR
from studio.registry.catalog import find_released
from studio.registry.parameters import linear_layers
from studio.registry.spec import ModelDimensions
from tests.unit.whisper_on_meta import DEMO_LIKE, TINY, make_whisper_on_meta

PLANS = [
    TrainingPlan(method="lora", lora_r=32),
    TrainingPlan(method="lora", lora_r=8, target_modules=("q_proj", "v_proj")),
    TrainingPlan(method="lora", lora_r=4, target_modules=("k_proj", "fc1", "fc2"), base_dtype="bf16"),
    TrainingPlan(method="dora", lora_r=16),
    TrainingPlan(method="adalora", lora_r=12),
    TrainingPlan(method="full"),
    TrainingPlan(method="full", base_dtype="bf16"),
    TrainingPlan(method="frozen_encoder"),
]


def real_model(plan: TrainingPlan, dimensions: ModelDimensions) -> Any:
    """The model as it is trained, on the meta device, in the plan's types."""
    import torch
    from peft import AdaLoraConfig, LoraConfig, get_peft_model

    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    model = make_whisper_on_meta(dimensions).to(dtypes[plan.base_dtype])
    targets = list(plan.target_modules)
    if plan.method == "frozen_encoder":
        model.freeze_encoder()
    if not plan.is_adapter:
        return model
    if plan.method == "adalora":
        config = AdaLoraConfig(init_r=plan.lora_r, target_r=4, total_step=10, target_modules=targets)
    else:
        config = LoraConfig(r=plan.lora_r, target_modules=targets, use_dora=plan.method == "dora")
    with torch.device("meta"):
        return get_peft_model(model, config)


@pytest.mark.parametrize("dimensions", [TINY, DEMO_LIKE], ids=["tiny", "demo-like"])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.method}-{plan.base_dtype}")
def test_weights_and_gradients_are_those_of_the_real_model(
    plan: TrainingPlan, dimensions: ModelDimensions
) -> None:
    parameters = list(real_model(plan, dimensions).parameters())
    trained = [p for p in parameters if p.requires_grad]
    got = static_bytes(plan, dimensions)
    assert got.trainable_parameters == sum(p.numel() for p in trained)
    assert got.all_parameters == sum(p.numel() for p in parameters)
    assert got.weights_trainable == sum(p.numel() * p.element_size() for p in trained)
    assert got.gradients == got.weights_trainable
    assert got.weights_frozen == sum(p.numel() * p.element_size() for p in parameters) - got.weights_trainable


@pytest.mark.parametrize(
    "plan",
    [
        TrainingPlan(method="full"),
        TrainingPlan(method="full", base_dtype="bf16"),
        TrainingPlan(method="lora", lora_r=8),
        TrainingPlan(method="dora", lora_r=8),
        TrainingPlan(method="full", optimizer="adafactor"),
        TrainingPlan(method="full", optimizer="sgd"),
    ],
    ids=lambda plan: f"{plan.method}-{plan.base_dtype}-{plan.optimizer}",
)
def test_optimizer_states_are_those_of_the_real_optimizer(plan: TrainingPlan) -> None:
    import torch
    from transformers.optimization import Adafactor

    shapes = [p for p in real_model(plan, DEMO_LIKE).parameters() if p.requires_grad]
    weights = [torch.nn.Parameter(torch.zeros(p.shape, dtype=p.dtype)) for p in shapes]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    if plan.optimizer == "adafactor":
        optimizer: Any = Adafactor(weights, lr=1e-4, relative_step=False, scale_parameter=False)
    elif plan.optimizer == "sgd":
        optimizer = torch.optim.SGD(weights, lr=1e-4)
    else:
        optimizer = torch.optim.AdamW(weights, fused=True)
    optimizer.step()
    tensors = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t)]
    assert static_bytes(plan, DEMO_LIKE).optimizer_states == sum(tensor.nbytes for tensor in tensors)


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_packed_weights_are_those_bitsandbytes_makes(bits: str) -> None:
    import torch
    from bitsandbytes.functional import int8_vectorwise_quant, quantize_4bit

    total = 0
    for linear in linear_layers(DEMO_LIKE):
        weight = torch.ones(linear.out_features, linear.in_features, dtype=torch.float16)
        if bits == "8bit":
            parts = int8_vectorwise_quant(weight)[:2]
        else:
            packed, state = quantize_4bit(weight.float(), compress_statistics=True, quant_type="nf4")
            parts = (packed, state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code)
        total += linear.count * sum(part.nbytes for part in parts)
    assert quantized_bytes(bits, DEMO_LIKE) == total


def test_full_training_of_large_needs_sixteen_bytes_a_parameter_before_the_first_activation() -> None:
    large = find_released("large-v2")
    assert large is not None
    got = static_bytes(TrainingPlan(method="full"), large.dimensions)
    states = got.weights_trainable + got.gradients + got.optimizer_states
    assert states == pytest.approx(16 * got.trainable_parameters, rel=1e-4)
    assert states == pytest.approx(24.7e9, rel=0.01)


def test_8bit_adam_keeps_embeddings_and_small_tensors_in_float32() -> None:
    plan = TrainingPlan(method="full", optimizer="adamw_bnb_8bit")
    eight = static_bytes(plan, TINY).optimizer_states
    thirty_two = static_bytes(dataclasses.replace(plan, optimizer="adamw_torch_fused"), TINY).optimizer_states
    embeddings = 2 * 4 * (TINY.vocab_size + TINY.max_target_positions) * TINY.d_model
    assert embeddings < eight < thirty_two


def test_adapters_of_all_linear_layers_grow_with_the_rank() -> None:
    eight, sixteen = (
        static_bytes(TrainingPlan(lora_r=rank, target_modules=ALL_LINEAR), TINY).trainable_parameters
        for rank in (8, 16)
    )
    assert sixteen == 2 * eight
