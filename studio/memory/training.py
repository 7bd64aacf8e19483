"""Memory of a training step in closed form: under two milliseconds, for every move of a slider.

The highest moment is looked for at the corners of the step: the worst moment of each stretch of the forward
and backward pass (`step`), the optimizer step, and generation in evaluation. Weights, gradients and optimizer
states are counted tensor by tensor (`weights`); activations and temporaries are those of one layer of each
kind, played on a tape that only knows sizes (`layers`). Nothing in it is fitted; it is checked against traces
of the real step (`trace`).
"""

from dataclasses import replace

from studio.memory.evaluation import evaluation_corners
from studio.memory.formulas import formulas
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.sharding import Shares, shares
from studio.memory.step import corners as step_corners
from studio.memory.step import measure
from studio.memory.weights import DTYPE_BYTES, StaticBytes, trainable_tensors
from studio.registry.spec import ModelDimensions

Parts = dict[Part, float]


def estimate_training(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """Bytes on the device at the highest moment of a training run, part by part."""
    return _estimate(worst_batch(plan, dimensions), dimensions)


def worst_batch(plan: TrainingPlan, dimensions: ModelDimensions) -> TrainingPlan:
    """The plan of the batches that take most, where there are several kinds of them."""
    kinds = [replace(plan, has_padded_batches=False)]
    if plan.has_padded_batches:
        kinds.insert(0, plan.with_padded_batch)
    if plan.window_label_length:
        kinds.append(plan.with_window)
    if len(kinds) == 1:
        return plan
    return max(kinds, key=lambda kind: max(_estimate(kind, dimensions).phases.values()))


def _estimate(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    step = measure(plan, dimensions)
    corners = list(step_corners(step))
    optimizer: Parts = {
        Part.ACTIVATIONS: step.inputs,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: step.static.optimizer_temporaries,
    }
    corners.append((Phase.OPTIMIZER_STEP, optimizer))
    if plan.eval_batch_size:
        corners += [(Phase.EVALUATION, parts) for parts in evaluation_corners(plan, dimensions)]
    corners.append((Phase.RESUMING, _resuming(plan, dimensions, step.static)))
    shared = shares(plan, dimensions, step.static)
    constant: Parts = {
        Part.WEIGHTS_TRAINABLE: shared.weights * step.static.weights_trainable,
        Part.WEIGHTS_FROZEN: shared.weights * step.static.weights_frozen,
        Part.WEIGHTS_QUANTIZED: shared.weights * step.static.weights_quantized,
        Part.OPTIMIZER_STATES: shared.optimizer_states * step.static.optimizer_states,
    }
    return assemble(
        [(phase, constant | _on_one_gpu(parts, shared)) for phase, parts in corners],
        formulas(plan, dimensions, step, shared),
        trainable_parameters=step.static.trainable_parameters,
        all_parameters=step.static.all_parameters,
        has_checkpointing=plan.gradient_checkpointing,
        has_eager_attention=plan.attention == "eager",
        is_emulated=plan.quantization != "none",
    )


def _resuming(plan: TrainingPlan, dimensions: ModelDimensions, static: StaticBytes) -> Parts:
    """A checkpoint is read into main memory first (`Trainer._load_optimizer_and_scheduler`), and then copied
    tensor by tensor to where its values belong; PEFT reads an adapter straight to the device.
    """
    if plan.is_adapter:
        return {Part.TEMPORARIES: float(static.weights_trainable)}
    largest = max(group.size for group in trainable_tensors(plan, dimensions))
    return {Part.TEMPORARIES: float(largest * DTYPE_BYTES[plan.weights_dtype])}


def _on_one_gpu(parts: Parts, shared: Shares) -> Parts:
    """A corner of one of several GPUs."""
    return parts | {
        Part.GRADIENTS: shared.gradients * parts.get(Part.GRADIENTS, 0.0),
        Part.TEMPORARIES: shared.exchange_bytes + parts.get(Part.TEMPORARIES, 0.0),
    }
