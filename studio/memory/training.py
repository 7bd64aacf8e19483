"""Memory of a training step in closed form: under two milliseconds, for every move of a slider.

The highest moment is looked for at the corners of the step: end of the forward pass, start and end of the
backward pass through decoder and encoder, optimizer step, and generation in evaluation. Weights, gradients
and optimizer states are exact; the rest was fitted to traces of the real step (see `activations`).
"""

from studio.memory.inference import generation_bytes
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.memory.step import HEAD_BYTES, Step, cached_cast_bytes, measure
from studio.memory.weights import DTYPE_BYTES
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes, format_count

Parts = dict[Part, float]


def estimate_training(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """Bytes on the device at the highest moment of a training run, part by part."""
    step = measure(plan, dimensions)
    corners = (
        _checkpointed(step, plan, dimensions)
        if plan.gradient_checkpointing
        else _kept(step, plan, dimensions)
    )
    if plan.gradient_accumulation_steps > 1:
        # From the second micro-batch on, the sum of the gradients is there during the forward pass, too.
        corners = [(phase, parts | {Part.GRADIENTS: step.static.gradients}) for phase, parts in corners]
    optimizer: Parts = {
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: step.static.optimizer_temporaries,
    }
    corners.append((Phase.OPTIMIZER_STEP, optimizer))
    if plan.eval_batch_size:
        corners.append((Phase.EVALUATION, _evaluation(plan, dimensions)))
    constant: Parts = {
        Part.WEIGHTS_TRAINABLE: step.static.weights_trainable,
        Part.WEIGHTS_FROZEN: step.static.weights_frozen,
        Part.WEIGHTS_QUANTIZED: step.static.weights_quantized,
        Part.OPTIMIZER_STATES: step.static.optimizer_states,
    }
    return assemble(
        [(phase, constant | parts) for phase, parts in corners],
        _formulas(plan, dimensions, step),
        trainable_parameters=step.static.trainable_parameters,
        all_parameters=step.static.all_parameters,
        has_checkpointing=plan.gradient_checkpointing,
        is_emulated=plan.quantization != "none" or plan.method in ("dora", "adalora"),
    )


def _kept(step: Step, plan: TrainingPlan, dimensions: ModelDimensions) -> list[tuple[Phase, Parts]]:
    """Corners of a step that keeps its activations."""
    encoder = dimensions.encoder_layers * step.encoder_layer
    decoder = dimensions.decoder_layers * step.decoder_layer
    forward: Parts = {
        Part.ACTIVATIONS: encoder + decoder + step.stem,
        Part.WEIGHT_CASTS: step.casts,
        Part.LOGITS_AND_LOSS: step.logits,
    }
    end: Parts = {
        Part.ACTIVATIONS: step.stem,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: 22 * step.audio * step.half,
    }
    corners = [(Phase.FORWARD, forward), (Phase.BACKWARD, end)]
    if not plan.is_adapter:
        ties = step.tied_gradients * step.embedding_gradient
        between: Parts = {
            Part.ACTIVATIONS: encoder + step.stem,
            Part.WEIGHT_CASTS: step.encoder_casts,
            Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
            Part.TEMPORARIES: ties - step.embedding_gradient + 2 * step.stream * step.audio,
        }
        corners.append((Phase.BACKWARD, between))
    return corners


def _checkpointed(step: Step, plan: TrainingPlan, dimensions: ModelDimensions) -> list[tuple[Phase, Parts]]:
    """Corners of a step that keeps only the borders of layers and computes the rest again."""
    has_encoder = plan.method != "frozen_encoder"
    encoder = dimensions.encoder_layers * step.boundary * step.audio if has_encoder else 0.0
    decoder = dimensions.decoder_layers * step.boundary * step.tokens
    borders = encoder + decoder + step.stem + step.leak
    again_decoder = step.decoder_layer + 14 * step.tokens + 3 * step.stream * step.audio
    tied = (step.tied_gradients - 1) * step.embedding_gradient
    forward: Parts = {
        Part.ACTIVATIONS: borders,
        Part.WEIGHT_CASTS: step.casts,
        Part.LOGITS_AND_LOSS: step.logits,
    }
    in_decoder: Parts = {
        Part.ACTIVATIONS: borders,
        Part.WEIGHT_CASTS: 1.3 * step.layer_cast,
        Part.GRADIENTS: step.embedding_gradient,
        Part.TEMPORARIES: again_decoder,
    }
    in_encoder: Parts = {
        Part.ACTIVATIONS: encoder + step.stem + step.leak,
        Part.WEIGHT_CASTS: step.layer_cast,
        Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
        Part.TEMPORARIES: step.again_encoder,
    }
    at_tie: Parts = {
        Part.ACTIVATIONS: encoder + step.stem,
        Part.GRADIENTS: step.decoder_gradients + step.embedding_gradient,
        Part.TEMPORARIES: tied + 2 * step.stream * step.audio,
    }
    end: Parts = {
        Part.ACTIVATIONS: step.stem,
        Part.GRADIENTS: step.static.gradients,
        Part.TEMPORARIES: 2 * step.stream * step.audio + 0.55 * step.again_encoder,
    }
    backward = (in_decoder, in_encoder, at_tie, end) if has_encoder else (in_decoder, at_tie, end)
    return [(Phase.FORWARD, forward), *((Phase.BACKWARD, corner) for corner in backward)]


def _evaluation(plan: TrainingPlan, dimensions: ModelDimensions) -> Parts:
    """Generation between two epochs: gradients are gone, weights and optimizer states stay."""
    width = 2 if plan.is_autocast or plan.base_dtype != "fp32" else 4
    encoding, decoding = generation_bytes(
        dimensions,
        width=width,
        batch_size=plan.eval_batch_size,
        num_beams=plan.generation_num_beams,
        length=plan.generation_max_length,
    )
    labels = plan.eval_batch_size * plan.label_length * dimensions.vocab_size
    return {
        Part.ACTIVATIONS: max(encoding, decoding),
        Part.WEIGHT_CASTS: cached_cast_bytes(plan, dimensions),
        Part.LOGITS_AND_LOSS: HEAD_BYTES * labels,
    }


def _formulas(plan: TrainingPlan, dimensions: ModelDimensions, step: Step) -> dict[Part, str]:
    """The arithmetic of each part with its numbers, for people."""
    d = dimensions
    static = step.static
    count = f"{static.trainable_parameters:,} trained parameters"
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.base_dtype]
    frozen = f"{static.all_parameters - static.trainable_parameters:,} frozen parameters"
    keeps = (
        f"{d.encoder_layers} + {d.decoder_layers} borders of layers, one layer computed again at a time"
        if plan.gradient_checkpointing
        else f"{d.encoder_layers} × {format_bytes(step.encoder_layer)} (encoder layers) + "
        f"{d.decoder_layers} × {format_bytes(step.decoder_layer)} (decoder layers) + "
        f"{format_bytes(step.stem)} (input)"
    )
    return {
        Part.WEIGHTS_TRAINABLE: f"{count} × {width} B",
        Part.WEIGHTS_FROZEN: f"{frozen}, {plan.base_dtype} unless quantised: "
        f"{format_bytes(static.weights_frozen)}",
        Part.WEIGHTS_QUANTIZED: f"linear layers in {plan.quantization}: "
        f"{format_bytes(static.weights_quantized)}",
        Part.WEIGHT_CASTS: f"{plan.precision} copies of float32 weights: {format_bytes(step.casts)} at the "
        "end of the forward pass",
        Part.GRADIENTS: f"{count} × {width} B = {format_bytes(static.gradients)} at the end of the "
        "backward pass",
        Part.OPTIMIZER_STATES: f"{plan.optimizer} for {format_count(static.trainable_parameters)} weights: "
        f"{format_bytes(static.optimizer_states)}",
        Part.ACTIVATIONS: f"batch {plan.batch_size}: {keeps}",
        Part.LOGITS_AND_LOSS: f"{plan.batch_size} clips × {plan.label_length} tokens × {d.vocab_size:,} "
        f"entries × 12 B = {format_bytes(step.logits)} at the end of the forward pass",
        Part.TEMPORARIES: "what one layer or the optimizer step needs for a moment",
    }
