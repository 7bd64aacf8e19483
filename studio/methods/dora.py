"""DoRA: LoRA for the direction of each weight, a magnitude of its own for its length (Liu et al. 2024,
arXiv 2402.09353).
"""

from typing import Any

from studio.methods.lora import Lora, low_rank, matrices
from studio.methods.method import Operators


class Dora(Lora):
    """In PEFT 0.21, which takes the norm of the adapted weight at each use."""

    key = "dora"
    label = "DoRA (adapter with magnitudes)"
    switches = ("use_dora",)
    smaller = ("lora",)
    instead = None
    has_magnitudes = True
    reads_base_weights = True

    def added_tensors(self, rank: int, inputs: int, outputs: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """LoRA's, and a magnitude for each output."""
        return (*super().added_tensors(rank, inputs, outputs), ("magnitude", (outputs,)))

    def play_beside(
        self, operators: Operators, x: Any, result: Any, rows: int, inputs: int, outputs: int
    ) -> Any:
        """Base and adapter are scaled by magnitude over norm; without dropout, the base's output serves."""
        tape, plan = operators.tape, operators.plan
        x = operators.dropout(x)
        pair = matrices(operators, inputs, outputs)
        weight, *held = _weight_norm(operators, x, pair, inputs, outputs)
        adapted = low_rank(operators, x, pair, rows, outputs)
        if plan.lora_dropout:
            base = operators.product(x, weight, float(rows * outputs))
        elif operators.has_bias:  # less the bias: a new tensor, float32 beside a float32 base
            base = operators.add(result, tape.new(0.0, operators.base))
        else:
            base = operators.cast(result, result.width)
        magnitude = operators.weight(float(outputs), 4, is_trained=True)
        scaled_base = _by_magnitude(operators, base, magnitude)
        scaled_low = _by_magnitude(operators, adapted, magnitude)
        again = operators.scaled(scaled_low)
        tape.drop(scaled_low)
        dora = operators.add(scaled_base, again)
        tape.drop(scaled_base, again, x, adapted, base, weight, *held)
        total = operators.add(result, dora)
        tape.drop(dora)
        return total


def _by_magnitude(operators: Operators, x: Any, magnitude: Any) -> Any:
    """Times the float32 magnitudes over the norm: kept, since the magnitudes are trained.

    Their gradient is summed up from a float32 product; that of `x` is lowered after another one.
    """
    out = operators.tape.new(x.numbers, 4)
    workspace = 4 * x.numbers * (2 if x.width == 2 else 1)
    return operators.tape.record(out, (x,), ((x, x.width), (magnitude, 4)), workspace=workspace)


def _weight_norm(
    operators: Operators, x: Any, pair: tuple[Any, Any], inputs: int, outputs: int
) -> tuple[Any, ...]:
    """Weight and adapter multiplied out, in the type of the input; both live to the end of the layer.

    So does the unit matrix that the adapter was multiplied with: its graph keeps it.
    """
    tape, plan = operators.tape, operators.plan
    numbers = float(inputs * outputs)
    eye = tape.new(float(inputs * inputs), 4)
    eye_low = operators.lowered(eye)
    downs, ups = operators.ready(pair[0]), operators.ready(pair[1])
    delta = tape.new(numbers, eye_low.width)
    tape.drop(eye, downs, ups)
    raised = operators.cast(delta, x.width)
    tape.drop(delta)
    if plan.quantization == "none" and operators.base == x.width:
        weight = operators.weight(numbers, operators.base, is_trained=False)
    else:
        if plan.quantization == "8bit":
            tape.touch(8 * numbers)
        weight = tape.new_cast(numbers, x.width, needs=False)
    tape.touch(2 * numbers * x.width)
    return weight, raised, eye_low
