"""The changes that lead from a plan to one that fits: what each saves, and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from studio.memory.calibration import Calibration
from studio.memory.plan import MemoryEstimate, TrainingPlan
from studio.memory.training import estimate_training
from studio.messages import Message
from studio.methods import METHODS
from studio.registry.spec import ModelDimensions


@dataclass(frozen=True)
class Rung:
    """One change on the way from the wish to what fits."""

    change: Message
    cost: Message
    """In time or quality."""
    plan: TrainingPlan
    """With this change and all before it."""
    device_bytes: int
    """Of that plan, in the middle of its range."""
    saves_bytes: int
    """Less than the least before; 0 where something else is the highest until the next change."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "change": str(self.change),
            "cost": str(self.cost),
            "device_bytes": self.device_bytes,
            "saves_bytes": self.saves_bytes,
        }


@lru_cache(maxsize=8192)
def estimate_of(plan: TrainingPlan, dimensions: ModelDimensions) -> MemoryEstimate:
    """`estimate_training`, remembered: a search asks for the same plans again and again."""
    return estimate_training(plan, dimensions)


def sized(plan: TrainingPlan, dimensions: ModelDimensions, known: Calibration | None) -> MemoryEstimate:
    """The estimate on a card, corrected by what was measured there."""
    estimate = estimate_of(plan, dimensions)
    return known.correct(estimate, plan, dimensions) if known else estimate


def ladder(
    wish: TrainingPlan, plan: TrainingPlan, dimensions: ModelDimensions, known: Calibration | None = None
) -> tuple[Rung, ...]:
    """The changes from `wish` to `plan` one by one, each with what it saves after those before it."""
    rungs = []
    size = sized(wish, dimensions, known).device_bytes
    for there, change, cost in _changes(wish, plan):
        smaller = sized(there, dimensions, known).device_bytes
        rungs.append(Rung(change, cost, there, smaller, max(0, size - smaller)))
        size = min(size, smaller)
    return tuple(rungs)


def _changes(here: TrainingPlan, plan: TrainingPlan) -> Iterator[tuple[TrainingPlan, Message, Message]]:
    """Plans that change one thing each, from what costs nothing to what costs quality."""
    if plan.precision != here.precision == "fp32":
        base_dtype = plan.base_dtype if plan.method == here.method else here.base_dtype
        change = Message("{before} → {after} arithmetic", before=here.precision, after=plan.precision)
        here = replace(here, precision=plan.precision, base_dtype=base_dtype)
        yield here, change, Message("Hardly any difference in the result, and faster.")
    if plan.batch_size != here.batch_size:
        steps = plan.gradient_accumulation_steps
        before = here.batch_size
        here = replace(here, batch_size=plan.batch_size, gradient_accumulation_steps=steps)
        yield here, _batch_change(before, plan), _batch_cost(plan)
    if plan.gradient_checkpointing != here.gradient_checkpointing:
        here = replace(here, gradient_checkpointing=True)
        cost = Message("The same result; about a third more time.")
        yield here, Message("Gradient checkpointing on"), cost
    if plan.eval_batch_size != here.eval_batch_size:
        change = Message(
            "Batch {before} → {after} in evaluation", before=here.eval_batch_size, after=plan.eval_batch_size
        )
        here = replace(here, eval_batch_size=plan.eval_batch_size)
        yield here, change, Message("Evaluation takes longer; training does not.")
    if plan.method != here.method:
        told = METHODS[plan.method].instead
        assert told is not None, f"{plan.method} takes the place of no method"
        change, cost = told
        here = replace(here, method=plan.method, base_dtype=plan.base_dtype)
        yield here, change, cost
    if plan.target_modules != here.target_modules:
        here = replace(here, target_modules=plan.target_modules)
        cost = Message("A little less can be learned.")
        yield here, Message("Adapters on query and value projections only"), cost
    if plan.quantization != here.quantization:
        here = replace(
            here,
            quantization=plan.quantization,
            use_reentrant=plan.use_reentrant,
            precision=plan.precision,  # pure_bf16 until here: beside packed weights nothing is
        )
        change, cost = _BITS[plan.quantization]
        yield here, change, cost


def _batch_change(before: int, plan: TrainingPlan) -> Message:
    return Message(
        "Batch {before} → {after}, accumulated {steps} times",
        before=before,
        after=plan.batch_size,
        steps=plan.gradient_accumulation_steps,
    )


def _batch_cost(plan: TrainingPlan) -> Message:
    if plan.batch_size >= 4:
        return Message("The same result; hardly slower.")
    return Message("The same result; slower, because small batches leave a GPU waiting.")


_BITS = {
    "8bit": (
        Message("Frozen weights in 8 bits"),
        Message("Hardly any loss of quality; each step takes longer."),
    ),
    "4bit": (
        Message("Frozen weights in 4 bits"),
        Message("A little quality; each step takes longer."),
    ),
}
