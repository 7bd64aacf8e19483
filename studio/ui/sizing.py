"""What the Memory tab asks: values of its form in, the calculator's answer out."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from studio.memory.fit import largest_within
from studio.memory.gpus import GPUS, Gpu, card, detected_gpus, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.plan import MemoryEstimate
from studio.memory.training import estimate_training
from studio.registry.store import ModelRegistry
from studio.training.config import TrainingConfig
from studio.training.fitting import inference_plan, shape_of
from studio.training.plan import planned

TRAIN, TRANSCRIBE = "train", "transcribe"
DEFAULT_GPU = next(gpu for gpu in GPUS if gpu.name.endswith("RTX 4090"))


@dataclass(frozen=True)
class Question:
    """What the memory is asked for; the names are those of the command line."""

    base_model: str
    use: str = TRAIN
    method: str = "lora"
    quantization: str = "none"
    precision: str = "auto"
    per_device_train_batch_size: int = 8
    label_length: int = 64
    gradient_checkpointing: bool = False
    lora_r: int = 32
    num_beams: int = 1
    gpu: str = ""
    engine: str = "transformers"


@dataclass(frozen=True)
class Answer:
    """The estimate, and what it means on the GPU asked about."""

    estimate: MemoryEstimate
    gpu: Gpu
    usable_bytes: int
    verdict: str
    for_batch: Callable[[int], MemoryEstimate]
    """The same for another batch size."""


def answer(question: Question, registry: ModelRegistry) -> Answer:
    """Sizes a run or a transcription.

    Raises:
        ConfigError: if a value is out of range, or nothing is known about the model's dimensions.
        ModelNotFoundError: if there is no such model.
    """
    sizes = _sizes(question, registry)
    estimate = sizes(question.per_device_train_batch_size)
    gpu = gpu_named(question.gpu)
    usable = usable_bytes(gpu)
    return Answer(estimate, gpu, usable, verdict(estimate, usable), sizes)


def _sizes(question: Question, registry: ModelRegistry) -> Callable[[int], MemoryEstimate]:
    """The estimate for any batch size."""
    dimensions = shape_of(question.base_model, registry)
    if question.use == TRAIN:
        plan = planned(training_config(question), question.label_length)
        return lambda size: estimate_training(replace(plan, batch_size=size), dimensions)
    transcribing = inference_plan(
        question.base_model,
        registry,
        engine=question.engine,
        precision="fp16" if question.precision == "auto" else question.precision,
        num_beams=question.num_beams,
    )
    return lambda size: estimate_inference(replace(transcribing, batch_size=size), dimensions)


def batch_curve(question: Question, found: Answer) -> tuple[list[tuple[int, int, int, int]], int]:
    """Batch size with low, middle and high bytes; and the largest batch that fits, 0 if none does."""
    largest = largest_within(found.for_batch, found.usable_bytes)
    sizes = sorted({*_BATCHES, question.per_device_train_batch_size, min(max(1, largest), _BATCHES[-1])})
    estimates = [(size, found.for_batch(size)) for size in sizes]
    return [(size, each.low_bytes, each.device_bytes, each.high_bytes) for size, each in estimates], largest


def training_config(question: Question) -> TrainingConfig:
    """The run that the form describes; everything it does not ask stays at its default."""
    return TrainingConfig(
        base_model=question.base_model,
        method=question.method,
        quantization=question.quantization,
        precision=question.precision,
        per_device_train_batch_size=question.per_device_train_batch_size,
        gradient_checkpointing=question.gradient_checkpointing,
        lora_r=question.lora_r,
    )


def gpus() -> tuple[Gpu, ...]:
    """The cards of this machine, then the table; each name once."""
    rows = {gpu.name: gpu for gpu in detected_gpus()}
    return tuple((rows | {gpu.name: gpu for gpu in GPUS if gpu.name not in rows}).values())


def default_gpu() -> Gpu:
    """The first card of this machine, or one with 24 GiB as people have it at home."""
    found = detected_gpus()
    return found[0] if found else DEFAULT_GPU


def gpu_named(name: str) -> Gpu:
    """The GPU of that name or size, of this machine or of the table; the default one without a name.

    Raises:
        ConfigError: if nobody knows it.
    """
    return card(name) or default_gpu()


ASKED_OF = {
    TRAIN: (
        *("base_model", "method", "quantization", "precision", "per_device_train_batch_size"),
        *("gradient_checkpointing", "lora_r", "label_length", "gpu"),
    ),
    TRANSCRIBE: (
        *("base_model", "use", "engine", "precision", "per_device_train_batch_size", "num_beams", "gpu"),
    ),
}
_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ALWAYS_SAID = ("base_model", "use", "per_device_train_batch_size", "gpu")


def estimate_command(question: Question) -> str:
    """The command that gives the same answer in a terminal; the rest of the defaults is left out."""
    words = ["python", "-m", "studio", "estimate"]
    defaults = Question("")
    for name in ASKED_OF[question.use]:
        value = getattr(question, name)
        if name in _ALWAYS_SAID or value != getattr(defaults, name):
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)
