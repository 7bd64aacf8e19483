"""A training run as the calculator sees it, and its answer: frozen values, no arithmetic on models here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from studio.errors import ConfigError
from studio.messages import Message
from studio.methods import METHODS
from studio.options.checks import check_between, check_choice, check_division, check_types
from studio.options.choices import (
    ALL_LINEAR,
    ATTENTIONS,
    DTYPES,
    OPTIMIZERS,
    PRECISIONS,
    QUANTIZATIONS,
    SHARDINGS,
)
from studio.options.training import bounds_of
from studio.registry.spec import ModelDimensions
from studio.whisper.audio_context import POSITIONS
from studio.whisper.constants import WINDOW_TOKENS

SCHEMA_VERSION = 1
LABEL_LENGTH = 128
"""Tokens of the longest text of a batch unless told otherwise: what 30 seconds of fast speech hold."""
_OPTIONS = {
    "batch_size": "per_device_train_batch_size",
    "label_length": "generation_max_length",
    "num_gpus": "num_processes",
    **{name: name for name in ("lora_dropout", "gradient_accumulation_steps", "label_smoothing_factor")},
    **{name: name for name in ("loss_chunk_size", "generation_max_length", "generation_num_beams")},
}
"""Number of a plan → option of a run that it stands for, or that has the same bounds."""
_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("lora_r", 1, 2 * bounds_of("lora_r")[1]),  # AdaLoRA begins with more than it keeps
    ("audio_positions", 1, POSITIONS),
    ("eval_batch_size", 0, bounds_of("per_device_eval_batch_size")[1]),
    *((name, *bounds_of(option)) for name, option in _OPTIONS.items()),
)
"""Number of a plan, its least and its greatest value."""


class Part(StrEnum):
    """What the bytes are for; the parts of an estimate add up to what the device must hold."""

    WEIGHTS_TRAINABLE = "weights_trainable"
    WEIGHTS_FROZEN = "weights_frozen"
    WEIGHTS_QUANTIZED = "weights_quantized"
    WEIGHT_CASTS = "weight_casts"
    """Half-precision copies that autocast makes of float32 weights."""
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer_states"
    ACTIVATIONS = "activations"
    """What the forward pass keeps for the backward pass; in inference also the caches of the decoder."""
    LOGITS_AND_LOSS = "logits_and_loss"
    TEMPORARIES = "temporaries"
    """What lives only within one layer or one optimizer step."""
    OVERHEAD = "overhead"
    """Slack of the allocator, workspace of cuBLAS, context of CUDA."""


Parts = dict[Part, float]
"""Bytes of one moment."""


class Phase(StrEnum):
    """The moments of a step that can be the highest."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer_step"
    EVALUATION = "evaluation"
    RESUMING = "resuming"
    """Weights and optimizer states of a checkpoint are loaded; there are no gradients yet."""
    ENCODING = "encoding"
    DECODING = "decoding"


@dataclass(frozen=True)
class TrainingPlan:
    """Everything about a training run that decides its memory. Checked when made."""

    method: str = "lora"
    lora_r: int = 32
    """Rank of the adapter as it is built; for AdaLoRA the rank it starts from."""
    target_modules: tuple[str, ...] = ALL_LINEAR
    lora_dropout: float = 0.0
    quantization: str = "none"
    """Bits of the frozen linear layers."""
    precision: str = "bf16"
    """Arithmetic: fp32, autocast to fp16 or bf16, or everything in bf16 without autocast."""
    base_dtype: str = "fp32"
    """Type in which the model is held: half precision for a frozen base. pure_bf16 holds it in bf16."""
    optimizer: str = "adamw_torch_fused"
    batch_size: int = 8
    gradient_accumulation_steps: int = 1
    label_length: int = LABEL_LENGTH
    """Tokens of the longest label in a batch."""
    gradient_checkpointing: bool = False
    use_reentrant: bool = False
    """The variant of checkpointing; transformers 5 takes the non-reentrant one."""
    attention: str = "sdpa"
    label_smoothing_factor: float = 0.0
    loss_chunk_size: int = 0
    """Tokens whose logits are there at once; 0: all."""
    audio_positions: int = POSITIONS
    """Of the encoder, for the longest clip of a batch: 50 a second; all 1,500 unless in short-audio mode."""
    has_padded_batches: bool = False
    """Whether short-audio mode has batches that are padded to 30 seconds, in pieces as large as others."""
    keeps_encoder_states: bool = False
    """Whether later epochs have the states of the encoder, if that is frozen, in place of features."""
    window_label_length: int = 0
    """Tokens of a whole window that is rehearsed beside a batch; 0: none is."""
    eval_batch_size: int = 0
    """Clips generated at once in evaluation; 0: no evaluation."""
    eval_label_length: int = 0
    """Tokens of the longest label in evaluation; 0: as in training."""
    generation_max_length: int = WINDOW_TOKENS + 1
    generation_num_beams: int = 1
    num_gpus: int = 1
    sharding: str = "ddp"
    """What several GPUs divide among them; nothing with one."""

    def __post_init__(self) -> None:
        """Refuses what cannot be computed.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        check_choice("method", self.method, METHODS)
        check_choice("quantization", self.quantization, QUANTIZATIONS)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("base_dtype", self.base_dtype, DTYPES)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("attention", self.attention, ATTENTIONS)
        check_choice("sharding", self.sharding, SHARDINGS)
        for name, low, high in _BOUNDS:
            if name != "lora_r" or self.is_adapter:
                check_between(name, getattr(self, name), low, high)
        if self.is_adapter:
            if not self.target_modules:
                raise ConfigError("An adapter needs at least one of target_modules.", name="target_modules")
            for name in self.target_modules:
                check_choice("target_modules", name, ALL_LINEAR)
        check_types(self.method, self.quantization, self.precision, self.base_dtype, self.attention)
        check_division(self.quantization, self.sharding, self.num_gpus)

    def positions(self, dimensions: ModelDimensions) -> int:
        """Of the encoder of such a model; a test's may have fewer than 1,500."""
        return min(self.audio_positions, dimensions.max_source_positions)

    @property
    def padded_batch_size(self) -> int:
        """Clips of 30 s at once that take no more positions than a batch of shorter ones; at least one."""
        return min(self.batch_size, max(1, self.batch_size * self.audio_positions // POSITIONS))

    @property
    def with_padded_batch(self) -> "TrainingPlan":
        """With a batch that is padded to 30 seconds: its pieces follow each other like micro-batches."""
        pieces = -(-self.batch_size // self.padded_batch_size)
        return replace(
            self,
            audio_positions=POSITIONS,
            has_padded_batches=False,
            batch_size=self.padded_batch_size,
            gradient_accumulation_steps=min(4096, self.gradient_accumulation_steps * pieces),
        )

    @property
    def with_window(self) -> "TrainingPlan":
        """With a window that is rehearsed: it follows its batch like a micro-batch."""
        return replace(
            self,
            audio_positions=POSITIONS,
            has_padded_batches=False,
            batch_size=1,
            gradient_accumulation_steps=min(4096, 2 * self.gradient_accumulation_steps),
            label_length=self.window_label_length,
            eval_label_length=self.eval_label_length or self.label_length,
        )

    @property
    def has_kept_states(self) -> bool:
        """Whether later epochs have the states of a frozen encoder."""
        return self.keeps_encoder_states and not METHODS[self.method].trains_encoder

    @property
    def is_adapter(self) -> bool:
        """Whether an adapter is trained beside frozen weights."""
        return METHODS[self.method].is_adapter

    @property
    def is_autocast(self) -> bool:
        """Whether float32 is lowered to half precision at each operation."""
        return self.precision in ("fp16", "bf16")

    @property
    def arithmetic_dtype(self) -> str:
        """Type of the matrix products."""
        return "bf16" if self.precision == "pure_bf16" else self.precision

    @property
    def weights_dtype(self) -> str:
        """Type of the model's weights; what is beside packed weights is raised to float32 by PEFT."""
        if self.quantization != "none":
            return "fp32"
        return "bf16" if self.precision == "pure_bf16" else self.base_dtype


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes at the highest moment, part by part, with the numbers that led to them."""

    parts: Mapping[Part, int]
    """At the peak; they add up to `device_bytes`."""
    formulas: Mapping[Part, Message]
    """The arithmetic of each part, numbers put in."""
    phases: Mapping[Phase, int]
    """Live tensors at the highest moment of each phase, in bytes."""
    peak_phase: Phase
    allocated_bytes: int
    """Live tensors and workspace: what `torch.cuda.max_memory_allocated` tells."""
    reserved_bytes: int
    """With the slack of the allocator: what `torch.cuda.max_memory_reserved` tells."""
    device_bytes: int
    """With the CUDA context: what nvidia-smi tells."""
    low_bytes: int
    high_bytes: int
    """The range in which `device_bytes` will lie."""
    trainable_parameters: int
    all_parameters: int
    measurements: int = 0
    """So many on this card have corrected slack, context and range."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`: each part as `…_bytes`, then the sums."""
        return {
            "schema_version": SCHEMA_VERSION,
            **{f"{part}_bytes": self.parts.get(part, 0) for part in Part},
            "allocated_bytes": self.allocated_bytes,
            "reserved_bytes": self.reserved_bytes,
            "device_bytes": self.device_bytes,
            "low_bytes": self.low_bytes,
            "high_bytes": self.high_bytes,
            "peak_phase": str(self.peak_phase),
            "phases": {f"{phase}_bytes": size for phase, size in self.phases.items()},
            "formulas": {str(part): str(text) for part, text in self.formulas.items()},
            "trainable_parameters": self.trainable_parameters,
            "all_parameters": self.all_parameters,
            "measurements": self.measurements,
        }
