"""One training step under the tracker: forward, backward, optimizer, as transformers' trainer runs them."""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from studio.lazy_imports import patched, transformers_library
from studio.memory.evaluation import PROMPT
from studio.memory.plan import Part, Phase, TrainingPlan
from studio.memory.trace.allocator import replay
from studio.memory.trace.cuda import WORKSPACES, AutocastRegion, cuda_kernels, rounded
from studio.memory.trace.ledger import PARTS, Ledger
from studio.memory.trace.model import arithmetic_dtype, build_model, enable_checkpointing, place, whisper_of
from studio.memory.trace.result import Trace
from studio.memory.trace.tracker import StorageTracker, Workspace
from studio.memory.training import worst_batch
from studio.memory.weights import static_bytes
from studio.methods import METHODS
from studio.registry.spec import ModelDimensions
from studio.whisper.audio_context import FRAMES_PER_POSITION, allow_short_audio
from studio.whisper.loss import use_chunked_loss
from studio.whisper.shared_sound import can_share, shared_sound

_BLOCK_8BIT = 256
_MIN_8BIT = 4096


class TracedOptimizer:
    """States as after the first step; a step allocates what the real one does."""

    def __init__(self, plan: TrainingPlan, model: nn.Module, trained: list[nn.Parameter]) -> None:
        self._plan = plan
        self._model: Any = model
        self._trained = trained
        self._kept: list[torch.Tensor] = []
        self._adafactor: Any = None
        if plan.optimizer in ("adamw_torch_fused", "adamw_torch"):
            for p in trained:
                self._kept += [torch.empty_like(p), torch.empty_like(p)]
        elif plan.optimizer == "adamw_bnb_8bit":
            embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
            for p in trained:
                self._kept += _states_8bit(p, is_embedding=id(p) in embeddings)
        elif plan.optimizer == "adafactor":
            self._adafactor = _adafactor(trained)

    def states(self) -> Iterable[torch.Tensor]:
        """Every tensor that lives from step to step."""
        yield from self._kept
        if self._adafactor is not None:
            for state in self._adafactor.state.values():
                yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        yield from METHODS[self._plan.method].traced_states(self._model)

    def step(self) -> None:
        """What one step allocates beside its states."""
        if self._plan.optimizer == "adamw_torch":
            # `_multi_tensor_adam` takes the roots of all second moments at once.
            roots = [torch.empty_like(p) for p in self._trained]
            del roots
        elif self._adafactor is not None:
            self._adafactor.step()

    def zero_grad(self) -> None:
        """Gradients are given up, not zeroed."""
        METHODS[self._plan.method].end_traced_step(self._model)
        for p in self._trained:
            p.grad = None


def _states_8bit(p: nn.Parameter, *, is_embedding: bool) -> list[torch.Tensor]:
    """bitsandbytes keeps small tensors in float32, and embeddings, as transformers' trainer asks it to."""
    if p.numel() < _MIN_8BIT or is_embedding:
        return [torch.empty(p.numel()) for _ in range(2)]
    blocks = math.ceil(p.numel() / _BLOCK_8BIT)
    packed = [torch.empty(p.numel(), dtype=torch.uint8) for _ in range(2)]
    return packed + [torch.empty(blocks) for _ in range(2)]


def _adafactor(trained: list[nn.Parameter]) -> Any:
    """transformers' own, as its trainer makes it, after a first step."""
    transformers = transformers_library()
    optimizer = transformers.Adafactor(trained, lr=1e-4, scale_parameter=False, relative_step=False)
    for p in trained:
        state = optimizer.state[p]
        state["step"], state["RMS"] = 1, torch.zeros(())
        if p.dim() >= 2:
            state["exp_avg_sq_row"] = torch.zeros(p.shape[:-1])
            state["exp_avg_sq_col"] = torch.zeros(p.shape[:-2] + p.shape[-1:])
        else:
            state["exp_avg_sq"] = torch.zeros(p.shape)
    return optimizer


@torch.no_grad()
def evaluate(model: Any, plan: TrainingPlan, dimensions: ModelDimensions, autocast: AutocastRegion) -> None:
    """What `WhisperTrainer.prediction_step` allocates for a full batch."""
    whisper = whisper_of(model)
    whisper.eval()
    d, batch = dimensions, plan.eval_batch_size
    dtype = next(p.dtype for p in whisper.parameters() if p.is_floating_point())
    frames = FRAMES_PER_POSITION * d.max_source_positions
    is_pure = plan.precision == "pure_bf16"
    given = torch.zeros(
        (batch, d.num_mel_bins, frames), dtype=torch.bfloat16 if is_pure else torch.float32, device="meta"
    )
    features = given.to(dtype)
    labels = torch.zeros(
        (batch, plan.eval_label_length or plan.label_length), dtype=torch.long, device="meta"
    )
    with autocast():
        encoded = whisper.get_encoder()(features).last_hidden_state
        # In chunks the model smooths the labels itself, and has no logits.
        _loss(whisper, encoded, labels, 0.0 if plan.loss_chunk_size else plan.label_smoothing_factor)
        _write_last_word(whisper, encoded, plan, d)


def _loss(whisper: Any, encoded: torch.Tensor, labels: torch.Tensor, smoothing: float) -> None:
    """Of the labels, given the sound; its logits are gone before a text is written."""
    from transformers.modeling_outputs import BaseModelOutput

    outputs = whisper(
        encoder_outputs=BaseModelOutput(last_hidden_state=encoded), labels=labels, use_cache=False
    )
    if smoothing:
        logits = outputs.logits.view(-1, outputs.logits.shape[-1])
        functional.cross_entropy(logits, labels.view(-1), label_smoothing=smoothing)


def _write_last_word(whisper: Any, encoded: torch.Tensor, plan: TrainingPlan, d: ModelDimensions) -> None:
    """A step of `generate` with the caches of all that was written before."""
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    beams = plan.generation_num_beams
    rows = plan.eval_batch_size * beams
    decoder = whisper.get_decoder()
    shares = plan.attention == "sdpa" and can_share(whisper, beams)
    own = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with shared_sound(whisper, encoded) if shares else nullcontext(own) as cache:
        if beams > 1:
            encoded = encoded.repeat_interleave(beams, dim=0)
        prompt = torch.zeros((rows, PROMPT), dtype=torch.long, device="meta")
        decoder(input_ids=prompt, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
        before = min(PROMPT + plan.generation_max_length, d.max_target_positions) - 1
        for layer in cache.self_attention_cache.layers:
            for name in ("keys", "values"):
                grown = getattr(layer, name)
                setattr(layer, name, grown.new_empty((*grown.shape[:2], before, grown.shape[3])))
                del grown
        if beams > 1:
            _choose_beams(cache, rows)
        word = torch.zeros((rows, 1), dtype=torch.long, device="meta")
        states = decoder(input_ids=word, encoder_hidden_states=encoded, past_key_values=cache, use_cache=True)
        logits = whisper.proj_out(states.last_hidden_state)
        scores = logits[:, -1, :].to(copy=True, dtype=torch.float32)
        if beams > 1:
            scores = functional.log_softmax(scores, dim=-1)
            scores = scores.clone() + scores.new_empty((rows, 1))
            torch.topk(scores.view(plan.eval_batch_size, -1), 2 * beams)
        else:
            torch.argmax(scores, dim=-1)


def _choose_beams(cache: Any, rows: int) -> None:
    """Every beam goes on from another one: its caches are copied layer by layer."""
    cache.reorder_cache(torch.zeros(rows, dtype=torch.long, device="meta"))


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

    def batch(self, *, is_encoded: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Features, or states that a frozen encoder made of them, and labels of one micro-batch: (clips, mel
        bins, frames) or (clips, positions, d_model), and (clips, tokens).
        """
        d, positions = self.dimensions, self.plan.positions(self.dimensions)
        sound = (positions, d.d_model) if is_encoded else (d.num_mel_bins, FRAMES_PER_POSITION * positions)
        is_pure = self.plan.precision == "pure_bf16"
        device = self.trained[0].device
        dtype = torch.bfloat16 if is_pure else torch.float32
        features = torch.zeros((self.plan.batch_size, *sound), dtype=dtype, device=device)
        shape = (self.plan.batch_size, self.plan.label_length)
        return features, torch.zeros(shape, dtype=torch.long, device=device)

    def loss(self, sound: torch.Tensor, labels: torch.Tensor, *, is_encoded: bool = False) -> torch.Tensor:
        """The forward pass; under autocast, accelerate then copies its results to float32."""
        from transformers.modeling_outputs import BaseModelOutput

        # With smoothed labels the loss is the trainer's, and the model is given the decoder's input.
        smoothing = 0.0 if self.plan.loss_chunk_size else self.plan.label_smoothing_factor
        words = {"decoder_input_ids": labels.clone()} if smoothing else {"labels": labels}
        states: Any = {"encoder_outputs": BaseModelOutput(last_hidden_state=sound)}
        with self.autocast():
            outputs = self.model(**(states if is_encoded else {"input_features": sound}), **words)
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
        """One step, and one of a later epoch where states of a frozen encoder are kept; `enter` hears of each
        phase, and what most new storages of it are for.
        """
        self._run(enter)
        if self.plan.has_kept_states:
            self._run(enter, is_encoded=True)

    def _run(self, enter: Callable[[Phase, Part], None], *, is_encoded: bool = False) -> None:
        """All micro-batches of an accumulated step lie on the device from its beginning."""
        enter(Phase.FORWARD, Part.ACTIVATIONS)
        accumulated = range(self.plan.gradient_accumulation_steps)
        batches = [self.batch(is_encoded=is_encoded) for _ in accumulated]
        for sound, labels in batches[:_MICRO_BATCHES]:
            enter(Phase.FORWARD, Part.ACTIVATIONS)
            loss = self.loss(sound, labels, is_encoded=is_encoded)
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
        # Packed, a tensor of 4 bits has half as many numbers.
        all_parameters=static_bytes(plan, dimensions).all_parameters,
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


def _one_sequence_a_row() -> AbstractContextManager[None]:
    """transformers looks into the positions for packed sequences, finds none, and needs no mask.

    Meta tensors have no values to look into.
    """
    from transformers import masking_utils

    return patched(masking_utils, find_packed_sequence_indices=lambda _positions: None)


def _packed_weights(plan: TrainingPlan) -> AbstractContextManager[None]:
    """DoRA takes the norm of a packed weight, which is unpacked as bitsandbytes does it."""
    if plan.quantization == "none":
        return nullcontext()
    from peft.tuners.lora import dora

    from studio.memory.trace.quantized import dequantized_weight

    return patched(dora, dequantize_module_weight=dequantized_weight)


def _phases(tracker: StorageTracker) -> Callable[[Phase, Part], None]:
    def enter(phase: Phase, part: Part) -> None:
        """What is made from here on is of that phase and part."""
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
        """Notes that the gradient of a parameter is whole."""
        if parameter.grad is not None:
            tracker.book(parameter.grad, Part.GRADIENTS)

    for parameter in step.trained:
        parameter.register_post_accumulate_grad_hook(is_complete)
