"""One training step under the tracker: forward, backward, optimizer, as transformers' trainer runs them."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from studio.memory.plan import Part, Phase, TrainingPlan
from studio.memory.trace.allocator import replay
from studio.memory.trace.cuda import WORKSPACES, AutocastRegion, cuda_kernels, rounded
from studio.memory.trace.evaluation import evaluate
from studio.memory.trace.ledger import PARTS, Ledger
from studio.memory.trace.model import (
    arithmetic_dtype,
    build_model,
    enable_checkpointing,
    place,
    whisper_of,
)
from studio.memory.trace.optimizer import TracedOptimizer
from studio.memory.trace.result import Trace
from studio.memory.trace.tracker import StorageTracker, Workspace
from studio.memory.training import worst_batch
from studio.registry.spec import ModelDimensions
from studio.whisper.audio_context import allow_short_audio
from studio.whisper.loss import use_chunked_loss

_FRAMES_PER_POSITION = 2
_HALF = (torch.float16, torch.bfloat16)
_MICRO_BATCHES = 2
"""The second of an accumulated step meets the gradients of the first; further ones are like it."""


@dataclass(frozen=True)
class Device:
    """What a trace imitates."""

    round_bytes: Callable[[int], int]
    """Bytes that its allocator takes for a request."""
    workspaces: Mapping[Any, Workspace]
    """Bytes that operators allocate within themselves."""
    kernels: Callable[[], AbstractContextManager[None]]
    """Within it, functions with kernels of their own are those of the device."""


CUDA = Device(rounded, WORKSPACES, cuda_kernels)


class TrainingStep:
    """A model in the middle of its training, ready for one step; on meta tensors, or on real ones."""

    def __init__(self, plan: TrainingPlan, dimensions: ModelDimensions) -> None:
        self.plan = plan
        self.dimensions = dimensions
        self.model = build_model(plan, dimensions)
        whisper = whisper_of(self.model)
        allow_short_audio(whisper)
        if plan.loss_chunk_size:
            use_chunked_loss(whisper, plan.loss_chunk_size, plan.label_smoothing_factor)
        self.autocast = AutocastRegion(arithmetic_dtype(plan) if plan.is_autocast else None)

    def prepare(self) -> None:
        """Gives model and optimizer their storages, on the device that is the default."""
        place(self.model, self.plan)
        self.model.train()
        if self.plan.gradient_checkpointing:
            enable_checkpointing(self.model, self.plan, self.autocast)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = TracedOptimizer(self.plan, self.model, self.trained)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and labels of one micro-batch: (clips, mel bins, frames) and (clips, tokens)."""
        d = self.dimensions
        frames = _FRAMES_PER_POSITION * self.plan.positions(d)
        is_pure = self.plan.precision == "pure_bf16"
        device = self.trained[0].device
        dtype = torch.bfloat16 if is_pure else torch.float32
        features = torch.zeros((self.plan.batch_size, d.num_mel_bins, frames), dtype=dtype, device=device)
        shape = (self.plan.batch_size, self.plan.label_length)
        return features, torch.zeros(shape, dtype=torch.long, device=device)

    def loss(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The forward pass; under autocast, accelerate then copies its results to float32."""
        smoothing = self.plan.label_smoothing_factor
        # With smoothed labels the loss is the trainer's, and the model is given the decoder's input.
        is_chunked = bool(self.plan.loss_chunk_size)
        smoothing = 0.0 if is_chunked else smoothing
        words = {"decoder_input_ids": labels.clone()} if smoothing else {"labels": labels}
        with self.autocast():
            outputs = self.model(input_features=features, **words)
        if self.plan.is_autocast:
            for name in list(outputs.keys()):
                if isinstance(outputs[name], torch.Tensor) and outputs[name].dtype in _HALF:
                    outputs[name] = outputs[name].float()
        loss: torch.Tensor = outputs["logits" if smoothing else "loss"]
        if smoothing:
            logits = loss.view(-1, loss.shape[-1]).float()
            return functional.cross_entropy(logits, labels.view(-1), label_smoothing=smoothing)
        return loss

    def run(self, enter: Callable[[Phase, Part], None]) -> None:
        """One step; `enter` hears of each phase, and what most new storages of it are for.

        All micro-batches of an accumulated step lie on the device from its beginning.
        """
        enter(Phase.FORWARD, Part.ACTIVATIONS)
        batches = [self.batch() for _ in range(self.plan.gradient_accumulation_steps)]
        for features, labels in batches[:_MICRO_BATCHES]:
            enter(Phase.FORWARD, Part.ACTIVATIONS)
            loss = self.loss(features, labels)
            enter(Phase.BACKWARD, Part.TEMPORARIES)
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
        enter(Phase.OPTIMIZER_STEP, Part.TEMPORARIES)
        self.optimizer.step()
        self.optimizer.zero_grad()


def trace_step(plan: TrainingPlan, dimensions: ModelDimensions, device: Device = CUDA) -> Trace:
    """Traces one step in the middle of a training: optimizer states are there already."""
    plan = worst_batch(plan, dimensions)
    ledger = Ledger()
    with _packed_weights(plan), device.kernels(), _one_sequence_a_row(), _no_garbage_collection():
        step = TrainingStep(plan, dimensions)
        with torch.device("meta"):
            step.prepare()
        tracker = StorageTracker(ledger, device.round_bytes, device.workspaces, dimensions.vocab_size)
        _book_what_is_there(tracker, step)
        with tracker:
            enter = _phases(tracker)
            step.run(enter)
            if plan.eval_batch_size:
                enter(Phase.EVALUATION, Part.ACTIVATIONS)
                evaluate(step.model, plan, dimensions, step.autocast)
            tracker.settle()
    peak = ledger.peak
    needed = replay(ledger.events, is_full=True).peak_reserved_bytes
    parameters = list(step.model.parameters())
    return Trace(
        peak_bytes=peak.total,
        peak_phase=peak.phase,
        parts=dict(zip(PARTS, peak.sizes, strict=True)),
        phases=ledger.phase_peaks(),
        timeline=ledger.timeline(),
        reserved_bytes=replay(ledger.events).peak_reserved_bytes,
        needed_bytes=needed,
        slack_bytes=needed - peak.total,
        trainable_parameters=sum(p.numel() for p in step.trained),
        all_parameters=sum(p.numel() for p in parameters),
        operations=tracker.operations,
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Cycles would be broken up at a moment that depends on what the process did before."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _one_sequence_a_row() -> Iterator[None]:
    """transformers looks into the positions for packed sequences, finds none, and needs no mask.

    Meta tensors have no values to look into.
    """
    from transformers import masking_utils

    patched: Any = masking_utils
    find = patched.find_packed_sequence_indices
    patched.find_packed_sequence_indices = lambda _positions: None
    try:
        yield
    finally:
        patched.find_packed_sequence_indices = find


@contextmanager
def _packed_weights(plan: TrainingPlan) -> Iterator[None]:
    """DoRA takes the norm of a packed weight, which is unpacked as bitsandbytes does it."""
    if plan.quantization == "none":
        yield
        return
    from peft.tuners.lora import dora

    from studio.memory.trace.quantized import dequantized_weight

    patched: Any = dora
    unpack = patched.dequantize_module_weight
    patched.dequantize_module_weight = dequantized_weight
    try:
        yield
    finally:
        patched.dequantize_module_weight = unpack


def _phases(tracker: StorageTracker) -> Callable[[Phase, Part], None]:
    def enter(phase: Phase, part: Part) -> None:
        tracker.settle()
        tracker.ledger.phase, tracker.part = phase, part
        tracker.ledger.observe()

    return enter


def _book_what_is_there(tracker: StorageTracker, step: TrainingStep) -> None:
    """Weights and optimizer states; and gradients, as soon as each is complete."""
    for parameter in step.model.parameters():
        if parameter.requires_grad:
            part = Part.WEIGHTS_TRAINABLE
        elif parameter.is_floating_point():
            part = Part.WEIGHTS_FROZEN
        else:
            part = Part.WEIGHTS_QUANTIZED
        tracker.book(parameter, part)
    for state in step.optimizer.states():
        tracker.book(state, Part.OPTIMIZER_STATES)

    def is_complete(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            tracker.book(parameter.grad, Part.GRADIENTS)

    for parameter in step.trained:
        parameter.register_post_accumulate_grad_hook(is_complete)
