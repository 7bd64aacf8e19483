"""Linear layers on a tape, with what the method of training keeps and makes beside them."""

from studio.memory.operators import Operators
from studio.memory.plan import TrainingPlan
from studio.memory.tape import Tape, Tensor
from studio.methods import METHODS


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
        total: Tensor = METHODS[self.plan.method].play_beside(self, x, result, rows, inputs, outputs)
        self.tape.drop(x)
        if is_plain and total.width != result.width:
            lowered = self.cast(total, result.width)
            self.tape.drop(total)
            total = lowered
        self.tape.drop(result)
        return total
