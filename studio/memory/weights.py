"""Weights, gradients and optimizer states: exact bytes, counted tensor by tensor."""

import math
from dataclasses import dataclass

from studio.memory.plan import TrainingPlan
from studio.methods import METHODS
from studio.registry.parameters import TensorGroup, linear_layers, tensors
from studio.registry.spec import ModelDimensions

DTYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

_BLOCK_8BIT_OPTIMIZER = 256
_MIN_8BIT_OPTIMIZER = 4096
"""bitsandbytes keeps smaller tensors, and embeddings, in float32 states."""
BLOCK_4BIT = 64
_BLOCK_4BIT_NESTED = 256


@dataclass(frozen=True)
class StaticBytes:
    """What is there through the whole step, and what one optimizer step adds."""

    trainable_parameters: int
    all_parameters: int
    """Base and adapter."""
    weights_trainable: int
    weights_frozen: int
    weights_quantized: int
    gradients: int
    optimizer_states: int
    method_states: int
    """What the method itself keeps of each trained number, whole on each GPU."""
    optimizer_temporaries: int


def adapter_tensors(plan: TrainingPlan, dimensions: ModelDimensions) -> tuple[TensorGroup, ...]:
    """The trainable tensors that PEFT adds to the plan's target modules."""
    method = METHODS[plan.method]
    return tuple(
        TensorGroup(linear.half, name, shape, linear.count)
        for linear in linear_layers(dimensions)
        if linear.name in plan.target_modules
        for name, shape in method.added_tensors(plan.lora_r, linear.in_features, linear.out_features)
    )


def trainable_tensors(plan: TrainingPlan, dimensions: ModelDimensions) -> tuple[TensorGroup, ...]:
    """The tensors that get a gradient; the encoder's fixed positions never do."""
    if plan.is_adapter:
        return adapter_tensors(plan, dimensions)
    return tuple(
        group
        for group in tensors(dimensions)
        if not (group.half == "encoder" and (not METHODS[plan.method].trains_encoder or group.is_embedding))
    )


def static_bytes(plan: TrainingPlan, dimensions: ModelDimensions) -> StaticBytes:
    """Exact bytes of weights, gradients and optimizer states."""
    trained = trainable_tensors(plan, dimensions)
    trainable = sum(group.total for group in trained)
    base = sum(group.total for group in tensors(dimensions))
    linear = sum(group.total for group in tensors(dimensions) if group.is_linear)
    # Adapters are float32 whatever the base is: PEFT raises them to it so that they can be trained.
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.weights_dtype]
    held = DTYPE_BYTES[plan.weights_dtype]
    frozen = base if plan.is_adapter else base - trainable
    is_quantized = plan.quantization != "none"
    method = METHODS[plan.method]
    adapted = sum(row.count for row in linear_layers(dimensions) if row.name in plan.target_modules)
    fixed = method.fixed_numbers * adapted
    return StaticBytes(
        trainable_parameters=trainable,
        all_parameters=base + (trainable + fixed if plan.is_adapter else 0),
        weights_trainable=trainable * width,
        weights_frozen=(frozen - (linear if is_quantized else 0)) * held + 4 * fixed,
        weights_quantized=quantized_bytes(plan.quantization, dimensions),
        gradients=trainable * width,
        optimizer_states=sum(_states(plan.optimizer, group, width) * group.count for group in trained),
        method_states=method.state_bytes * trainable,
        optimizer_temporaries=_optimizer_temporaries(plan.optimizer, trained, width),
    )


def quantized_bytes(quantization: str, dimensions: ModelDimensions) -> int:
    """Linear layers in 8 bits (LLM.int8) or 4 bits (NF4, double quantisation), with their scales.

    8 bits: a byte a weight and a float32 a row. 4 bits: half a byte a weight, a byte a block of 64, a
    float32 a 256 of those blocks, the mean of the scales, and the two code books (16 and 256 float32).
    """
    if quantization == "none":
        return 0
    total = 0
    for linear in linear_layers(dimensions):
        if quantization == "8bit":
            each = linear.weights + 4 * linear.out_features
        else:
            blocks = math.ceil(linear.weights / BLOCK_4BIT)
            each = math.ceil(linear.weights / 2) + blocks + 4 * math.ceil(blocks / _BLOCK_4BIT_NESTED)
            each += 4 * (1 + 16 + 256)
        total += each * linear.count
    return total


def _states(optimizer: str, group: TensorGroup, width: int) -> int:
    """Bytes of the optimizer's state of one tensor."""
    if optimizer in ("adamw_torch_fused", "adamw_torch"):
        # Two moments in the parameter's type, and the number of the step as one float32.
        return 2 * group.size * width + 4
    if optimizer == "adamw_bnb_8bit":
        if group.size < _MIN_8BIT_OPTIMIZER or group.is_embedding:
            return 2 * group.size * 4
        return 2 * (group.size + 4 * math.ceil(group.size / _BLOCK_8BIT_OPTIMIZER))
    if optimizer == "adafactor":
        # Means of squares by row and by column (a vector keeps all of its own), and one running root.
        if len(group.shape) < 2:
            return 4 * (group.size + 1)
        rows, columns = group.size // group.shape[-1], group.size // group.shape[-2]
        return 4 * (rows + columns + 1)
    return 0


def _optimizer_temporaries(optimizer: str, trained: tuple[TensorGroup, ...], width: int) -> int:
    """What one step allocates beside the states."""
    if optimizer == "adamw_torch":  # the foreach variant holds the roots of all second moments at once
        return sum(group.total for group in trained) * width
    if optimizer == "adafactor":
        # The squared gradient twice; half precision also raises gradient and weight.
        return (2 if width == 4 else 4) * 4 * max(group.size for group in trained)
    return 0
