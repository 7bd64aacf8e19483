"""What a method of training is: everything that form, memory model, trace and training ask of one."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from studio.messages import Message

RatesByWidth = tuple[tuple[int, float], ...]
"""Least `d_model` and the learning rate from there on, in rising order."""


@dataclass(frozen=True)
class AdapterSettings:
    """What an adapter is built with."""

    rank: int
    """As it is built; see `Method.initial_rank`."""
    final_rank: int
    """Where ranks move: their mean at the end."""
    alpha: int
    dropout: float
    target_modules: tuple[str, ...]
    total_steps: int
    """Optimizer steps of the run."""

    @property
    def shared(self) -> dict[str, Any]:
        """What every configuration of PEFT takes. No task type: that of PEFT's sequence-to-sequence models
        hands `input_ids` to the model, which Whisper lacks.
        """
        return {
            "lora_alpha": self.alpha,
            "lora_dropout": self.dropout,
            "target_modules": list(self.target_modules),
            "bias": "none",
        }


class Operators(Protocol):
    """The operations of a layer as the memory model plays them (`studio.memory.operators`): each makes
    tensors of so many numbers on a tape, which sums up what lives at once.
    """

    plan: Any
    """The `TrainingPlan`."""
    tape: Any
    base: int
    """Bytes of a number of the frozen weights."""
    has_bias: bool
    """Whether the layer at work has one."""

    def weight(self, numbers: float, width: int, *, is_trained: bool) -> Any:
        """A weight of `width` bytes a number."""

    def product(self, x: Any, weight: Any, numbers: float) -> Any:
        """A matrix product."""

    def scaled(self, x: Any, width: int = 0) -> Any:
        """Times a number."""

    def add(self, a: Any, b: Any) -> Any:
        """A sum in a tensor of its own."""

    def cast(self, x: Any, width: int) -> Any:
        """The same numbers in another type."""

    def lowered(self, x: Any) -> Any:
        """In the type of the arithmetic, as autocast lowers it."""

    def ready(self, weight: Any) -> Any:
        """A weight as a product takes it."""

    def dropout(self, x: Any) -> Any:
        """With the plan's dropout; `x` itself without any."""


class Method:
    """A way to train. An adapter says how it is configured, what it adds and what its layer keeps; what
    trains the model's own weights says which.
    """

    key: str
    """The value of the option `method`."""
    label: str
    """Its name on the page, in English; a key of the translations."""
    is_adapter = True
    """Whether small weights are trained beside frozen ones."""
    trains_encoder = True
    switches: tuple[str, ...] = ()
    """Boolean flags of other scripts that mean this method."""
    learning_rates: RatesByWidth
    smaller: tuple[str, ...] = ()
    """Methods that take less memory, the one nearest in quality first."""
    instead: tuple[Message, Message] | None = None
    """What is told when a run moves to this method to save memory: the change, and what it costs."""
    can_go_on = False
    """Whether such an adapter can be trained on in another run."""
    reads_base_weights = False
    """Whether it calculates with the base's weights themselves, which are then to be whole and not zero, also
    where only memory is measured."""
    fixed_numbers = 0
    """Numbers beside each adapted layer that are not trained."""
    state_bytes = 0
    """Bytes kept from step to step for each trained number, beside the optimizer's."""

    def initial_rank(self, lora_r: int) -> int:
        """The rank that an adapter with the option `lora_r` is built with."""
        return lora_r

    def mark_trained(self, model: Any) -> None:
        """Freezes, in a `WhisperForConditionalGeneration`, the model's own weights that are not trained.

        Whisper's sinusoids are no weights, but transformers 5 loads them as if they were.
        """
        model.get_encoder().embed_positions.requires_grad_(False)

    def peft_config(self, settings: AdapterSettings) -> Any:
        """PEFT's configuration of the adapter; asked of adapters only."""
        raise NotImplementedError(f"{self.key} is no adapter")

    def keep_fixed(self, model: Any) -> None:
        """Freezes the `fixed_numbers` of an adapter that PEFT has made."""

    def goes_on_from(self, saved: dict[str, Any]) -> bool:
        """Whether a PEFT configuration (`adapter_config.json`) is of this method."""
        return False

    def added_tensors(self, rank: int, inputs: int, outputs: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of what is trained beside a linear layer."""
        return ()

    def play_beside(
        self, operators: Operators, x: Any, result: Any, rows: int, inputs: int, outputs: int
    ) -> Any:
        """Plays the adapter of a linear layer on the memory model's tape: `x` has `rows` × `inputs` numbers,
        `result`, the base's output, `rows` × `outputs`; gives back their sum.
        """
        raise NotImplementedError(f"{self.key} is no adapter")

    def traced_states(self, model: Any) -> Iterable[Any]:
        """Tensors of `state_bytes`, made for a trace of the memory of one step."""
        return ()

    def end_traced_step(self, model: Any) -> None:
        """What the step of a trace does while the gradients are there."""

    def after_optimizer_step(self, model: Any, step: int) -> None:
        """Called in training after each optimizer step, while the gradients are there; `step` from 1."""

    def save_beside(self, model: Any, folder: Path) -> None:
        """Adds to a checkpoint what PEFT's own lacks."""

    def load_instead(self, model: Any, folder: Path) -> bool:
        """Puts back what `save_beside` saved; False: the trainer's own way does."""
        return False
