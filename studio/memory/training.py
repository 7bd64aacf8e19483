"""Memory of a training step in closed form: under two milliseconds, for every move of a slider.

The highest moment is looked for at the corners of the step: the worst moment of each stretch of the forward
and backward pass (`step`), the optimizer step, and generation in evaluation. Weights, gradients and optimizer
states are counted tensor by tensor (`weights`); activations and temporaries are those of one layer of each
kind, played on a tape that only knows sizes (`layers`). Nothing in it is fitted; it is checked against traces
of the real step (`trace`).
"""

from studio.memory.inference import generation_bytes
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.sharding import Shares, shares
from studio.memory.step import Step, measure
from studio.memory.step import corners as step_corners
from studio.memory.weights import DTYPE_BYTES
from studio.registry.parameters import tensors
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes, format_count

Parts = dict[Part, float]


def estimate_training(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """Bytes on the device at the highest moment of a training run, part by part."""
    step = measure(plan, dimensions)
    corners = list(step_corners(step))
    optimizer: Parts = {
        Part.ACTIVATIONS: step.inputs,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: step.static.optimizer_temporaries,
    }
    corners.append((Phase.OPTIMIZER_STEP, optimizer))
    if plan.eval_batch_size:
        corners.append((Phase.EVALUATION, _evaluation(plan, dimensions)))
    shared = shares(plan, dimensions, step.static)
    constant: Parts = {
        Part.WEIGHTS_TRAINABLE: shared.weights * step.static.weights_trainable,
        Part.WEIGHTS_FROZEN: shared.weights * step.static.weights_frozen,
        Part.WEIGHTS_QUANTIZED: shared.weights * step.static.weights_quantized,
        Part.OPTIMIZER_STATES: shared.optimizer_states * step.static.optimizer_states,
    }
    return assemble(
        [(phase, constant | _on_one_gpu(parts, shared)) for phase, parts in corners],
        _formulas(plan, dimensions, step),
        trainable_parameters=step.static.trainable_parameters,
        all_parameters=step.static.all_parameters,
        has_checkpointing=plan.gradient_checkpointing,
        has_eager_attention=plan.attention == "eager",
        is_emulated=plan.quantization != "none",
    )


def _on_one_gpu(parts: Parts, shared: Shares) -> Parts:
    """A corner of one of several GPUs."""
    return parts | {
        Part.GRADIENTS: shared.gradients * parts.get(Part.GRADIENTS, 0.0),
        Part.TEMPORARIES: shared.exchange_bytes + parts.get(Part.TEMPORARIES, 0.0),
    }


def _evaluation(plan: TrainingPlan, dimensions: ModelDimensions) -> Parts:
    """Generation between two epochs: gradients are gone, weights and optimizer states stay."""
    width = DTYPE_BYTES[plan.arithmetic_dtype]
    encoding, decoding = generation_bytes(
        dimensions,
        width=width,
        batch_size=plan.eval_batch_size,
        num_beams=plan.generation_num_beams,
        length=plan.generation_max_length,
    )
    labels = plan.eval_batch_size * plan.label_length * dimensions.vocab_size
    casts = 0.0
    if plan.is_autocast and plan.weights_dtype == "fp32":
        groups = tensors(dimensions)
        casted = groups if not plan.is_adapter else [g for g in groups if g.name == "embed_tokens"]
        casts = float(width * sum(group.total for group in casted))
    return {
        Part.ACTIVATIONS: max(encoding, decoding),
        Part.WEIGHT_CASTS: casts,
        Part.LOGITS_AND_LOSS: 3.0 * 4 * labels,
    }


def _formulas(plan: TrainingPlan, dimensions: ModelDimensions, step: Step) -> dict[Part, str]:
    """The arithmetic of each part with its numbers, for people."""
    d = dimensions
    static = step.static
    count = f"{static.trainable_parameters:,} trained parameters"
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.weights_dtype]
    frozen = f"{static.all_parameters - static.trainable_parameters:,} frozen parameters"
    layers = (
        f"{d.encoder_layers} × {format_bytes(step.encoder.segment.kept.live)} (encoder layers) + "
        f"{d.decoder_layers} × {format_bytes(step.decoder.segment.kept.live)} (decoder layers)"
    )
    if step.stem.kept.live:
        layers += f" + {format_bytes(step.stem.kept.live)} (input)"
    again = ", and one layer computed again at a time" if plan.gradient_checkpointing else ""
    return {
        Part.WEIGHTS_TRAINABLE: f"{count} × {width} B",
        Part.WEIGHTS_FROZEN: f"{frozen}, {plan.weights_dtype} unless quantised: "
        f"{format_bytes(static.weights_frozen)}",
        Part.WEIGHTS_QUANTIZED: f"linear layers in {plan.quantization}: "
        f"{format_bytes(static.weights_quantized)}",
        Part.WEIGHT_CASTS: "copies of weights in the type of the arithmetic that are kept: "
        f"{format_bytes(_casts(step))} at the end of the forward pass",
        Part.GRADIENTS: f"{count} × {width} B = {format_bytes(static.gradients)} at the end of the "
        "backward pass",
        Part.OPTIMIZER_STATES: f"{plan.optimizer} for {format_count(static.trainable_parameters)} weights: "
        f"{format_bytes(static.optimizer_states)}",
        Part.ACTIVATIONS: f"batch {plan.batch_size}: {layers}{again}",
        Part.LOGITS_AND_LOSS: f"{plan.batch_size} clips × {plan.label_length} tokens × {d.vocab_size:,} "
        f"entries, {_bytes_per_logit(plan, d, step):.0f} B each = {format_bytes(step.logits)} at the end of "
        "the forward pass",
        Part.TEMPORARIES: "what one layer or the optimizer step needs for a moment",
    }


def _casts(step: Step) -> float:
    stretches = (step.encoder, step.decoder)
    return sum(stretch.count * stretch.segment.kept.casts for stretch in stretches) + step.head.kept.casts


def _bytes_per_logit(plan: TrainingPlan, d: ModelDimensions, step: Step) -> float:
    return step.logits / (plan.batch_size * plan.label_length * d.vocab_size)
