"""What was measured on a card corrects what is estimated for that very card, and for no other.

Of each receipt three residuals are taken: how far the allocated bytes were from the estimate's, which share
the allocator kept beside them, and what the CUDA context took. An estimate gets the median of slack and
context; its range shrinks towards what was measured, the more so the more measurements there are, and always
holds all of them. Tensors are counted, not fitted: only the range learns from them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from studio.memory.gpus import Gpu, driver_version
from studio.memory.overhead import STEP_PHASES, on_card, step_figures, tensor_error, usual_slack
from studio.memory.plan import MemoryEstimate, Part, TrainingPlan
from studio.memory.receipts import Receipt, read_receipts
from studio.memory.training import estimate_training
from studio.messages import Message
from studio.registry.spec import ModelDimensions
from studio.units import format_bytes


def calibrate(gpu: Gpu | None, folder: Path | None) -> "Calibration | None":
    """What is known of a card; of one in this machine also what the receipts in a folder say."""
    if gpu is None:
        return None
    return calibration_for(gpu, read_receipts(folder) if folder and gpu.index is not None else ())


@dataclass(frozen=True)
class Calibration:
    """A card's architecture, and the receipts that hold for it with its present driver."""

    architecture: str
    receipts: tuple[Receipt, ...] = ()

    def correct(
        self, estimate: MemoryEstimate, plan: TrainingPlan, dimensions: ModelDimensions
    ) -> MemoryEstimate:
        """The estimate as it is on the card; with its own slack and context, if the like was measured."""
        estimate = on_card(estimate, self.architecture)
        alike = [receipt for receipt in self.receipts if _kind(receipt.plan) == _kind(plan)]
        if plan.num_gpus > 1 or not alike:
            return estimate
        step = _training_alone(plan)
        same = [r for r in alike if (_training_alone(r.plan), r.dimensions) == (step, dimensions)]
        errors = [_error(receipt, self.architecture) for receipt in alike]
        return _holding(_corrected(estimate, plan, alike, errors, self.receipts), same)


def calibration_for(gpu: Gpu, receipts: Sequence[Receipt], driver: str | None = None) -> Calibration:
    """What is known of a card; receipts hold for one of this machine under its driver's major version.

    `driver` is the version now, if somebody knows it already.
    """
    if gpu.index is None or not receipts:
        return Calibration(gpu.architecture)
    now = driver_version() if driver is None else driver
    known = tuple(
        receipt
        for receipt in receipts
        if receipt.card == gpu.name
        and _major(receipt.driver) == _major(now)
        and not receipt.is_out_of_memory
        and receipt.measured.get("allocated_bytes")
        and receipt.measured.get("reserved_bytes")
    )
    return Calibration(gpu.architecture, known)


def _corrected(
    estimate: MemoryEstimate,
    plan: TrainingPlan,
    alike: Sequence[Receipt],
    errors: Sequence[float],
    every: Sequence[Receipt],
) -> MemoryEstimate:
    overhead = estimate.parts[Part.OVERHEAD]
    tensors = estimate.device_bytes - overhead
    workspace = estimate.allocated_bytes - tensors
    contexts = _contexts(every) or [estimate.device_bytes - estimate.reserved_bytes]
    slacks = [_slack(receipt) for receipt in alike]
    doubt = 1 / (1 + len(alike))
    error_low, error_high = tensor_error(plan)
    slack = statistics.median(slacks)
    context = round(statistics.median(contexts))
    slack_low, slack_high = usual_slack(plan)
    lowest = min(*errors, -error_low * doubt)
    highest = max(*errors, error_high * doubt)
    least = min(*slacks, slack - max(0.0, slack - slack_low) * doubt)
    most = max(*slacks, slack + max(0.0, slack_high - slack) * doubt)
    allocated = estimate.allocated_bytes
    reserved = round(allocated * (1 + slack))
    device = reserved + context
    text = _formula(reserved - allocated, workspace, context, len(alike))
    return replace(
        estimate,
        parts={**estimate.parts, Part.OVERHEAD: device - tensors},
        formulas={**estimate.formulas, Part.OVERHEAD: text},
        reserved_bytes=reserved,
        device_bytes=device,
        low_bytes=min(device, round(allocated * (1 + lowest) * (1 + least)) + min(contexts)),
        high_bytes=max(device, round(allocated * (1 + highest) * (1 + most)) + max(contexts)),
        measurements=len(alike),
    )


def _formula(slack: int, workspace: int, context: int, count: int) -> Message:
    return Message(
        "allocator {slack} + cuBLAS {workspace} + CUDA {context}, as measured {count} times on this card",
        slack=format_bytes(slack),
        workspace=format_bytes(workspace),
        context=format_bytes(context),
        count=count,
    )


def _holding(estimate: MemoryEstimate, same: Sequence[Receipt]) -> MemoryEstimate:
    """Of the very same plan the range holds what was measured, and the middle is the most of it."""
    if not same:
        return estimate
    # Where the driver hid it, the context is that of the estimate.
    hidden = estimate.device_bytes - estimate.reserved_bytes
    device, reserved, allocated = max(_measured(receipt, hidden) for receipt in same)
    estimate = replace(
        estimate,
        low_bytes=min(estimate.low_bytes, *(_measured(receipt, hidden)[0] for receipt in same)),
        high_bytes=max(estimate.high_bytes, device),
    )
    tensors = estimate.device_bytes - estimate.parts[Part.OVERHEAD]
    # Evaluation and resuming were not measured, and take more.
    is_higher = estimate.peak_phase not in STEP_PHASES and estimate.device_bytes > device
    if is_higher or device < tensors:
        return estimate
    workspace = estimate.allocated_bytes - tensors
    text = _formula(reserved - allocated, workspace, device - reserved, estimate.measurements)
    return replace(
        estimate,
        parts={**estimate.parts, Part.OVERHEAD: device - tensors},
        formulas={**estimate.formulas, Part.OVERHEAD: text},
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=device,
    )


def _kind(plan: TrainingPlan) -> tuple[bool, bool, bool]:
    """Plans whose allocators behave alike: eager attention, checkpointing, packed weights."""
    return plan.attention == "eager", plan.gradient_checkpointing, plan.quantization != "none"


def _training_alone(plan: TrainingPlan) -> TrainingPlan:
    """What is measured: without evaluation."""
    default = TrainingPlan()
    return replace(
        plan,
        eval_batch_size=0,
        generation_max_length=default.generation_max_length,
        generation_num_beams=default.generation_num_beams,
    )


def _error(receipt: Receipt, architecture: str) -> float:
    """Of today's formulas, which may be better than those of the day of the receipt."""
    counted = _counted(_training_alone(receipt.plan), receipt.dimensions, architecture)
    return (receipt.measured["allocated_bytes"] or 0) / counted - 1


@lru_cache(maxsize=256)
def _counted(plan: TrainingPlan, dimensions: ModelDimensions, architecture: str) -> int:
    """Remembered: a search corrects thousands of plans by the same receipts."""
    return step_figures(on_card(estimate_training(plan, dimensions), architecture))["allocated_bytes"]


def _slack(receipt: Receipt) -> float:
    return (receipt.measured["reserved_bytes"] or 0) / (receipt.measured["allocated_bytes"] or 1) - 1


def _contexts(receipts: Sequence[Receipt]) -> list[int]:
    return [size for receipt in receipts if (size := receipt.measured.get("context_bytes"))]


def _measured(receipt: Receipt, hidden: int) -> tuple[int, int, int]:
    """Bytes on the device, reserved and allocated; `hidden` is the context where the driver tells none."""
    measured = receipt.measured
    reserved = measured["reserved_bytes"] or 0
    return measured.get("device_bytes") or reserved + hidden, reserved, measured["allocated_bytes"] or 0


def _major(driver: str) -> str:
    return driver.partition(".")[0]
