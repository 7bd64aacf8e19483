"""What the Memory tab asks: values of its form in, the calculator's answer out."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from studio.memory.calibration import calibrate
from studio.memory.fit import largest_within
from studio.memory.gpus import GPUS, Gpu, card, detected_gpus, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.plan import LABEL_LENGTH, MemoryEstimate, TrainingPlan
from studio.memory.savings import Saving, savings
from studio.memory.training import estimate_training
from studio.options.training import TrainingConfig
from studio.registry.store import ModelRegistry
from studio.training.fitting import inference_plan, shape_of
from studio.training.plan import planned
from studio.transcription.engine import USUAL_BEAMS

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
    label_length: int = LABEL_LENGTH
    gradient_checkpointing: bool = False
    lora_r: int = 32
    num_beams: int = USUAL_BEAMS
    gpu: str = ""
    engine: str = "transformers"
    optim: str = "adamw_torch_fused"
    attn_implementation: str = "auto"
    base_dtype: str = "auto"
    num_gpus: int = 1
    sharding: str = "ddp"
    loss_chunk_size: int = 256
    short_audio: str = "auto"
    max_audio_len: float = 30.0


@dataclass(frozen=True)
class Answer:
    """The estimate, and what it means on the GPU asked about."""

    estimate: MemoryEstimate
    """Corrected by what was measured on that GPU, if it is in this machine."""
    elsewhere: MemoryEstimate
    """As it is for any other GPU."""
    gpu: Gpu
    usable_bytes: int
    verdict: str
    for_batch: Callable[[int], MemoryEstimate]
    """The same for another batch size."""
    savings: tuple[Saving, ...] = ()
    """What short audio and the loss in chunks save, in training."""


def answer(question: Question, registry: ModelRegistry, receipts: Path | None = None) -> Answer:
    """Sizes a run or a transcription; `receipts` is the folder of what was measured here.

    Raises:
        ConfigError: if a value is out of range, or nothing is known about the model's dimensions.
        ModelNotFoundError: if there is no such model.
    """
    gpu = gpu_named(question.gpu)
    sizes = _sizes(question, registry, gpu, receipts)
    size = question.per_device_train_batch_size
    estimate = sizes(size)
    elsewhere = _sizes(question, registry)(size) if estimate.measurements else estimate
    usable = usable_bytes(gpu)
    said = verdict(estimate, usable)
    return Answer(estimate, elsewhere, gpu, usable, said, sizes, _savings(question, registry, gpu, receipts))


def _savings(
    question: Question, registry: ModelRegistry, gpu: Gpu, receipts: Path | None
) -> tuple[Saving, ...]:
    if question.use != TRAIN:
        return ()
    known = calibrate(gpu, receipts) if receipts else None
    return savings(training_plan_of(question), shape_of(question.base_model, registry), known)


def _sizes(
    question: Question, registry: ModelRegistry, gpu: Gpu | None = None, receipts: Path | None = None
) -> Callable[[int], MemoryEstimate]:
    """The estimate for any batch size, on a GPU that may have been measured."""
    dimensions = shape_of(question.base_model, registry)
    if question.use == TRAIN:
        plan = training_plan_of(question)
        known = calibrate(gpu, receipts) if receipts else None

        def size_run(batch_size: int) -> MemoryEstimate:
            sized = replace(plan, batch_size=batch_size)
            estimate = estimate_training(sized, dimensions)
            return known.correct(estimate, sized, dimensions) if known else estimate

        return size_run
    transcribing = inference_plan(
        question.base_model,
        registry,
        engine=question.engine,
        precision=question.precision,
        quantization=question.quantization if question.engine == "transformers" else "none",
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
        optim=question.optim,
        attn_implementation=question.attn_implementation,
        base_dtype=question.base_dtype,
        loss_chunk_size=question.loss_chunk_size,
        short_audio=question.short_audio,
        max_audio_len=question.max_audio_len,
    )


def training_plan_of(question: Question) -> TrainingPlan:
    """What the calculator makes of the form."""
    return planned(
        training_config(question),
        question.label_length,
        num_gpus=question.num_gpus,
        sharding=question.sharding,
    )


def question_plan(question: Question) -> TrainingPlan | None:
    """What the calculator would be asked about a run; None for a transcription.

    Raises:
        ConfigError: names the field whose value cannot be.
    """
    gpu_named(question.gpu)
    return training_plan_of(question) if question.use == TRAIN else None


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
        *("gradient_checkpointing", "lora_r", "label_length", "optim", "attn_implementation"),
        *("base_dtype", "num_gpus", "sharding", "loss_chunk_size", "short_audio", "max_audio_len", "gpu"),
    ),
    TRANSCRIBE: (
        *("base_model", "use", "engine", "precision", "quantization", "per_device_train_batch_size"),
        *("num_beams", "gpu"),
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
