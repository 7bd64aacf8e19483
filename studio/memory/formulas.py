"""The arithmetic of each part of a training estimate with its numbers put in, for people."""

from studio.memory.plan import Part, TrainingPlan
from studio.memory.sharding import SOURCES, Shares
from studio.memory.step import Step, Stretch
from studio.memory.weights import DTYPE_BYTES
from studio.registry.spec import ModelDimensions
from studio.sentences import Listing, Sentence
from studio.units import format_bytes, format_count


def formulas(
    plan: TrainingPlan, dimensions: ModelDimensions, step: Step, shared: Shares
) -> dict[Part, Sentence]:
    """A line for every part but the overhead, which `assemble` adds."""
    return {
        **_weights(plan, step, shared),
        **_step(plan, dimensions, step),
        Part.TEMPORARIES: _temporaries(plan, step, shared),
    }


def _weights(plan: TrainingPlan, step: Step, shared: Shares) -> dict[Part, Sentence]:
    """What is there through the whole step, and on how many GPUs."""
    static = step.static
    count = f"{static.trainable_parameters:,}"
    width = 4 if plan.is_adapter else DTYPE_BYTES[plan.weights_dtype]
    trained = Sentence("{count} trained parameters × {width} B", count=count, width=width)
    frozen = Sentence(
        "{count} frozen parameters, {dtype} unless quantised: {size}",
        count=f"{static.all_parameters - static.trainable_parameters:,}",
        dtype=plan.weights_dtype,
        size=format_bytes(static.weights_frozen),
    )
    gradients = Sentence(
        "{product} = {size} at the end of the backward pass",
        product=trained,
        size=format_bytes(static.gradients),
    )
    states = Sentence(
        "{optimizer} for {count} weights: {size}",
        optimizer=plan.optimizer,
        count=format_count(static.trainable_parameters),
        size=format_bytes(static.optimizer_states),
    )
    return {
        Part.WEIGHTS_TRAINABLE: _on_one(plan, trained, shared.weights),
        Part.WEIGHTS_FROZEN: _on_one(plan, frozen, shared.weights),
        Part.WEIGHTS_QUANTIZED: Sentence(
            "linear layers in {quantization}: {size}",
            quantization=plan.quantization,
            size=format_bytes(static.weights_quantized),
        ),
        Part.GRADIENTS: _on_one(plan, gradients, shared.gradients),
        Part.OPTIMIZER_STATES: _on_one(plan, states, shared.optimizer_states),
    }


def _on_one(plan: TrainingPlan, formula: Sentence, share: float) -> Sentence:
    """What one GPU of several has of it."""
    if plan.num_gpus == 1:
        return formula
    if share == 1.0:
        return Sentence("{formula}, whole on each of {count} GPUs", formula=formula, count=plan.num_gpus)
    source = SOURCES[plan.sharding]
    return Sentence(
        "({formula}) ÷ {count} GPUs ({source})", formula=formula, count=plan.num_gpus, source=source
    )


def _step(plan: TrainingPlan, d: ModelDimensions, step: Step) -> dict[Part, Sentence]:
    """What comes and goes within a step."""
    stretches = (step.encoder, step.decoder)
    casts = sum(stretch.count * stretch.segment.kept.casts for stretch in stretches) + step.head.kept.casts
    return {
        Part.WEIGHT_CASTS: Sentence(
            "copies of weights in the type of the arithmetic that are kept: {size} at the end of the forward "
            "pass",
            size=format_bytes(casts),
        ),
        Part.ACTIVATIONS: _activations(plan, d, step),
        Part.LOGITS_AND_LOSS: _logits(plan, d, step),
    }


def _activations(plan: TrainingPlan, d: ModelDimensions, step: Step) -> Sentence:
    """What the layers keep for the backward pass."""
    layers = Sentence(
        "batch {batch}: {encoder_layers} × {encoder} (encoder layers) + {decoder_layers} × {decoder} "
        "(decoder layers)",
        batch=plan.batch_size,
        encoder_layers=d.encoder_layers,
        encoder=format_bytes(step.encoder.segment.kept.live),
        decoder_layers=d.decoder_layers,
        decoder=format_bytes(step.decoder.segment.kept.live),
    )
    if step.stem.kept.live:
        layers = Sentence("{layers} + {size} (input)", layers=layers, size=format_bytes(step.stem.kept.live))
    if plan.gradient_checkpointing:
        return Sentence("{layers}, and one layer computed again at a time", layers=layers)
    return layers


def _logits(plan: TrainingPlan, d: ModelDimensions, step: Step) -> Sentence:
    """All tokens of a batch, or those of a chunk of the loss."""
    tokens = plan.batch_size * plan.label_length
    said = Sentence("{clips} clips × {tokens} tokens", clips=plan.batch_size, tokens=plan.label_length)
    if 0 < plan.loss_chunk_size < tokens:
        tokens = plan.loss_chunk_size
        said = Sentence("{tokens} tokens of a chunk", tokens=tokens)
    each = step.logits / (tokens * d.vocab_size)
    return Sentence(
        "{tokens} × {entries} entries, {width} B each = {size} at the end of the forward pass",
        tokens=said,
        entries=f"{d.vocab_size:,}",
        width=f"{each:.0f}",
        size=format_bytes(step.logits),
    )


def _temporaries(plan: TrainingPlan, step: Step, shared: Shares) -> Sentence:
    """The moments that need most beside what is kept; the one at the peak counts."""
    rows = (
        (Sentence("an encoder layer on its way back"), _passing(step.encoder)),
        (Sentence("a decoder layer"), _passing(step.decoder)),
        (Sentence("the logits"), _passing(Stretch(step.head, 1))),
        (
            Sentence("a step of {optimizer}", optimizer=plan.optimizer),
            float(step.static.optimizer_temporaries),
        ),
    )
    moments = Listing(
        tuple(
            Sentence("{moment} {size}", moment=name, size=format_bytes(size))
            for name, size in rows
            if size > 0
        )
    )
    text = Sentence("whichever is at work at the peak: {moments}", moments=moments)
    if not shared.exchange_bytes:
        return text
    return Sentence(
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
