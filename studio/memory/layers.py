"""One layer of a Whisper, or what is before and after its layers, played on a tape: pieces of a step."""

from dataclasses import replace

from studio.memory.operators import Operators, Shape
from studio.memory.plan import TrainingPlan
from studio.memory.segments import LayerSegment, end_region, play_backward
from studio.memory.tape import ZERO, Moment, Tape, Tensor
from studio.methods import METHODS
from studio.registry.spec import ModelDimensions


class LayerOperators(Operators):
    """The operations of a layer, with adapters where the plan wants them."""

    def __init__(self, plan: TrainingPlan, tape: Tape, *, has_gradients: bool = False) -> None:
        """As of `Operators`."""
        super().__init__(plan, tape, has_gradients=has_gradients)
        self._targets = frozenset(plan.target_modules if plan.is_adapter else ())

    def linear(self, x: Tensor, name: str, rows: int, inputs: int, outputs: int) -> Tensor:
        """A linear layer of the base model, with an adapter beside it if the plan wants one there."""
        result = self.base_linear(x, rows, inputs, outputs)
        if name not in self._targets:
            return result
        if self.plan.quantization == "4bit":
            copy = self.tape.record(self.tape.new(result.numbers, result.width), (), ((result, 0),))
            self.tape.drop(result)
            result = copy
        is_plain = self.plan.quantization == "none"
        self.has_bias = name != "k_proj"
        x = self.cast(x, 4) if is_plain or not self.plan.is_autocast else self.cast(x, x.width)
        total: Tensor = METHODS[self.plan.method].play_beside(self, x, result, rows, inputs, outputs)
        self.tape.drop(x)
        if is_plain and total.width != result.width:
            lowered = self.cast(total, result.width)
            self.tape.drop(total)
            total = lowered
        self.tape.drop(result)
        return total


def model_loss(operators: LayerOperators, logits: Tensor, *, is_autocast: bool) -> tuple[Tensor, float]:
    """The model's own: cross-entropy within autocast, whose outputs are then copied to float32."""
    tape = operators.tape
    log_probabilities = tape.new(logits.numbers, logits.width)
    tape.record(log_probabilities, (log_probabilities,), ((logits, logits.width),))
    raised = operators.cast(log_probabilities, 4 if is_autocast else log_probabilities.width)
    tape.drop(log_probabilities)
    loss = tape.record(tape.new(1.0, 4), (raised,), ((raised, raised.width),))
    tape.drop(raised)
    cached = end_region(tape)
    if is_autocast:
        tape.touch(4 * logits.numbers)
    return loss, cached


def smoothed_loss(operators: LayerOperators, logits: Tensor, *, is_autocast: bool) -> tuple[Tensor, float]:
    """With smoothed labels: outside of autocast, in float32; lets go of `logits`.

    Two gradients meet in the log-probabilities, that of the label and that of all tokens; the latter is
    one number a row, spread out as a view.
    """
    tape = operators.tape
    cached = end_region(tape)
    raised = operators.cast(logits, 4)
    if is_autocast:  # there the raised ones take the place of the model's output
        tape.drop(logits)
    log_probabilities = tape.new(raised.numbers, 4)
    tape.record(log_probabilities, (log_probabilities,), ((raised, 4),))
    loss = tape.record(tape.new(1.0, 4), (), ((log_probabilities, 4),))
    tape.drop(log_probabilities, raised)
    if not is_autocast:
        tape.drop(logits)
    return loss, cached


_OWNERS = 2
"""Of a tensor that the segment is given and never lets go of."""


class Pieces:
    """Makes the segments of one plan's step."""

    def __init__(self, plan: TrainingPlan, dimensions: ModelDimensions) -> None:
        self.plan = plan
        self.dimensions = dimensions
        d = dimensions
        self.audio = Shape(plan.batch_size, plan.positions(d), d.encoder_attention_heads)
        self.text = Shape(plan.batch_size, plan.label_length, d.decoder_attention_heads)
        self.has_gradients = plan.gradient_accumulation_steps > 1
        is_half_base = plan.weights_dtype != "fp32"
        self.stream = 2 if is_half_base else 4
        """Bytes of a number in the residual stream."""
        self.states = 2 if plan.precision == "pure_bf16" else 4
        """Bytes of a number in the encoder's states, which a layer norm gives out."""
        self._before_activation = ZERO
        self.trains_encoder = METHODS[plan.method].trains_encoder

    def layer(self, half: str, *, needs: bool) -> LayerSegment:
        """A layer that keeps its activations; `needs`: whether its input needs a gradient."""
        tape = Tape()
        operators = LayerOperators(self.plan, tape, has_gradients=self.has_gradients)
        x = self._input(tape, half, needs=needs)
        states = self._states()
        y = self._forward(operators, half, x, states)
        forward = tape.peak.live
        end_region(tape)
        tape.drop(x)
        keeps, pins = states.owners > _OWNERS, states in tape.pinned
        segment = play_backward(tape, y, x, states, forward)
        return replace(segment, keeps_states=keeps, pins_states=pins)

    def recomputed_layer(self, half: str) -> LayerSegment:
        """A layer under gradient checkpointing: keeps its input, and is computed again on the way back."""
        tape = Tape()
        operators = LayerOperators(self.plan, tape, has_gradients=self.has_gradients)
        x = self._input(tape, half, needs=True)
        border = Moment(tape.live, 0.0, 0.0)
        gradient = tape.new(x.numbers, x.width)
        states = self._states()
        y = self._forward(operators, half, x, states)
        # In the forward pass, where nothing is kept, only autocast's cache holds them.
        cached = sum(cast.numbers * cast.width for cast in tape.cache.values())
        end_region(tape)
        recomputed, pinned = tape.peak, tape.pinned
        if not self.plan.use_reentrant:
            tape.drop(y)
            if self.plan.quantization == "8bit" and "fc2" not in self.plan.target_modules:
                # Nothing after the activation is kept in a way that checkpoints see: there they stop.
                recomputed = self._before_activation
                tape.drop(pinned[-1])
        tape.peak = tape.now() if tape.live > recomputed.live else recomputed
        tape.backward(y, gradient)
        own = {id(t): t for t in pinned if t is not states}.values()
        leak = sum(t.numbers * t.width for t in own)
        leaks = leak if not self.plan.use_reentrant else 0.0
        passed = states.grad.numbers * states.grad.width if states.grad else 0.0
        return LayerSegment(
            kept=Moment(border.live + leaks, 0.0, 0.0),
            forward=self.untaped_layer(half),
            backward=Moment(tape.peak.live + leaks, tape.peak.casts, tape.peak.gradients),
            after=Moment(tape.gradients + leaks, 0.0, tape.gradients),
            cached=cached,
            keeps_states=True,
            pins_states=states in pinned and not self.plan.use_reentrant,
            passed_on=passed,
        )

    def untaped_layer(self, half: str) -> float:
        """Live bytes at the worst moment of a layer that keeps nothing for a backward pass."""
        tape = Tape()
        operators = LayerOperators(self.plan, tape)
        operators.is_taped = operators.is_trained = False
        x = self._input(tape, half, needs=False)
        states = self._states()
        states.needs = False
        self._forward(operators, half, x, states)
        return tape.peak.live

    def projected_sound(self, name: str, clips: int) -> float:
        """Live bytes beside the encoder's states while keys or values of so many clips are projected."""
        tape, width = Tape(), self.dimensions.d_model
        operators = LayerOperators(self.plan, tape)
        operators.is_taped = operators.is_trained = False
        rows = clips * self.audio.length
        states = Tensor(float(rows * width), self.states, needs=False)
        states.owners = _OWNERS
        operators.linear(states, name, rows, width, width)
        return tape.peak.live

    def stem(self) -> LayerSegment:
        """Two convolutions on the features, and the positions."""
        d, plan = self.dimensions, self.plan
        tape = Tape()
        operators = LayerOperators(self.plan, tape, has_gradients=self.has_gradients)
        operators.is_trained = operators.is_trained and self.trains_encoder
        is_pure = plan.precision == "pure_bf16"
        frames = 2 * self.audio.rows
        features = Tensor(float(frames * d.num_mel_bins), 2 if is_pure else 4, needs=False)
        features.owners = _OWNERS
        width = operators.base
        convolutions = [
            operators.weight(3.0 * inputs * d.d_model, width, is_trained=operators.is_trained)
            for inputs in (d.num_mel_bins, d.d_model)
        ]
        first = operators.product(features, convolutions[0], float(frames * d.d_model))
        active = operators.gelu(first)
        tape.drop(first)
        second = operators.product(active, convolutions[1], float(self.audio.rows * d.d_model))
        tape.drop(active)
        if plan.is_adapter and plan.gradient_checkpointing:
            second.needs = True
        states = operators.gelu(second)
        tape.drop(second)
        positions = Tensor(states.numbers, width, needs=False, is_weight=True)
        y = operators.add(states, positions)
        tape.drop(states)
        forward = tape.peak.live
        cached = end_region(tape)
        return play_backward(tape, y, features, self._states(), forward, cached)

    def encoder_norm(self, *, needs: bool) -> LayerSegment:
        """The layer norm after the encoder's last layer."""
        tape = Tape()
        operators = LayerOperators(self.plan, tape)
        operators.is_trained = operators.is_trained and needs
        x = self._input(tape, "encoder", needs=needs)
        y = operators.norm(x, self.audio.rows)
        forward = tape.peak.live
        tape.drop(x)
        return play_backward(tape, y, x, self._states(), forward)

    def head(self) -> tuple[LayerSegment, float]:
        """Last layer norm, logits and loss; and what of the forward pass's worst moment is logits."""
        d, plan = self.dimensions, self.plan
        tape = Tape()
        operators = LayerOperators(plan, tape, has_gradients=self.has_gradients)
        x = self._input(tape, "decoder", needs=True)
        states = operators.norm(x, self.text.rows)
        embedding = operators.weight(
            float(d.vocab_size * d.d_model), operators.base, is_trained=operators.is_trained
        )
        # Its gradient waits for that of the embedding, whatever was summed up before.
        embedding.grad = None
        count = float(self.text.rows * d.vocab_size)
        before = tape.live
        if plan.loss_chunk_size:
            return self._chunked_head(operators, x, states, embedding)
        logits = operators.product(states, embedding, count)
        tape.drop(states)
        if plan.label_smoothing_factor:
            loss, cached = smoothed_loss(operators, logits, is_autocast=plan.is_autocast)
        else:
            loss, cached = model_loss(operators, logits, is_autocast=plan.is_autocast)
            tape.drop(logits)
        forward = tape.peak.live
        tape.drop(x)
        segment = play_backward(tape, loss, x, self._states(), forward, cached)
        casted = 2.0 * embedding.numbers if operators.ready(embedding) is not embedding else 0.0
        return segment, forward - before - casted

    def _chunked_head(
        self, operators: LayerOperators, x: Tensor, states: Tensor, embedding: Tensor
    ) -> tuple[LayerSegment, float]:
        """`studio.whisper.loss`: gradients are made in the forward pass, beside the logits of one chunk."""
        tape, plan, d = operators.tape, self.plan, self.dimensions
        width = operators.arithmetic if plan.is_autocast else states.width
        tokens = float(min(plan.loss_chunk_size, self.text.rows))
        logits = tokens * d.vocab_size * (4 if width == 4 else 4 + width)
        made = [tape.new(states.numbers, states.width)]
        if embedding.needs:
            made.append(tape.new(embedding.numbers, embedding.width))
        is_casted = embedding.width != width
        lowered = tape.new_cast(embedding.numbers, width, needs=False) if is_casted else None
        chunk = tokens * d.d_model * (width if states.width != width else 0)
        product = float(embedding.numbers * width) if embedding.needs and is_casted else tokens * d.d_model
        tape.touch(logits + chunk)
        tape.touch(tokens * d.vocab_size * width + chunk + product)
        if lowered is not None:
            tape.drop(lowered)
        loss = tape.record(
            tape.new(1.0, 4),
            tuple(made),
            ((states, states.width), (embedding, embedding.width)),
            hands_on=True,
        )
        tape.drop(*made, states)
        cached = end_region(tape)
        forward = tape.peak.live
        tape.drop(x)
        return play_backward(tape, loss, x, self._states(), forward, cached), logits

    def _input(self, tape: Tape, half: str, *, needs: bool) -> Tensor:
        """What comes into a layer from the one before."""
        rows = (self.audio if half == "encoder" else self.text).rows
        return tape.new(float(rows * self.dimensions.d_model), self.stream, needs)

    def _states(self) -> Tensor:
        """The encoder's states as decoder layers read them; others count their bytes."""
        needs = self.plan.is_adapter or self.trains_encoder
        states = Tensor(float(self.audio.rows * self.dimensions.d_model), self.states, needs)
        states.owners = _OWNERS
        return states

    def _forward(self, operators: LayerOperators, half: str, x: Tensor, states: Tensor) -> Tensor:
        """The layer as `WhisperEncoderLayer` and `WhisperDecoderLayer` run it; gives back its output."""
        d = self.dimensions
        if half == "encoder":
            operators.is_trained = operators.is_trained and self.trains_encoder
            x.owners += 1
            x = self._attend(operators, x, None, self.audio, self.audio, mask=False)
            x = self._feed_forward(operators, x, self.audio.rows, d.encoder_ffn_dim)
            if x.width == 2 and self.plan.base_dtype == "fp16" and self.stream == 2:
                clamped = operators.clamp(x)
                operators.tape.drop(x)
                return clamped
            return x
        x.owners += 1
        x = self._attend(operators, x, None, self.text, self.text, mask=True)
        x = self._attend(operators, x, states, self.text, self.audio, mask=False)
        return self._feed_forward(operators, x, self.text.rows, d.decoder_ffn_dim)

    def _attend(
        self,
        operators: LayerOperators,
        x: Tensor,
        states: Tensor | None,
        queries: Shape,
        keys: Shape,
        *,
        mask: bool,
    ) -> Tensor:
        """Norm, attention, sum; lets go of `x`. With `states` it reads those of the encoder."""
        tape, width = operators.tape, self.dimensions.d_model
        normed = operators.norm(x, queries.rows)
        projected = operators.linear(normed, "q_proj", queries.rows, width, width)
        scaled = operators.scaled(projected)
        tape.drop(projected)
        heads = [operators.scaled(scaled)]
        tape.drop(scaled)
        for name in ("k_proj", "v_proj"):
            projected = operators.linear(states or normed, name, keys.rows, width, width)
            heads.append(operators.scaled(projected))
            tape.drop(projected)
        context = operators.attention(heads[0], heads[1], heads[2], queries, keys, mask)
        out = operators.linear(context, "out_proj", queries.rows, width, width)
        tape.drop(*heads, context, normed)
        total = operators.add(x, out)
        tape.drop(out, x)
        return total

    def _feed_forward(self, operators: LayerOperators, x: Tensor, rows: int, inner: int) -> Tensor:
        tape, width = operators.tape, self.dimensions.d_model
        normed = operators.norm(x, rows)
        wide = operators.linear(normed, "fc1", rows, width, inner)
        self._before_activation = tape.peak
        active = operators.gelu(wide)
        tape.drop(wide, normed)
        out = operators.linear(active, "fc2", rows, inner, width)
        tape.drop(active)
        total = operators.add(x, out)
        tape.drop(out, x)
        return total
