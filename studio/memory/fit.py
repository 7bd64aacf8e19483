"""Which settings make a training run fit, what each change saves, and what it costs.

The search goes from what is best for the result to what is worst: first the plan that was wished for, cut
into smaller batches and computed with checkpointing as far as needed, then the same with fewer adapters,
then with fewer bits. It stops at the first kind of plan that fits, and takes the quickest of that kind.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from studio.errors import ConfigError
from studio.memory.calibration import Calibration
from studio.memory.gpus import GPUS, LARGEST_MEMORY_GIB, Gpu, Verdict, usable_bytes, verdict
from studio.memory.ladder import Rung, estimate_of, ladder, sized
from studio.memory.overhead import on_card
from studio.memory.plan import MemoryEstimate, TrainingPlan
from studio.memory.savings import Saving, savings
from studio.methods import METHODS
from studio.registry.spec import ModelDimensions
from studio.units import GIB, format_bytes

LARGEST_BATCH = 1024
"""As many clips a step as a run may have."""
FREEDOMS = ("precision", "method", "target_modules", "quantization", "gradient_checkpointing", "batch_size")
"""What may be changed to make a plan fit, unless it is to be kept."""
FEW_MODULES = ("q_proj", "v_proj")
_BATCH_WEIGHT = {1: 1.4, 2: 1.1}
_CHECKPOINTING_WEIGHT = 4 / 3
"""Orders plans by time: a backward pass costs two forward passes, and checkpointing repeats the forward one;
batches below four leave a GPU waiting. An order of preference, and no promise of a time."""


@dataclass(frozen=True)
class FitResult:
    """The best plan for a budget, and how it came about."""

    dimensions: ModelDimensions
    budget_bytes: int
    fits: bool
    """Whether even the high end of the range is within the budget."""
    plan: TrainingPlan
    """The best that fits, or the smallest there is."""
    estimate: MemoryEstimate
    wished: MemoryEstimate
    """What the plan that was wished for would take."""
    rungs: tuple[Rung, ...]
    """Empty if the wish fits as it is."""
    known: Calibration | None = None
    """What is known of the card, and has corrected all of this."""

    def elsewhere(self, gpu: Gpu) -> MemoryEstimate:
        """What the plan takes on another card."""
        return elsewhere(self.plan, self.dimensions, gpu)

    @cached_property
    def largest_batch_size(self) -> int:
        """Of that plan with all else as it is; 0 if none fits."""
        return largest_batch_size(self.plan, self.dimensions, self.budget_bytes, self.known)

    @cached_property
    def savings(self) -> tuple[Saving, ...]:
        """What short audio and the loss in chunks save, or would save."""
        return savings(self.plan, self.dimensions, self.known)

    def to_json(self) -> dict[str, Any]:
        """For `--json`: the verdict, the plan's estimate in bytes, and the ladder."""
        return {
            "schema_version": 1,
            "fits": self.fits,
            "budget_bytes": self.budget_bytes,
            "wished_device_bytes": self.wished.device_bytes,
            "largest_batch_size": self.largest_batch_size,
            "rungs": [rung.to_json() for rung in self.rungs],
            "savings": [row.to_json() for row in self.savings],
            "estimate": {**self.estimate.to_json(), "verdict": verdict(self.estimate, self.budget_bytes)},
        }


def fit(
    dimensions: ModelDimensions,
    budget_bytes: int,
    wish: TrainingPlan | None = None,
    keep: Collection[str] = (),
    known: Calibration | None = None,
) -> FitResult:
    """The best plan whose whole range is within `budget_bytes`.

    `wish` is what would be run if memory did not matter; its batch × accumulation is what every plan learns
    from in one step of the optimizer. `keep` names those of `FREEDOMS` that stay as wished; `known` is what
    was measured on the card.

    Raises:
        ConfigError: for a budget that is none, or something to keep that is none of `FREEDOMS`.
    """
    if not 0 <= budget_bytes <= LARGEST_MEMORY_GIB * GIB:
        raise ConfigError("{size} cannot be the free memory of a GPU.", size=format_bytes(budget_bytes))
    for name in keep:
        if name not in FREEDOMS:
            raise ConfigError(
                "{name} cannot be kept: choose from {known}.", name=name, known=", ".join(FREEDOMS)
            )
    wish = wish or TrainingPlan(base_dtype="bf16")
    kinds = tuple(_kinds(wish, keep))
    for kind in kinds:
        found = _quickest(kind, dimensions, budget_bytes, keep, known)
        if found is not None:
            return result_of(wish, found, dimensions, budget_bytes, known)

    def high_bytes(plan: TrainingPlan) -> int:
        """The most that the plan takes."""
        return sized(plan, dimensions, known).high_bytes

    least = min(kinds, key=lambda kind: high_bytes(_floor(kind)))
    few = replace(least, eval_batch_size=min(1, least.eval_batch_size))
    smallest = min(reversed(_ways(few, keep)), key=high_bytes)
    return result_of(wish, smallest, dimensions, budget_bytes, known)


def for_card(wish: TrainingPlan, gpu: Gpu | None) -> TrainingPlan:
    """The wish as this card can compute it: fp16 for bf16 before Ampere, unless it trains weights in bf16."""
    is_held = not wish.is_adapter and wish.base_dtype == "bf16"
    if gpu is None or gpu.has_bf16 or wish.precision != "bf16" or is_held:
        return wish
    return replace(
        wish, precision="fp16", base_dtype="fp16" if wish.base_dtype == "bf16" else wish.base_dtype
    )


def largest_batch_size(
    plan: TrainingPlan, dimensions: ModelDimensions, budget_bytes: int, known: Calibration | None = None
) -> int:
    """The most clips a step for which the whole range is within the budget; 0 if not even one."""
    return largest_within(lambda size: sized(replace(plan, batch_size=size), dimensions, known), budget_bytes)


def largest_within(estimate: Callable[[int], MemoryEstimate], budget_bytes: int) -> int:
    """The most clips for which the whole range of their estimate is within the budget; 0 if not even one."""
    low, high = 0, LARGEST_BATCH + 1
    while high - low > 1:
        middle = (low + high) // 2
        is_within = estimate(middle).high_bytes <= budget_bytes
        low, high = (middle, high) if is_within else (low, middle)
    return low


def elsewhere(plan: TrainingPlan, dimensions: ModelDimensions, gpu: Gpu) -> MemoryEstimate:
    """What a run takes on a card where nothing was measured, in the types that the card can compute in."""
    return on_card(estimate_of(for_card(plan, gpu), dimensions), gpu.architecture)


def cards_for(estimate_on: Callable[[Gpu], MemoryEstimate]) -> tuple[tuple[Gpu, Verdict], ...]:
    """Every card of the table with what becomes on it of what takes `estimate_on` it, the smallest first."""
    ordered = sorted(GPUS, key=lambda gpu: (gpu.memory_bytes, gpu.name))
    return tuple((gpu, verdict(estimate_on(gpu), usable_bytes(gpu))) for gpu in ordered)


def _kinds(wish: TrainingPlan, keep: Collection[str]) -> Iterator[TrainingPlan]:
    """The wish, then what costs ever more of the result's quality."""
    plan = wish
    yield plan
    if "precision" not in keep and plan.precision == "fp32":
        plan = replace(plan, precision="bf16", base_dtype="bf16" if plan.is_adapter else "fp32")
        yield plan
    if "method" not in keep:
        for method in METHODS[plan.method].smaller:
            plan = replace(plan, method=method)
            if plan.is_adapter:
                plan = replace(plan, base_dtype=plan.precision.removeprefix("pure_"))
            yield plan
    if not plan.is_adapter:
        return
    if "target_modules" not in keep and set(plan.target_modules) > set(FEW_MODULES):
        plan = replace(plan, target_modules=FEW_MODULES)
        yield plan
    # Beside packed weights nothing is bf16 throughout, and they cannot be divided among GPUs.
    if "precision" not in keep:
        plan = replace(plan, precision=plan.precision.removeprefix("pure_"))
    is_divided = plan.num_gpus > 1 and plan.sharding in ("zero3", "fsdp")
    if "quantization" not in keep and plan.precision != "pure_bf16" and not is_divided:
        for bits in _FEWER_BITS[plan.quantization]:
            yield replace(plan, quantization=bits, use_reentrant=bits == "8bit")


_FEWER_BITS: dict[str, tuple[str, ...]] = {"none": ("8bit", "4bit"), "8bit": ("4bit",), "4bit": ()}


def _splits(plan: TrainingPlan, keep: Collection[str]) -> list[tuple[int, int]]:
    """Batch and accumulation with the same product, the largest batch first."""
    if "batch_size" in keep:
        return [(plan.batch_size, plan.gradient_accumulation_steps)]
    together = plan.batch_size * plan.gradient_accumulation_steps
    return [(size, together // size) for size in range(plan.batch_size, 0, -1) if together % size == 0]


def _ways(plan: TrainingPlan, keep: Collection[str]) -> list[TrainingPlan]:
    """The same plan in other batches and with checkpointing, the quickest first."""
    ways = [
        replace(plan, batch_size=size, gradient_accumulation_steps=steps, gradient_checkpointing=is_on)
        for is_on in ((plan.gradient_checkpointing,) if "gradient_checkpointing" in keep else (False, True))
        if is_on or not plan.gradient_checkpointing
        for size, steps in _splits(plan, keep)
    ]
    return sorted(ways, key=_weight)


def _weight(plan: TrainingPlan) -> float:
    time = _BATCH_WEIGHT.get(plan.batch_size, 1.05 if plan.batch_size == 3 else 1.0)
    return time * (_CHECKPOINTING_WEIGHT if plan.gradient_checkpointing else 1.0)


def _floor(plan: TrainingPlan) -> TrainingPlan:
    """What takes no more than any way of a kind: one clip, and no gradients that wait for another batch."""
    return replace(
        plan,
        batch_size=1,
        gradient_accumulation_steps=1,
        gradient_checkpointing=True,
        eval_batch_size=min(1, plan.eval_batch_size),
    )


def _quickest(
    plan: TrainingPlan,
    dimensions: ModelDimensions,
    budget_bytes: int,
    keep: Collection[str],
    known: Calibration | None,
) -> TrainingPlan | None:
    """Of a kind, the quickest plan that fits; None if none does."""
    if sized(_floor(plan), dimensions, known).high_bytes > budget_bytes:
        return None
    for way in _ways(plan, keep):
        if sized(replace(way, eval_batch_size=0), dimensions, known).high_bytes > budget_bytes:
            continue
        size = way.eval_batch_size
        while True:
            tried = replace(way, eval_batch_size=size)
            if sized(tried, dimensions, known).high_bytes <= budget_bytes:
                return tried
            if size <= 1:
                break
            size //= 2
    return None


def result_of(
    wish: TrainingPlan,
    plan: TrainingPlan,
    dimensions: ModelDimensions,
    budget_bytes: int,
    known: Calibration | None = None,
) -> FitResult:
    """A plan that was found for a wish."""
    estimate = sized(plan, dimensions, known)
    return FitResult(
        dimensions=dimensions,
        budget_bytes=budget_bytes,
        fits=estimate.high_bytes <= budget_bytes,
        plan=plan,
        estimate=estimate,
        wished=sized(wish, dimensions, known),
        rungs=ladder(wish, plan, dimensions, known),
        known=known,
    )
