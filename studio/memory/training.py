"""Memory of a training step in closed form: a few milliseconds, for every move of a slider.

The highest moment is looked for at the corners of the step: the worst moment of each stretch of the forward
and backward pass (`step`), the optimizer step, and generation in evaluation. Weights, gradients and optimizer
states are counted tensor by tensor (`weights`); activations and temporaries are those of one layer of each
kind, played on a tape that only knows sizes (`layers`). Nothing in it is fitted; it is checked against traces
of the real step (`trace`).
"""

from dataclasses import replace
from functools import lru_cache

from studio.memory.evaluation import evaluation_corners
from studio.memory.overhead import assemble
from studio.memory.plan import MemoryEstimate, Part, Parts, Phase, TrainingPlan
from studio.memory.sharding import SOURCES, Shares, shares
from studio.memory.step import Step, Stretch, measure
from studio.memory.step import corners as step_corners
from studio.memory.weights import DTYPE_BYTES, StaticBytes, trainable_tensors
from studio.messages import Joined, Message
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes, format_count


def formulas(
    plan: TrainingPlan, dimensions: ModelDimensions, step: Step, shared: Shares
) -> dict[Part, Message]:
    """A line for every part but the overhead, which `assemble` adds."""
    return {
        **_weights(plan, step, shared),
        **_step(plan, dimensions, step),
        Part.TEMPORARIES: _temporaries(plan, step, shared),
    }


def _weights(plan: TrainingPlan, step: Step, shared: Shares) -> dict[Part, Message]:
    """What is there through the whole step, and on how many GPUs."""
    static = step.static
    count = f"{static.trainable_parameters:,}"
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.weights_dtype]
    trained = Message("{count} trained parameters × {width} B", count=count, width=width)
    frozen = Message(
        "{count} frozen parameters, {dtype} unless quantized: {size}",
        count=f"{static.all_parameters - static.trainable_parameters:,}",
        dtype=plan.weights_dtype,
        size=format_bytes(static.weights_frozen),
    )
    gradients = Message(
        "{product} = {size} at the end of the backward pass",
        product=trained,
        size=format_bytes(static.gradients),
    )
    states = Message(
        "{optimizer} for {count} weights: {size}",
        optimizer=plan.optimizer,
        count=format_count(static.trainable_parameters),
        size=format_bytes(static.optimizer_states),
    )
    states = _on_one(plan, states, shared.optimizer_states)
    if static.method_states:
        own = format_bytes(static.method_states)
        states = Message("{states} + {size} of {method}'s own", states=states, size=own, method=plan.method)
    return {
        Part.WEIGHTS_TRAINABLE: _on_one(plan, trained, shared.weights),
        Part.WEIGHTS_FROZEN: _on_one(plan, frozen, shared.weights),
        Part.WEIGHTS_QUANTIZED: Message(
            "linear layers in {quantization}: {size}",
            quantization=plan.quantization,
            size=format_bytes(static.weights_quantized),
        ),
        Part.GRADIENTS: _on_one(plan, gradients, shared.gradients),
        Part.OPTIMIZER_STATES: states,
    }


def _on_one(plan: TrainingPlan, formula: Message, share: float) -> Message:
    """What one GPU of several has of it."""
    if plan.num_gpus == 1:
        return formula
    if share == 1.0:
        return Message("{formula}, whole on each of {count} GPUs", formula=formula, count=plan.num_gpus)
    source = SOURCES[plan.sharding]
    return Message(
        "({formula}) ÷ {count} GPUs ({source})", formula=formula, count=plan.num_gpus, source=source
    )


def _step(plan: TrainingPlan, d: ModelDimensions, step: Step) -> dict[Part, Message]:
    """What comes and goes within a step."""
    stretches = (step.encoder, step.decoder)
    casts = sum(stretch.count * stretch.segment.kept.casts for stretch in stretches) + step.head.kept.casts
    return {
        Part.WEIGHT_CASTS: Message(
            "copies of weights in the data type of the computation: {size} at the end of the forward pass",
            size=format_bytes(casts),
        ),
        Part.ACTIVATIONS: _activations(plan, d, step),
        Part.LOGITS_AND_LOSS: _logits(plan, d, step),
    }


def _activations(plan: TrainingPlan, d: ModelDimensions, step: Step) -> Message:
    """What the layers keep for the backward pass."""
    layers = Message(
        "batch {batch}: {encoder_layers} × {encoder} (encoder layers) + {decoder_layers} × {decoder} "
        "(decoder layers)",
        batch=plan.batch_size,
        encoder_layers=d.encoder_layers,
        encoder=format_bytes(step.encoder.segment.kept.live),
        decoder_layers=d.decoder_layers,
        decoder=format_bytes(step.decoder.segment.kept.live),
    )
    if step.stem.kept.live:
        layers = Message("{layers} + {size} (input)", layers=layers, size=format_bytes(step.stem.kept.live))
    if plan.gradient_checkpointing:
        return Message("{layers}, and one layer computed again at a time", layers=layers)
    return layers


def _logits(plan: TrainingPlan, d: ModelDimensions, step: Step) -> Message:
    """All tokens of a batch, or those of a chunk of the loss."""
    tokens = plan.batch_size * plan.label_length
    said = Message("{clips} clips × {tokens} tokens", clips=plan.batch_size, tokens=plan.label_length)
    if 0 < plan.loss_chunk_size < tokens:
        tokens = plan.loss_chunk_size
        said = Message("{tokens} tokens of a chunk", tokens=tokens)
    each = step.logits / (tokens * d.vocab_size)
    return Message(
        "{tokens} × {entries} entries, {width} B each = {size} at the end of the forward pass",
        tokens=said,
        entries=f"{d.vocab_size:,}",
        width=f"{each:.0f}",
        size=format_bytes(step.logits),
    )


def _temporaries(plan: TrainingPlan, step: Step, shared: Shares) -> Message:
    """The moments that need most beside what is kept; the one at the peak counts."""
    rows = (
        (Message("an encoder layer in the backward pass"), _passing(step.encoder)),
        (Message("a decoder layer"), _passing(step.decoder)),
        (Message("the logits"), _passing(Stretch(step.head, 1))),
        (
            Message("a step of {optimizer}", optimizer=plan.optimizer),
            float(step.static.optimizer_temporaries),
        ),
    )
    moments = Joined(
        tuple(
            Message("{moment} {size}", moment=name, size=format_bytes(size))
            for name, size in rows
            if size > 0
        )
    )
    text = Message("the largest at the peak: {moments}", moments=moments)
    if not shared.exchange_bytes:
        return text
    return Message(
        "{formula}; + exchange between {count} GPUs ({source}): {size}",
        formula=text,
        count=plan.num_gpus,
        source=SOURCES[plan.sharding],
        size=format_bytes(shared.exchange_bytes),
    )


def _passing(stretch: Stretch) -> float:
    """Bytes that the backward pass of one segment needs beside what it keeps, casts and gradients."""
    worst, kept = stretch.segment.backward, stretch.segment.kept
    return worst.live - kept.live - worst.gradients - (worst.casts - kept.casts)


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


@lru_cache(maxsize=512)
def _estimate(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    # Remembered: every visitor begins with the same plan, and a form is asked for words and for charts.
    step = measure(plan, dimensions)
    corners = list(step_corners(step))
    optimizer: Parts = {
        Part.ACTIVATIONS: max(step.inputs, step.encoded_inputs),
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
        Part.OPTIMIZER_STATES: shared.optimizer_states * step.static.optimizer_states
        + step.static.method_states,
    }
    return assemble(
        [(phase, constant | _on_one_gpu(phase, parts, shared)) for phase, parts in corners],
        formulas(plan, dimensions, step, shared),
        trainable_parameters=step.static.trainable_parameters,
        all_parameters=step.static.all_parameters,
        has_checkpointing=plan.gradient_checkpointing,
        has_eager_attention=plan.attention == "eager",
        is_emulated=plan.quantization != "none",
        threads=2,
    )


def _resuming(plan: TrainingPlan, dimensions: ModelDimensions, static: StaticBytes) -> Parts:
    """A checkpoint is read into main memory first (`Trainer._load_optimizer_and_scheduler`), and then copied
    tensor by tensor to where its values belong; PEFT reads an adapter straight to the device.
    """
    if plan.is_adapter:
        return {Part.TEMPORARIES: float(static.weights_trainable)}
    largest = max(group.size for group in trainable_tensors(plan, dimensions))
    return {Part.TEMPORARIES: float(largest * DTYPE_BYTES[plan.weights_dtype])}


def _on_one_gpu(phase: Phase, parts: Parts, shared: Shares) -> Parts:
    """A corner of one of several GPUs."""
    exchange = shared.evaluation_bytes if phase is Phase.EVALUATION else shared.exchange_bytes
    return parts | {
        Part.GRADIENTS: shared.gradients * parts.get(Part.GRADIENTS, 0.0),
        Part.TEMPORARIES: exchange + parts.get(Part.TEMPORARIES, 0.0),
    }
