"""Adapters on a tape: what LoRA, DoRA and AdaLoRA keep and make beside a linear layer, in PEFT 0.21."""

from studio.memory.operators import Operators
from studio.memory.plan import TrainingPlan
from studio.memory.tape import Tape, Tensor


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
        x = self.cast(x, 4) if is_plain or not self.plan.is_autocast else self.cast(x, x.width)
        add = {"lora": self._add_lora, "dora": self._add_dora, "adalora": self._add_adalora}[self.plan.method]
        total = add(x, result, rows, inputs, outputs)
        self.tape.drop(x)
        if is_plain and total.width != result.width:
            lowered = self.cast(total, result.width)
            self.tape.drop(total)
            total = lowered
        self.tape.drop(result)
        return total

    def _adapter(self, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
        rank = self.plan.lora_r
        return (
            self.weight(float(rank * inputs), 4, is_trained=True),
            self.weight(float(rank * outputs), 4, is_trained=True),
        )

    def _low_rank(self, x: Tensor, pair: tuple[Tensor, Tensor], rows: int, outputs: int) -> Tensor:
        middle = self.product(x, pair[0], float(rows * self.plan.lora_r))
        out = self.product(middle, pair[1], float(rows * outputs))
        self.tape.drop(middle)
        return out

    def _add_lora(self, x: Tensor, result: Tensor, rows: int, inputs: int, outputs: int) -> Tensor:
        tape = self.tape
        dropped = self.dropout(x)
        out = self._low_rank(dropped, self._adapter(inputs, outputs), rows, outputs)
        tape.drop(dropped)
        scaled = self.scaled(out)
        tape.drop(out)
        total = self.add(result, scaled)
        tape.drop(scaled)
        return total

    def _add_adalora(self, x: Tensor, result: Tensor, rows: int, inputs: int, outputs: int) -> Tensor:
        """Singular values scale the first matrix; the rank is a float32 tensor; added in place."""
        tape = self.tape
        dropped = self.dropout(x)
        down, up = self._adapter(inputs, outputs)
        scaled_down = tape.record(tape.new(down.numbers, 4), (), ((down, 4),))
        middle = self.product(dropped, scaled_down, float(rows * self.plan.lora_r))
        tape.drop(scaled_down)
        out = self.product(middle, up, float(rows * outputs))
        tape.drop(dropped)
        tape.drop(middle)
        scaled = self.scaled(out)
        tape.drop(out)
        divided = self.scaled(scaled, width=4)
        tape.drop(scaled)
        if self.plan.quantization == "8bit":
            total = self.add(result, divided)
        else:
            total = tape.record_in_place(result, divided, is_view=self.plan.quantization == "none")
        tape.drop(divided)
        return total

    def _add_dora(self, x: Tensor, result: Tensor, rows: int, inputs: int, outputs: int) -> Tensor:
        """The norm of the adapted weight is taken at each use, and base and adapter are scaled by it."""
        tape = self.tape
        has_dropout = bool(self.plan.lora_dropout)
        x = self.dropout(x)
        pair = self._adapter(inputs, outputs)
        weight, *held = self._weight_norm(x, pair, inputs, outputs)
        low_rank = self._low_rank(x, pair, rows, outputs)
        if has_dropout:
            base = self.product(x, weight, float(rows * outputs))
        else:
            base = self.add(result, Tensor(0, result.width, needs=False))
        magnitude = self.weight(float(outputs), 4, is_trained=True)
        scaled_base = self._by_magnitude(base, magnitude)
        scaled_low = self._by_magnitude(low_rank, magnitude)
        again = self.scaled(scaled_low)
        tape.drop(scaled_low)
        dora = self.add(scaled_base, again)
        for tensor in (scaled_base, again, x, low_rank, base, weight, *held):
            tape.drop(tensor)
        total = self.add(result, dora)
        tape.drop(dora)
        return total

    def _by_magnitude(self, x: Tensor, magnitude: Tensor) -> Tensor:
        """Times the float32 magnitudes over the norm: kept, since the magnitudes are trained.

        Their gradient is summed up from a float32 product; that of `x` is lowered after another one.
        """
        out = self.tape.new(x.numbers, 4)
        workspace = 4 * x.numbers * (2 if x.width == 2 else 1)
        return self.tape.record(out, (x,), ((x, x.width), (magnitude, 4)), workspace=workspace)

    def _weight_norm(
        self, x: Tensor, pair: tuple[Tensor, Tensor], inputs: int, outputs: int
    ) -> tuple[Tensor, ...]:
        """Weight and adapter multiplied out, in the type of the input; both live to the end of the layer.

        So does the unit matrix that the adapter was multiplied with: its graph keeps it.
        """
        tape = self.tape
        numbers = float(inputs * outputs)
        eye = tape.new(float(inputs * inputs), 4)
        eye_low = self.lowered(eye)
        downs, ups = self.ready(pair[0]), self.ready(pair[1])
        delta = tape.new(numbers, eye_low.width)
        for tensor in (eye, downs, ups):
            tape.drop(tensor)
        raised = self.cast(delta, x.width)
        tape.drop(delta)
        if self.plan.quantization == "none" and self.base == x.width:
            weight = self.weight(numbers, self.base, is_trained=False)
        else:
            if self.plan.quantization == "8bit":
                tape.touch(8 * numbers)
            weight = tape.new_cast(numbers, x.width, needs=False)
        tape.touch(2 * numbers * x.width)
        return weight, raised, eye_low
