"""What is asked of the calculator, and what it answers: frozen values, no arithmetic on models here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from studio.errors import ConfigError

SCHEMA_VERSION = 1
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
METHODS = ("lora", "dora", "adalora", "full", "frozen_encoder")
QUANTIZATIONS = ("none", "8bit", "4bit")
PRECISIONS = ("fp32", "fp16", "bf16", "pure_bf16")
DTYPES = ("fp32", "fp16", "bf16")
OPTIMIZERS = ("adamw_torch_fused", "adamw_torch", "adamw_bnb_8bit", "adafactor", "sgd")
ATTENTIONS = ("sdpa", "flash_attention_2", "eager")
SHARDINGS = ("ddp", "zero1", "zero2", "zero3", "fsdp")
ENGINES = ("transformers", "faster-whisper")
INFERENCE_PRECISIONS = ("fp32", "fp16", "bf16", "int8")


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


class Phase(StrEnum):
    """The moments of a step that can be the highest."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer_step"
    EVALUATION = "evaluation"
    ENCODING = "encoding"
    DECODING = "decoding"


@dataclass(frozen=True)
class TrainingPlan:
    """Everything about a training run that decides its memory. Checked when made.

    Audio is always padded to 30 seconds, so its length does not appear here.
    """

    method: str = "lora"
    lora_r: int = 32
    """Rank of the adapter as it is built; for AdaLoRA the rank it starts from."""
    target_modules: tuple[str, ...] = ALL_LINEAR
    lora_dropout: float = 0.05
    quantization: str = "none"
    """Bits of the frozen linear layers."""
    precision: str = "bf16"
    """Arithmetic: fp32, autocast to fp16 or bf16, or everything in bf16 without autocast."""
    base_dtype: str = "fp32"
    """Type in which the model is held: half precision for a frozen base. pure_bf16 holds it in bf16."""
    optimizer: str = "adamw_torch_fused"
    batch_size: int = 8
    gradient_accumulation_steps: int = 1
    label_length: int = 64
    """Tokens of the longest label in a batch."""
    gradient_checkpointing: bool = False
    use_reentrant: bool = False
    """The variant of checkpointing; transformers 5 takes the non-reentrant one."""
    attention: str = "sdpa"
    eval_batch_size: int = 0
    """Clips generated at once in evaluation; 0: no evaluation."""
    generation_max_length: int = 225
    generation_num_beams: int = 1
    num_gpus: int = 1
    sharding: str = "ddp"
    """What several GPUs divide among them; nothing with one."""

    def __post_init__(self) -> None:
        """Refuses what cannot be computed.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        _require_choice("method", self.method, METHODS)
        _require_choice("quantization", self.quantization, QUANTIZATIONS)
        _require_choice("precision", self.precision, PRECISIONS)
        _require_choice("base_dtype", self.base_dtype, DTYPES)
        _require_choice("optimizer", self.optimizer, OPTIMIZERS)
        _require_choice("attention", self.attention, ATTENTIONS)
        _require_choice("sharding", self.sharding, SHARDINGS)
        for name, low, high in _BOUNDS:
            if name != "lora_r" or self.is_adapter:
                _require_between(self, name, low, high)
        if self.is_adapter:
            if not self.target_modules:
                raise ConfigError("An adapter needs at least one of target_modules.")
            for name in self.target_modules:
                _require_choice("target_modules", name, ALL_LINEAR)
        self._check_together()

    def _check_together(self) -> None:
        """Refuses what no trainer can run, and says what comes nearest."""
        if self.quantization != "none":
            self._check_quantized()
        if not self.is_adapter and self.base_dtype == "fp16":
            raise ConfigError(
                "Weights in fp16 cannot be trained themselves (their gradients cannot be scaled): give "
                "base_dtype fp32 or bf16."
            )
        if self.precision == "fp32" and self.base_dtype != "fp32" and self.quantization == "none":
            raise ConfigError(
                "A {base_dtype} base cannot be fed with fp32: give both the same type.",
                base_dtype=self.base_dtype,
            )
        if "fp32" not in (self.precision, self.base_dtype) and self.arithmetic_dtype != self.base_dtype:
            raise ConfigError(
                "A {base_dtype} base under {precision} autocast is promoted to fp32 everywhere: give both "
                "the same type.",
                base_dtype=self.base_dtype,
                precision=self.precision,
            )
        if self.attention == "flash_attention_2" and self.precision == "fp32":
            raise ConfigError("Flash attention needs half precision: give precision bf16 or fp16, or sdpa.")

    def _check_quantized(self) -> None:
        if not self.is_adapter:
            raise ConfigError(
                "{quantization} weights cannot be trained themselves: use method lora, dora or adalora.",
                quantization=self.quantization,
            )
        if self.precision == "pure_bf16":
            raise ConfigError(
                "Beside {quantization} weights everything is raised to fp32: give precision bf16.",
                quantization=self.quantization,
            )
        if self.num_gpus > 1 and self.sharding in ("zero3", "fsdp"):
            raise ConfigError(
                "{quantization} weights cannot be divided among GPUs: give sharding ddp, zero1 or zero2.",
                quantization=self.quantization,
            )

    @property
    def is_adapter(self) -> bool:
        """Whether an adapter is trained beside frozen weights."""
        return self.method in ("lora", "dora", "adalora")

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
class InferencePlan:
    """Everything about transcribing that decides its memory. Checked when made."""

    engine: str = "transformers"
    precision: str = "fp16"
    batch_size: int = 1
    """Windows of 30 seconds at once."""
    num_beams: int = 1
    adapter_rank: int = 0
    """Rank of an adapter beside the base; 0: none."""
    adapter_modules: tuple[str, ...] = ALL_LINEAR
    max_length: int = 448
    """Longest text of a window, in tokens."""

    def __post_init__(self) -> None:
        """Refuses what cannot be computed.

        Raises:
            ConfigError: names the option, what came, and what is accepted.
        """
        _require_choice("engine", self.engine, ENGINES)
        _require_choice("precision", self.precision, INFERENCE_PRECISIONS)
        _require_positive(self, "batch_size", "num_beams", "max_length")
        for name in self.adapter_modules:
            _require_choice("adapter_modules", name, ALL_LINEAR)
        if self.engine == "transformers" and self.precision == "int8":
            raise ConfigError("int8 is of faster-whisper: choose that engine, or fp32, fp16 or bf16.")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes at the highest moment, part by part, with the numbers that led to them."""

    parts: Mapping[Part, int]
    """At the peak; they add up to `device_bytes`."""
    formulas: Mapping[Part, str]
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
            "formulas": {str(part): text for part, text in self.formulas.items()},
            "trainable_parameters": self.trainable_parameters,
            "all_parameters": self.all_parameters,
        }


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("lora_r", 1, 2048),
    ("lora_dropout", 0, 0.9),
    ("batch_size", 1, 1024),
    ("gradient_accumulation_steps", 1, 4096),
    ("label_length", 1, 448),
    ("eval_batch_size", 0, 1024),
    ("generation_max_length", 1, 448),
    ("generation_num_beams", 1, 32),
    ("num_gpus", 1, 1024),
)


def _require_between(plan: TrainingPlan, name: str, low: float, high: float) -> None:
    value = getattr(plan, name)
    if value < low:
        raise ConfigError("{name} must be at least {low:g}, got {value:g}.", name=name, low=low, value=value)
    if not value <= high:
        raise ConfigError(
            "{name} must be at most {high:g}, got {value:g}.", name=name, high=high, value=value
        )


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            "{name} must be one of {choices}, got {value!r}.",
            name=name,
            choices=", ".join(choices),
            value=value,
        )


def _require_positive(plan: InferencePlan, *names: str) -> None:
    for name in names:
        value = getattr(plan, name)
        if value < 1:
            raise ConfigError("{name} must be at least 1, got {value}.", name=name, value=value)
