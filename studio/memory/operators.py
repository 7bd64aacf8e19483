"""What each operation of a Whisper layer keeps and makes, on a tape: sizes only.

They follow transformers 5.23 (`modeling_whisper`), PEFT 0.21 and bitsandbytes 0.50 operation by operation,
under CUDA's autocast or without it. An operation does not let go of its inputs: whoever calls it does.
"""

from dataclasses import dataclass

from studio.memory.plan import TrainingPlan
from studio.memory.tape import Tape, Tensor
from studio.memory.weights import BLOCK_4BIT, DTYPE_BYTES


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
        self.arithmetic = DTYPE_BYTES[plan.arithmetic_dtype]
        self.base = DTYPE_BYTES[plan.weights_dtype]
        self.has_bias = True
        self.is_trained = not plan.is_adapter
        self.is_taped = True
        """Whether anything is kept for a backward pass."""
        self._has_gradients = has_gradients

    def weight(self, numbers: float, width: int, *, is_trained: bool) -> Tensor:
        """A weight; its own bytes are counted elsewhere."""
        is_trained = is_trained and self.is_taped
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
            weight.owners += 1
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
        self.tape.drop(x, ready)
        return out

    def scaled(self, x: Tensor, width: int = 0) -> Tensor:
        """Times a number, or copied; or, with a width, divided by a float32 tensor, which raises the type."""
        out = self.tape.new(x.numbers, width or x.width)
        return self.tape.record(out, (), ((x, x.width),))

    def norm(self, x: Tensor, rows: int) -> Tensor:
        """Layer norm, in float32 under autocast; keeps its input, and mean and deviation of each row."""
        x = self.cast(x, 4 if self.plan.is_autocast else x.width)
        out = self.tape.new(x.numbers, x.width)
        statistics = self.tape.new(2 * rows, 4)
        gain = self.weight(0, 4, is_trained=self.is_trained)
        self.tape.record(out, (x, statistics), ((x, x.width), (gain, 4)))
        self.tape.drop(x, statistics)
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
        tape.drop(q, k, v, statistics)
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
        tape.drop(q, k)
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
        tape.drop(raised, scores)
        lowered = self.lowered(softmax)
        out = tape.new(q.numbers, lowered.width)
        tape.record(out, (lowered, v), ((lowered, lowered.width), (v, v.width)))
        tape.drop(lowered, v)
        copy = tape.record(tape.new(out.numbers, out.width), (), ((out, 0),))
        tape.drop(out)
        # The layer's program holds the weights of attention to its end; autograd does so anyway.
        tape.drop(softmax)
        return copy

    def base_linear(self, x: Tensor, rows: int, inputs: int, outputs: int) -> Tensor:
        """A linear layer of the base model, packed or not."""
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
        tape.touch(unpacked + 8 * numbers / BLOCK_4BIT)
        result = tape.new(float(rows * outputs), self.arithmetic)
        tape.touch(unpacked)
        tape.record(result, (), ((lowered, lowered.width),), workspace=unpacked)
        tape.drop(lowered)
        raised = self.cast(result, x.width)
        tape.drop(result)
        return raised
