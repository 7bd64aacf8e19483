"""What each operation of a Whisper layer keeps and makes, on a tape: sizes only.

They follow transformers 5.23 (`modeling_whisper`), PEFT 0.21 and bitsandbytes 0.50 operation by operation,
under CUDA's autocast or without it. An operation does not let go of its inputs: whoever calls it does.
"""

from dataclasses import dataclass

from studio.memory.plan import TrainingPlan
from studio.memory.tape import Tape, Tensor

_WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2}
_BLOCK_4BIT = 64


@dataclass(frozen=True)
class Shape:
    """A batch of sequences: rows (batch × positions), positions of one, and attention heads."""

    batch: int
    length: int
    heads: int

    @property
    def rows(self) -> int:
        """Positions of the whole batch."""
        return self.batch * self.length


class Operators:
    """The operations of one plan's layers, played on one tape."""

    def __init__(self, plan: TrainingPlan, tape: Tape, *, has_gradients: bool = False) -> None:
        """`has_gradients`: weights have gradients already, from the micro-batch before."""
        self.plan = plan
        self.tape = tape
        self.arithmetic = _WIDTHS[plan.arithmetic_dtype]
        self.base = _WIDTHS[plan.weights_dtype]
        self.is_trained = not plan.is_adapter
        self._has_gradients = has_gradients
        self._targets = frozenset(plan.target_modules if plan.is_adapter else ())

    def weight(self, numbers: float, width: int, *, is_trained: bool) -> Tensor:
        """A weight; its own bytes are counted elsewhere."""
        weight = Tensor(numbers, width, is_trained, is_weight=True)
        if is_trained and self._has_gradients:
            weight.grad = Tensor(numbers, width, needs=False)
        return weight

    def cast(self, x: Tensor, width: int) -> Tensor:
        """In another type, or one more owner of the same."""
        if x.width == width:
            x.owners += 1
            return x
        out = self.tape.new(x.numbers, width)
        return self.tape.record(out, (), ((x, x.width),))

    def lowered(self, x: Tensor) -> Tensor:
        """As autocast hands it to a matrix product."""
        return self.cast(x, self.arithmetic if self.plan.is_autocast else x.width)

    def ready(self, weight: Tensor) -> Tensor:
        """A weight as autocast hands it to a product: trained ones are casted once, others at each use."""
        if not self.plan.is_autocast or weight.width == self.arithmetic:
            return weight
        known = self.tape.cache.get(id(weight))
        if known is not None:
            known.owners += 1
            return known
        out = self.tape.new_cast(weight.numbers, self.arithmetic, weight.needs)
        if weight.needs:
            self.tape.record(out, (), ((weight, weight.width),))
            self.tape.cache[id(weight)] = out
            out.owners += 1
        return out

    def product(self, x: Tensor, weight: Tensor, numbers: float) -> Tensor:
        """`x` times a weight: keeps `x` if the weight is trained, a casted weight if `x` needs a gradient."""
        x = self.lowered(x)
        ready = self.ready(weight)
        out = self.tape.new(numbers, x.width)
        kept = (*((x,) if weight.needs else ()), *((ready,) if x.needs else ()))
        self.tape.record(out, kept, ((x, x.width), (ready, ready.width)), makes_views=True)
        self.tape.drop(x)
        self.tape.drop(ready)
        return out

    def scaled(self, x: Tensor, width: int = 0) -> Tensor:
        """Times a number; or, with a width, divided by a float32 tensor, which raises the type."""
        out = self.tape.new(x.numbers, width or x.width)
        return self.tape.record(out, (), ((x, x.width),))

    def norm(self, x: Tensor, rows: int) -> Tensor:
        """Layer norm, in float32 under autocast; keeps its input, and mean and deviation of each row."""
        x = self.cast(x, 4 if self.plan.is_autocast else x.width)
        out = self.tape.new(x.numbers, x.width)
        statistics = self.tape.new(2 * rows, 4)
        gain = self.weight(0, 4, is_trained=self.is_trained)
        self.tape.record(out, (x, statistics), ((x, x.width), (gain, 4)))
        self.tape.drop(x)
        self.tape.drop(statistics)
        return out

    def gelu(self, x: Tensor) -> Tensor:
        """Keeps its input."""
        out = self.tape.new(x.numbers, x.width)
        return self.tape.record(out, (x,), ((x, x.width),))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """A sum in the wider type; a gradient of the same type is passed on as it is."""
        width = max(a.width, b.width)
        out = self.tape.new(max(a.numbers, b.numbers), width)
        to = tuple((x, 0 if x.width == width else x.width) for x in (a, b))
        return self.tape.record(out, (), to)

    def contiguous(self, x: Tensor) -> Tensor:
        """Heads before positions, copied; the gradient is copied back."""
        out = self.tape.new(x.numbers, x.width)
        return self.tape.record(out, (), ((x, x.width),))

    def clamp(self, x: Tensor) -> Tensor:
        """transformers clamps encoder states in float16."""
        out = self.tape.new(x.numbers, x.width)
        return self.tape.record(out, (x,), ((x, x.width),), workspace=3 * x.numbers)

    def dropout(self, x: Tensor) -> Tensor:
        """Keeps a mask of a byte a number."""
        if not self.plan.lora_dropout:
            x.owners += 1
            return x
        out = self.tape.new(x.numbers, x.width)
        mask = self.tape.new(x.numbers, 1)
        self.tape.record(out, (mask,), ((x, x.width),))
        self.tape.drop(mask)
        return out

    def attention(self, q: Tensor, k: Tensor, v: Tensor, queries: Shape, keys: Shape, mask: bool) -> Tensor:
        """Of all heads, positions before heads again; eager attention gives its weights to the layer, too."""
        if self.plan.attention == "eager":
            return self._eager(q, k, v, queries, keys, mask)
        tape = self.tape
        q, k, v = (self.lowered(x) for x in (q, k, v))
        out = tape.new(q.numbers, q.width)
        is_flash = q.width == 2
        length = queries.length if is_flash else -(-queries.length // 32) * 32
        statistics = tape.new(queries.batch * queries.heads * length, 4)
        tape.record(
            out,
            (q, k, v, out, statistics),
            tuple((x, x.width) for x in (q, k, v)),
            workspace=self._attention_workspace(q, queries, is_flash=is_flash),
        )
        for x in (q, k, v, statistics):
            tape.drop(x)
        if not is_flash:
            return out
        copy = tape.record(tape.new(out.numbers, out.width), (), ((out, 0),))
        tape.drop(out)
        return copy

    @staticmethod
    def _attention_workspace(q: Tensor, queries: Shape, *, is_flash: bool) -> float:
        """As in `trace.cuda`: the query's gradient in float32, and a float32 a row."""
        rows = queries.batch * queries.heads
        if not is_flash:
            return 4 * rows * queries.length + 4 * q.numbers
        rows *= -(-queries.length // 128) * 128
        width = q.numbers / (queries.batch * queries.heads * queries.length)
        return 4 * rows * (-(-width // 32) * 32) + 4 * rows

    def _eager(self, q: Tensor, k: Tensor, v: Tensor, queries: Shape, keys: Shape, mask: bool) -> Tensor:
        """Scores written out: casted to float32, their softmax kept, and again in the type of the product."""
        tape = self.tape
        count = float(queries.batch * queries.heads * queries.length * keys.length)
        q, k, v = (self.lowered(x) for x in (q, k, v))
        products = tape.new(count, q.width)
        tape.record(products, (q, k), ((q, q.width), (k, k.width)))
        tape.drop(q)
        tape.drop(k)
        scores = self.scaled(products)
        tape.drop(products)
        if mask:
            masked = tape.record(tape.new(count, scores.width), (), ((scores, 0),))
            tape.drop(scores)
            scores = masked
        is_one_kernel = self.plan.arithmetic_dtype == "fp16"
        if self.plan.is_autocast and not is_one_kernel:
            raised = self.cast(scores, 4)
        else:
            scores.owners += 1
            raised = scores
        width = 4 if self.plan.is_autocast else scores.width
        softmax = tape.new(count, width)
        tape.record(softmax, (softmax,), ((raised, raised.width),))
        tape.drop(raised)
        tape.drop(scores)
        lowered = self.lowered(softmax)
        out = tape.new(q.numbers, lowered.width)
        tape.record(out, (lowered, v), ((lowered, lowered.width), (v, v.width)))
        tape.drop(lowered)
        tape.drop(v)
        copy = tape.record(tape.new(out.numbers, out.width), (), ((out, 0),))
        tape.drop(out)
        # The layer's program holds the weights of attention to its end; autograd does so anyway.
        tape.drop(softmax)
        return copy

    def linear(self, x: Tensor, name: str, rows: int, inputs: int, outputs: int) -> Tensor:
        """A linear layer of the base model, with an adapter beside it if the plan wants one there."""
        result = self._base_linear(x, rows, inputs, outputs)
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

    def _base_linear(self, x: Tensor, rows: int, inputs: int, outputs: int) -> Tensor:
        numbers = float(inputs * outputs)
        if self.plan.quantization == "8bit":
            return self._linear_8bit(x, rows, numbers, outputs)
        if self.plan.quantization == "4bit":
            return self._linear_4bit(x, rows, numbers, outputs)
        weight = self.weight(numbers, self.base, is_trained=self.is_trained)
        return self.product(x, weight, float(rows * outputs))

    def _linear_8bit(self, x: Tensor, rows: int, numbers: float, outputs: int) -> Tensor:
        """Input in float16 and int8, sums in int32 and float16; the input itself hangs on the node."""
        tape = self.tape
        tape.touch(x.numbers * (2 + 1 + 2 + 1))
        tape.touch(6.0 * rows * outputs)
        out = tape.new(float(rows * outputs), x.width)
        tape.touch(6.0 * rows * outputs)
        if x.needs:
            x.owners += 1
            tape.pinned.append(x)
        return tape.record(out, (), ((x, x.width),), workspace=numbers * x.width, makes_views=True)

    def _linear_4bit(self, x: Tensor, rows: int, numbers: float, outputs: int) -> Tensor:
        """The weight is unpacked for each product; input and result are casted to its type and back."""
        tape = self.tape
        lowered = self.cast(x, self.arithmetic)
        unpacked = numbers * self.arithmetic
        tape.touch(unpacked + 8 * numbers / _BLOCK_4BIT)
        result = tape.new(float(rows * outputs), self.arithmetic)
        tape.touch(unpacked)
        tape.record(result, (), ((lowered, lowered.width),), workspace=unpacked)
        tape.drop(lowered)
        raised = self.cast(result, x.width)
        tape.drop(result)
        return raised

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
        weight, delta = self._weight_norm(x, pair, inputs, outputs)
        low_rank = self._low_rank(x, pair, rows, outputs)
        if has_dropout:
            base = self.product(x, weight, float(rows * outputs))
        else:
            base = self.add(result, Tensor(0, result.width, needs=False))
        magnitude = self.weight(float(outputs), 4, is_trained=True)
        width = 4
        scaled_base = tape.new(base.numbers, width)
        tape.record(
            scaled_base, (base,), ((base, base.width), (magnitude, 4)), workspace=_product_workspace(base)
        )
        scaled_low = tape.new(low_rank.numbers, width)
        tape.record(
            scaled_low, (low_rank,), ((low_rank, low_rank.width), (magnitude, 4)),
            workspace=_product_workspace(low_rank),
        )  # fmt: skip
        again = self.scaled(scaled_low)
        tape.drop(scaled_low)
        dora = self.add(scaled_base, again)
        for tensor in (scaled_base, again, x, low_rank, base, weight, delta):
            tape.drop(tensor)
        total = self.add(result, dora)
        tape.drop(dora)
        return total

    def _weight_norm(
        self, x: Tensor, pair: tuple[Tensor, Tensor], inputs: int, outputs: int
    ) -> tuple[Tensor, Tensor]:
        """Weight and adapter multiplied out, in the type of the input; both live to the end of the layer."""
        tape = self.tape
        numbers = float(inputs * outputs)
        eye = tape.new(float(inputs * inputs), 4)
        eye_low = self.lowered(eye)
        downs, ups = self.ready(pair[0]), self.ready(pair[1])
        delta = tape.new(numbers, eye_low.width)
        for tensor in (eye, eye_low, downs, ups):
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
        return weight, raised


def _product_workspace(x: Tensor) -> float:
    """The gradient of a magnitude is summed from a float32 product; the other one is lowered after it."""
    return 4 * x.numbers + (4 * x.numbers if x.width == 2 else 0)
