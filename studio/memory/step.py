"""A training step put together from its segments: the worst moment of each stretch, in bytes by part.

Stem, encoder layers, layer norm, embedding, decoder layers, head; then back. Layers of one kind are alike, so
that the worst moment of a stretch of them is in its first or in its last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from studio.memory.layers import Pieces
from studio.memory.plan import Part, Parts, Phase, TrainingPlan
from studio.memory.segments import LayerSegment
from studio.memory.tape import ZERO, Moment
from studio.memory.weights import DTYPE_BYTES, StaticBytes, static_bytes
from studio.methods import METHODS
from studio.registry.spec import ModelDimensions
from studio.whisper.audio_context import FRAMES_PER_POSITION

Corner = tuple[Phase, Parts]

_NOTHING = LayerSegment(ZERO, 0.0, ZERO, ZERO)
_LABEL_COPIES = 3
"""Labels, decoder inputs and positions: eight bytes a token each."""


@dataclass(frozen=True)
class Stretch:
    """Some segments of one kind, one after the other."""

    segment: LayerSegment
    count: int

    @property
    def kept(self) -> float:
        """Bytes that all of them keep."""
        return self.count * self.segment.kept.live


@dataclass(frozen=True)
class Step:
    """The segments of one plan's step, and what lives through all of it."""

    plan: TrainingPlan
    static: StaticBytes
    inputs: float
    """Features and labels of all micro-batches, on the device from the step's beginning."""
    encoded_inputs: float
    """Kept states of a frozen encoder, and labels, of all micro-batches; 0 where none are kept."""
    stem: LayerSegment
    first_layer: Stretch
    """The encoder's first layer, where its input needs no gradient."""
    encoder: Stretch
    encoder_norm: LayerSegment
    embedding_bytes: float
    """The decoder's embedded tokens."""
    decoder: Stretch
    head: LayerSegment
    logits: float
    """Logits and loss at the worst moment of the forward pass."""
    embedding_gradient: float
    states: float
    """The encoder's states."""
    encoder_forward: float
    """A frozen encoder's layer at work."""
    embedded_audio: float
    """What the convolutions give out: the encoder's program holds it while its layers run."""


def measure(plan: TrainingPlan, dimensions: ModelDimensions) -> Step:
    """Plays one segment of each kind."""
    d = dimensions
    pieces = Pieces(plan, d)
    is_frozen = not METHODS[plan.method].trains_encoder
    first, encoder, decoder = _layers(plan, pieces, d)
    head, logits = pieces.head()
    tokens = float(plan.batch_size * plan.label_length)
    labels = 8 * _LABEL_COPIES * tokens
    states = float(plan.batch_size * plan.positions(d) * d.d_model * pieces.states)
    static = static_bytes(plan, d)
    return Step(
        plan=plan,
        static=static,
        inputs=plan.gradient_accumulation_steps * (_feature_bytes(plan, d) + labels),
        encoded_inputs=plan.gradient_accumulation_steps * (states + labels) * plan.has_kept_states,
        stem=pieces.stem(),
        first_layer=first,
        encoder=encoder,
        encoder_norm=pieces.encoder_norm(needs=not is_frozen),
        embedding_bytes=tokens * d.d_model * pieces.stream,
        decoder=decoder,
        head=head,
        logits=logits,
        embedding_gradient=0.0
        if plan.is_adapter
        else float(d.vocab_size * d.d_model * DTYPE_BYTES[plan.weights_dtype]),
        states=states,
        encoder_forward=pieces.untaped_layer("encoder") if is_frozen else 0.0,
        embedded_audio=float(
            plan.batch_size * plan.positions(d) * d.d_model * DTYPE_BYTES[plan.arithmetic_dtype]
        ),
    )


def _layers(plan: TrainingPlan, pieces: Pieces, d: ModelDimensions) -> tuple[Stretch, Stretch, Stretch]:
    """The encoder's first layer where it is unlike the others, the rest of the encoder, and the decoder."""
    if plan.gradient_checkpointing:
        decoder = pieces.recomputed_layer("decoder")
    else:
        decoder = pieces.layer("decoder", needs=True)
    has_first = plan.is_adapter and not plan.gradient_checkpointing
    first = pieces.layer("encoder", needs=False) if has_first else _NOTHING
    if not METHODS[plan.method].trains_encoder:
        encoder = _NOTHING
    elif plan.gradient_checkpointing:
        encoder = pieces.recomputed_layer("encoder")
    else:
        encoder = pieces.layer("encoder", needs=True)
    return (
        Stretch(first, int(has_first)),
        Stretch(encoder, d.encoder_layers - int(has_first)),
        Stretch(decoder, d.decoder_layers),
    )


def _feature_bytes(plan: TrainingPlan, d: ModelDimensions) -> float:
    width = 2 if plan.precision == "pure_bf16" else 4
    return float(plan.batch_size * width * d.num_mel_bins * FRAMES_PER_POSITION * plan.positions(d))


class Walk:
    """Goes through the step and notes its corners. `base` is what is alive beside the segment at work."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.corners: list[Corner] = []
        gradients = step.static.gradients if step.plan.gradient_accumulation_steps > 1 else 0
        self.base = Moment(step.inputs + gradients, 0.0, float(gradients))

    def go(self) -> list[Corner]:
        """All corners of forward and backward pass, without weights and optimizer states."""
        self._forward()
        self._backward()
        return self.corners

    def _forward(self) -> None:
        step = self.step
        cached = held = 0.0
        for stretch in (Stretch(step.stem, 1), step.first_layer, step.encoder):
            cached += stretch.segment.cached * stretch.count
            self._rise(stretch, cached, held)
            held = step.embedded_audio
        if step.encoder_forward:
            self._note(Phase.FORWARD, self.base.live + step.encoder_forward + cached + held, casts=cached)
        self._add(step.encoder_norm.kept, 1)
        cached += step.decoder.segment.cached * step.decoder.count
        self._rise(step.decoder, cached, step.states)
        live = self.base.live + step.head.forward + step.states + cached
        casts = self.base.casts + cached + step.head.kept.casts
        self._note(Phase.FORWARD, live, logits=step.logits, casts=casts)
        self._add(step.head.kept, 1)
        self.base = Moment(self.base.live + self._kept_states, self.base.casts, self.base.gradients)

    def _rise(self, stretch: Stretch, cached: float, held: float) -> None:
        """Forward through a stretch: its last segment has the most below it."""
        if stretch.count:
            segment = stretch.segment
            self._add(segment.kept, stretch.count)
            live = self.base.live - segment.kept.live + segment.forward + cached + held
            self._note(Phase.FORWARD, live, casts=self.base.casts + cached)

    @property
    def _kept_states(self) -> float:
        """The encoder's states, where decoder layers keep them as they are rather than casted copies."""
        return self.step.states if self.step.decoder.segment.keeps_states else 0.0

    def _backward(self) -> None:
        step = self.step
        self._play(Stretch(step.head, 1))
        self._play(step.decoder)
        if not step.decoder.segment.pins_states:
            self.base = Moment(self.base.live - self._kept_states, self.base.casts, self.base.gradients)
        passed = step.decoder.segment.passed_on
        if step.embedding_gradient:
            ties = self._ties * step.embedding_gradient
            self._note(Phase.BACKWARD, self.base.live + passed + step.embedding_bytes + ties)
            if step.plan.gradient_accumulation_steps > 1:
                gradient = step.embedding_gradient
                self.base = Moment(self.base.live - gradient, self.base.casts, self.base.gradients - gradient)
        if step.encoder.count and step.encoder.segment.backward.live:
            self._play(Stretch(step.encoder_norm, 1))
            self._play(step.encoder)
            self._play(step.first_layer)
            self._play(Stretch(step.stem, 1))

    @property
    def _ties(self) -> int:
        """Gradients of the embedding beside the projection's: its own, and their sum unless in place."""
        plan = self.step.plan
        is_cast = plan.is_autocast and plan.weights_dtype == "fp32"
        # The loss in chunks gives a gradient of its own, and no view of one.
        return 1 if is_cast or plan.loss_chunk_size else 2

    def _play(self, stretch: Stretch) -> None:
        """Backward through a stretch: its first segment has the most below it, its last most gradients."""
        segment = stretch.segment
        if not stretch.count:
            return
        live = self.base.live - segment.kept.live + segment.backward.live
        drift = segment.after.live - segment.kept.live
        last = (stretch.count - 1) * drift
        gradients = self.base.gradients + segment.backward.gradients
        casts = self.base.casts - segment.kept.casts + segment.backward.casts
        self._note(Phase.BACKWARD, live, casts=casts, gradients=gradients)
        if last > 0:
            self._note(
                Phase.BACKWARD,
                live + last,
                casts=casts - (stretch.count - 1) * segment.kept.casts,
                gradients=gradients + (stretch.count - 1) * segment.after.gradients,
            )
        self.base = Moment(
            self.base.live + stretch.count * drift,
            self.base.casts - stretch.count * segment.kept.casts,
            self.base.gradients + stretch.count * segment.after.gradients,
        )

    def _add(self, kept: Moment, count: int) -> None:
        live, casts = self.base.live + count * kept.live, self.base.casts + count * kept.casts
        self.base = Moment(live, casts, self.base.gradients)

    def _note(
        self,
        phase: Phase,
        live: float,
        *,
        logits: float = 0.0,
        casts: float | None = None,
        gradients: float | None = None,
    ) -> None:
        """A moment by part: what the step keeps below the segment at work are activations."""
        casts = self.base.casts if casts is None else casts
        gradients = self.base.gradients if gradients is None else gradients
        rest = max(0.0, live - casts - gradients - logits)
        kept = min(rest, max(0.0, self.base.live - self.base.casts - self.base.gradients))
        activations = rest if phase is Phase.FORWARD else kept
        parts: Parts = {
            Part.ACTIVATIONS: activations,
            Part.WEIGHT_CASTS: casts,
            Part.GRADIENTS: gradients,
            Part.LOGITS_AND_LOSS: logits,
            Part.TEMPORARIES: rest - activations,
        }
        self.corners.append((phase, parts))


def corners(step: Step) -> Iterator[Corner]:
    """The worst moments of forward and backward pass; of later epochs, too, if the encoder's states are kept:
    then they are the input, and the decoder works alone.
    """
    yield from Walk(step).go()
    if step.encoded_inputs:
        none = Stretch(_NOTHING, 0)
        alone = replace(step, inputs=step.encoded_inputs, encoder_forward=0.0, embedded_audio=0.0, states=0.0)
        alone = replace(alone, stem=_NOTHING, first_layer=none, encoder=none, encoder_norm=_NOTHING)
        yield from Walk(alone).go()
