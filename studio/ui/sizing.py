"""What the Memory tab asks: values of its form in, the calculator's answer out."""

import shlex
from dataclasses import dataclass

from studio.errors import ConfigError
from studio.memory.gpus import GPUS, Gpu, detected_gpus, find_gpu, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.plan import InferencePlan, MemoryEstimate
from studio.memory.training import estimate_training
from studio.registry.store import ModelRegistry
from studio.training.config import TrainingConfig
from studio.training.fitting import shape_of
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


@dataclass(frozen=True)
class Answer:
    """The estimate, and what it means on the GPU asked about."""

    estimate: MemoryEstimate
    gpu: Gpu
    usable_bytes: int
    verdict: str


def answer(question: Question, registry: ModelRegistry) -> Answer:
    """Sizes a run or a transcription.

    Raises:
        ConfigError: if a value is out of range, or nothing is known about the model's dimensions.
        ModelNotFoundError: if there is no such model.
    """
    dimensions = shape_of(question.base_model, registry)
    if question.use == TRAIN:
        plan = planned(training_config(question), question.label_length)
        estimate = estimate_training(plan, dimensions)
    else:
        precision = "fp16" if question.precision == "auto" else question.precision
        estimate = estimate_inference(
            InferencePlan(
                precision=precision,
                batch_size=question.per_device_train_batch_size,
                num_beams=question.num_beams,
            ),
            dimensions,
        )
    gpu = gpu_named(question.gpu)
    usable = usable_bytes(gpu)
    return Answer(estimate, gpu, usable, verdict(estimate, usable))


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
    """The GPU of that name, of this machine or of the table; the default one without a name.

    Raises:
        ConfigError: if nobody knows it.
    """
    if not name.strip():
        return default_gpu()
    here = next((gpu for gpu in detected_gpus() if gpu.name == name), None)
    found = here or find_gpu(name)
    if found is None:
        raise ConfigError("There is no GPU {name!r} in the table: choose one from the list.", name=name)
    return found


_ASKED_OF = {
    TRAIN: (
        *("base_model", "method", "quantization", "precision", "per_device_train_batch_size"),
        *("gradient_checkpointing", "lora_r", "label_length", "gpu"),
    ),
    TRANSCRIBE: ("base_model", "use", "precision", "per_device_train_batch_size", "num_beams", "gpu"),
}
_ALWAYS_SAID = ("base_model", "use", "per_device_train_batch_size", "gpu")


def estimate_command(question: Question) -> str:
    """The command that gives the same answer in a terminal; the rest of the defaults is left out."""
    words = ["python", "-m", "studio", "estimate"]
    defaults = Question("")
    for name in _ASKED_OF[question.use]:
        value = getattr(question, name)
        if name in _ALWAYS_SAID or value != getattr(defaults, name):
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)
