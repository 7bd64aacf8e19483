"""LoRA: two matrices of a low rank beside each linear layer (Hu et al. 2021, arXiv 2106.09685)."""

from typing import Any

from studio.messages import Message
from studio.methods.method import AdapterSettings, Method, Operators


class Lora(Method):
    """In PEFT 0.21."""

    key = "lora"
    label = "LoRA (small adapter)"
    learning_rates = ((0, 2e-3), (384, 3e-4))
    """With 1e-3, with which PEFT's own guide trains large-v2, whisper-tiny learns as much and forgets far
    more (`tests/benchmarks/reports/recipe_tried.md`); models narrower than tiny, as the demo, take more."""
    instead: tuple[Message, Message] | None = (
        Message("LoRA instead"),
        Message("Less can be learned from much data; with little data, less is forgotten."),
    )
    can_go_on = True
    has_magnitudes = False
    """Whether it is DoRA, as PEFT has that: a switch of LoRA."""

    def peft_config(self, settings: AdapterSettings) -> Any:
        """A `LoraConfig`."""
        from peft import LoraConfig

        return LoraConfig(r=settings.rank, use_dora=self.has_magnitudes, **settings.shared)

    def goes_on_from(self, saved: dict[str, Any]) -> bool:
        """Of one rank; PEFT keeps DoRA as a kind of LoRA."""
        return saved.get("peft_type") == "LORA" and bool(saved.get("use_dora")) == self.has_magnitudes

    def added_tensors(self, rank: int, inputs: int, outputs: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Down to the rank, and up again."""
        return (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank)))

    def play_beside(
        self, operators: Operators, x: Any, result: Any, rows: int, inputs: int, outputs: int
    ) -> Any:
        """Dropout, down, up, scaled, added."""
        tape = operators.tape
        dropped = operators.dropout(x)
        out = low_rank(operators, dropped, matrices(operators, inputs, outputs), rows, outputs)
        tape.drop(dropped)
        scaled = operators.scaled(out)
        tape.drop(out)
        total = operators.add(result, scaled)
        tape.drop(scaled)
        return total


def matrices(operators: Operators, inputs: int, outputs: int) -> tuple[Any, Any]:
    """Both matrices of an adapter, in float32 whatever the base is."""
    rank = operators.plan.lora_r
    return (
        operators.weight(float(rank * inputs), 4, is_trained=True),
        operators.weight(float(rank * outputs), 4, is_trained=True),
    )


def low_rank(operators: Operators, x: Any, pair: tuple[Any, Any], rows: int, outputs: int) -> Any:
    """`x` through both matrices."""
    middle = operators.product(x, pair[0], float(rows * operators.plan.lora_r))
    out = operators.product(middle, pair[1], float(rows * outputs))
    operators.tape.drop(middle)
    return out
