"""From live tensors to what the device must hold: allocator, workspace, context, and a range."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from studio.memory.plan import MemoryEstimate, Part, Phase, TrainingPlan
from studio.messages import Message
from studio.units import GIB, MIB, format_bytes

_WORKSPACE_BYTES = round(8.125 * MIB)
"""cuBLAS's in one thread; inside what PyTorch counts as allocated (`parseChosenWorkspaceSize` in its
CublasHandlePool.cpp). In training there are two threads: one goes forward, one backward."""
_WORKSPACES = {"Hopper": 32 * MIB, "Blackwell": 32 * MIB, "CDNA 3": 128 * MIB}
"""The same on cards of an architecture that is given more."""
_WORKSPACE_HIGH_BYTES = 64 * MIB
_CONTEXT_BYTES = GIB // 2
"""CUDA context with its kernels, by card and driver. On an H100 with driver 580 and CUDA 13 it is 0.74
GiB, with the kernels of bitsandbytes 0.80 (`tests/benchmarks/reports/gpu-h100-80gb-hbm3.md`)."""
_CONTEXTS = {"Hopper": round(0.75 * GIB)}
"""The same on cards of an architecture of which it was measured."""
_CONTEXT_LOW_BYTES = round(0.3 * GIB)
_CONTEXT_HIGH_BYTES = round(0.85 * GIB)

# Slack of PyTorch's caching allocator on a device that is just large enough (rounding, segments of 2 and
# 20 MiB, fragments), by simulation on traces: 2 to 13 %. The scores of eager attention are blocks so large
# that rests between them cannot be used: 4 to 32 %.
_SLACK = 0.03
_SLACK_CHECKPOINTING = 0.08
_SLACK_EAGER = 0.25
_SLACK_LOW = 0.01
_SLACK_HIGH = 0.13
_SLACK_HIGH_EAGER = 0.35
# Of everything that is not known without the card; kernels of bitsandbytes were only emulated.
_ERROR_LOW = 0.05
_ERROR_HIGH = 0.05
_ERROR_EMULATED = 0.10

STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP)


def usual_slack(plan: TrainingPlan) -> tuple[float, float]:
    """Least and most share of slack that is reckoned with where nothing was measured."""
    return _SLACK_LOW, _SLACK_HIGH_EAGER if plan.attention == "eager" else _SLACK_HIGH


def tensor_error(plan: TrainingPlan) -> tuple[float, float]:
    """By which shares the tensors may be fewer or more than counted, where nothing was measured."""
    return _ERROR_LOW, _ERROR_EMULATED if plan.quantization != "none" else _ERROR_HIGH


def assemble(
    corners: Sequence[tuple[Phase, Mapping[Part, float]]],
    formulas: Mapping[Part, Message],
    *,
    trainable_parameters: int,
    all_parameters: int,
    has_checkpointing: bool = False,
    has_eager_attention: bool = False,
    is_emulated: bool = False,
    threads: int = 1,
) -> MemoryEstimate:
    """The estimate of the highest of some moments, each given as its parts in bytes.

    `threads`: how many call cuBLAS; each has a workspace.
    """
    whole = [(phase, {part: round(size) for part, size in parts.items()}) for phase, parts in corners]
    peak_phase, parts = max(whole, key=lambda corner: sum(corner[1].values()))
    phases: dict[Phase, int] = {}
    for phase, sizes in whole:
        phases[phase] = max(phases.get(phase, 0), sum(sizes.values()))
    tensors = sum(parts.values())
    share = _SLACK_EAGER if has_eager_attention else _SLACK_CHECKPOINTING if has_checkpointing else _SLACK
    slack = round(tensors * share)
    slack_high = _SLACK_HIGH_EAGER if has_eager_attention else _SLACK_HIGH
    workspace = threads * _WORKSPACE_BYTES
    allocated = tensors + workspace
    overhead = workspace + slack + _CONTEXT_BYTES
    error_high = _ERROR_EMULATED if is_emulated else _ERROR_HIGH
    low = tensors * (1 - _ERROR_LOW) * (1 + _SLACK_LOW) + workspace + _CONTEXT_LOW_BYTES
    high = tensors * (1 + error_high) * (1 + slack_high) + _WORKSPACE_HIGH_BYTES + _CONTEXT_HIGH_BYTES
    return MemoryEstimate(
        parts={part: parts.get(part, 0) for part in Part} | {Part.OVERHEAD: overhead},
        formulas={**formulas, Part.OVERHEAD: _formula(tensors, slack, workspace, _CONTEXT_BYTES)},
        phases=phases,
        peak_phase=peak_phase,
        allocated_bytes=allocated,
        reserved_bytes=allocated + slack,
        device_bytes=tensors + overhead,
        low_bytes=round(low),
        high_bytes=round(high),
        trainable_parameters=trainable_parameters,
        all_parameters=all_parameters,
    )


def _formula(tensors: int, slack: int, workspace: int, context: int) -> Message:
    return Message(
        "allocator {share} of {tensors} = {slack} + cuBLAS {workspace} + CUDA {context}",
        share=f"{slack / tensors:.0%}",
        tensors=format_bytes(tensors),
        slack=format_bytes(slack),
        workspace=format_bytes(workspace),
        context=format_bytes(context),
    )


def on_card(estimate: MemoryEstimate, architecture: str) -> MemoryEstimate:
    """An estimate for any card (of `assemble`) with what cuBLAS and the CUDA context take on cards of an
    architecture; of one that is unknown or has nothing of its own, as it was.
    """
    tensors = estimate.device_bytes - estimate.parts[Part.OVERHEAD]
    workspace = estimate.allocated_bytes - tensors
    if not workspace:  # of CTranslate2, whose constants were fitted as a whole
        return estimate
    more = workspace * _WORKSPACES.get(architecture, _WORKSPACE_BYTES) // _WORKSPACE_BYTES - workspace
    context = estimate.device_bytes - estimate.reserved_bytes
    larger = _CONTEXTS.get(architecture, context) - context
    slack = estimate.reserved_bytes - estimate.allocated_bytes
    formula = _formula(tensors, slack, workspace + more, context + larger)
    return replace(
        estimate,
        parts={**estimate.parts, Part.OVERHEAD: estimate.parts[Part.OVERHEAD] + more + larger},
        formulas={**estimate.formulas, Part.OVERHEAD: formula},
        allocated_bytes=estimate.allocated_bytes + more,
        reserved_bytes=estimate.reserved_bytes + more,
        device_bytes=estimate.device_bytes + more + larger,
        low_bytes=estimate.low_bytes + more,
        high_bytes=estimate.high_bytes + max(0, workspace + more - _WORKSPACE_HIGH_BYTES),
    )


def step_figures(estimate: MemoryEstimate) -> dict[str, int]:
    """The sums of an estimate as they are for its training steps alone, without evaluation and resuming."""
    tensors = estimate.device_bytes - estimate.parts[Part.OVERHEAD]
    step = max(estimate.phases[phase] for phase in STEP_PHASES)
    share = step / tensors
    workspace = estimate.allocated_bytes - tensors
    slack = round((estimate.reserved_bytes - estimate.allocated_bytes) * share)
    fixed_low = workspace + _CONTEXT_LOW_BYTES
    fixed_high = max(workspace, _WORKSPACE_HIGH_BYTES) + _CONTEXT_HIGH_BYTES
    return {
        "tensor_bytes": step,
        "allocated_bytes": step + workspace,
        "reserved_bytes": step + workspace + slack,
        "device_bytes": step + workspace + slack + estimate.device_bytes - estimate.reserved_bytes,
        "low_bytes": round((estimate.low_bytes - fixed_low) * share) + fixed_low,
        "high_bytes": round((estimate.high_bytes - fixed_high) * share) + fixed_high,
    }
