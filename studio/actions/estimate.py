"""How much memory a run or a transcription takes: what is asked, and what is answered."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.files import read_json
from studio.memory.calibration import calibrate
from studio.memory.fit import elsewhere, for_card, largest_within
from studio.memory.gpus import GPUS, Gpu, card, detected_gpus, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.inference_plan import WIDTHS, InferencePlan
from studio.memory.ladder import sized
from studio.memory.overhead import on_card
from studio.memory.plan import LABEL_LENGTH, MemoryEstimate, TrainingPlan
from studio.memory.savings import Saving, savings
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.messages import Joined, Message
from studio.options.checks import check_between
from studio.options.choices import ALL_LINEAR, BITS, DTYPES, ENGINES, FASTER_WHISPER, PRECISIONS, TRANSFORMERS
from studio.options.training import FIELDS, TrainingConfig, bounds_of
from studio.options.values import check_numbers
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry
from studio.services import Services
from studio.training.plan import planned
from studio.training.warm_start import adapter_named
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
    num_beams: int = 0
    """0: as a recording is heard with."""
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

    def __post_init__(self) -> None:
        """Raises ConfigError for a number that is none."""
        check_numbers(self)
        object.__setattr__(self, "num_beams", self.num_beams or USUAL_BEAMS)
        if self.use == TRANSCRIBE and self.engine == FASTER_WHISPER:  # it has none; the page hides the field
            object.__setattr__(self, "quantization", "none")


@dataclass(frozen=True)
class Sizes:
    """An estimate, and how to make it for another batch."""

    estimate: MemoryEstimate
    """On the GPU asked about; corrected by what was measured there, if that is in this machine."""
    elsewhere: Callable[[Gpu], MemoryEstimate]
    """The same on another card."""
    for_batch: Callable[[int], MemoryEstimate]
    """The same for another batch size."""
    count_savings: Callable[[], tuple[Saving, ...]] = tuple
    """Works out `savings` when somebody asks for them."""

    @cached_property
    def savings(self) -> tuple[Saving, ...]:
        """What short audio and the loss in chunks save, in training: twice the work of the estimate."""
        return self.count_savings()

    def on(self, gpu: Gpu) -> "Answer":
        """What it means on a GPU."""
        usable = usable_bytes(gpu)
        said = verdict(self.estimate, usable)
        return Answer(self.estimate, self.elsewhere, self.for_batch, self.count_savings, gpu, usable, said)


@dataclass(frozen=True)
class Answer(Sizes):
    """The estimate, and what it means on the GPU asked about."""

    gpu: Gpu = DEFAULT_GPU
    usable_bytes: int = 0
    verdict: str = ""

    @property
    def largest_batch_size(self) -> int:
        """The largest batch that fits; 0 if none does."""
        return largest_within(self.for_batch, self.usable_bytes)


def answer(question: Question, registry: ModelRegistry, receipts: Path | None = None) -> Answer:
    """Sizes a run or a transcription; `receipts` is the folder of what was measured here.

    Raises:
        ConfigError: if a value is out of range, or nothing is known about the model's dimensions.
        ModelNotFoundError: if there is no such model.
    """
    gpu = gpu_named(question.gpu)
    dimensions = shape_of(question.base_model, registry)
    if question.use == TRAIN:
        return run_sizes(_planned(question), dimensions, gpu, receipts).on(gpu)
    plan = inference_plan(
        question.base_model,
        registry,
        engine=question.engine,
        precision=question.precision,
        quantization=question.quantization,
        batch_size=question.per_device_train_batch_size,
        num_beams=question.num_beams,
    )
    return transcription_sizes(plan, dimensions, gpu).on(gpu)


def run_sizes(
    plan: TrainingPlan, dimensions: ModelDimensions, gpu: Gpu | None = None, receipts: Path | None = None
) -> Sizes:
    """Memory of a run, on a GPU that may have been measured; `receipts` is the folder of what was."""
    known = calibrate(gpu, receipts)
    here = for_card(plan, gpu)

    def size_run(batch_size: int) -> MemoryEstimate:
        """What the run takes with batches of that size."""
        return sized(replace(here, batch_size=batch_size), dimensions, known)

    return Sizes(
        size_run(here.batch_size),
        partial(elsewhere, plan, dimensions),
        size_run,
        lambda: savings(here, dimensions, known),
    )


def transcription_sizes(plan: InferencePlan, dimensions: ModelDimensions, gpu: Gpu | None) -> Sizes:
    """Memory of a transcription, on a GPU."""

    def size(batch_size: int, card: Gpu | None = gpu) -> MemoryEstimate:
        """What it takes with that many windows at once."""
        estimate = estimate_inference(replace(plan, batch_size=batch_size), dimensions)
        return on_card(estimate, card.architecture) if card else estimate

    return Sizes(size(plan.batch_size), partial(size, plan.batch_size), size)


def traced_run(config: TrainingConfig, label_length: int, services: Services) -> Trace:
    """One training step of a run, traced on meta tensors.

    Raises:
        ConfigError: if nothing is known about the model's dimensions.
        ModelNotFoundError: if there is no such model.
    """
    dimensions = shape_of(config.base_model, services.registry)
    return traced(planned(config, label_length), dimensions, services.settings)


def batch_curve(question: Question, found: Answer) -> tuple[list[tuple[int, int, int, int]], int]:
    """Batch size with low, middle and high bytes; and the largest batch that fits, 0 if none does."""
    largest = found.largest_batch_size
    sizes = sorted({*_BATCHES, question.per_device_train_batch_size, min(max(1, largest), _BATCHES[-1])})
    estimates = [(size, found.for_batch(size)) for size in sizes]
    return [(size, each.low_bytes, each.device_bytes, each.high_bytes) for size, each in estimates], largest


_OF_THE_RUN = {f.name for f in fields(Question)} & FIELDS.keys() - {"sharding"}
"""How many GPUs there are, and what they divide among them, is asked for the memory alone."""


def training_config(question: Question) -> TrainingConfig:
    """The run that the form describes; everything it does not ask stays at its default."""
    return TrainingConfig(**{name: getattr(question, name) for name in _OF_THE_RUN})


def training_plan_of(question: Question) -> TrainingPlan:
    """What the calculator makes of the form, on its GPU."""
    return for_card(_planned(question), gpu_named(question.gpu))


def _planned(question: Question) -> TrainingPlan:
    """The same on any GPU."""
    check_between("num_gpus", question.num_gpus, *bounds_of("num_processes"))
    config = replace(training_config(question), num_processes=question.num_gpus, sharding=question.sharding)
    return planned(config, question.label_length)


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


def precisions(use: str, engine: str) -> dict[str, str]:
    """Beside auto, with their names: bf16 throughout is of training alone; integers of transformers are asked
    for as `quantization`."""
    own = () if engine == TRANSFORMERS else ENGINES.get(engine, ())
    return {**DTYPES, **{name: name for name in own if name in WIDTHS}} if use == TRANSCRIBE else PRECISIONS


def remedies(batch_size: int, run: TrainingConfig | None = None) -> Message:
    """What makes a run, or without one a transcription, smaller and is not done yet; the cheapest first."""
    found = []
    if run is not None and not run.gradient_checkpointing:
        found.append(Message("gradient checkpointing"))
    if batch_size > 1:
        found.append(Message("a smaller batch"))
    if run is not None and not run.is_adapter:
        found.append(Message("LoRA instead of all weights"))
    elif run is not None and run.quantization == "none":
        found.append(Message("4 bits for the base"))
    found += [Message("a smaller model"), Message("a larger GPU")]
    return Message("What helps, in this order: {steps}.", steps=Joined(tuple(found)))


def estimate_command(question: Question) -> str:
    """The command that gives the same answer in a terminal; the rest of the defaults is left out."""
    words = ["python", "-m", "studio", "estimate"]
    defaults = Question("")
    for name in ASKED_OF[question.use]:
        value = getattr(question, name)
        if name in _ALWAYS_SAID or value != getattr(defaults, name):
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)


def shape_of(model: str, registry: ModelRegistry) -> ModelDimensions:
    """The shape of a model, known without a download for released ones.

    Raises:
        ConfigError: if its dimensions are not known.
        ModelNotFoundError: if there is no such model.
    """
    spec = registry.get(model)
    if spec.dimensions is None:
        raise ConfigError(
            "The dimensions of {model} are not known yet: download it first, or choose one of its size, "
            "such as large-v3.",
            model=model,
        )
    return spec.dimensions


_COMPUTE_TYPES = {"auto": "fp16", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Names of CTranslate2 and torch for what is written shorter here; half precision unless told otherwise."""


def one_of(name: str, value: str | None, default: str, switches: Iterable[str]) -> str:
    """An option that switches may say, too.

    Raises:
        ConfigError: if they contradict each other.
    """
    said = {*switches, *([value] if value not in (None, default) else [])}
    if len(said) > 1:
        raise ConfigError(
            "{name} can be one of {values}, not all of them: leave the others out.",
            name=name,
            values=", ".join(sorted(map(str, said))),
        )
    return str(next(iter(said), default))


def inference_plan(
    model: str,
    registry: ModelRegistry,
    *,
    adapter: str = "",
    engine: str = TRANSFORMERS,
    precision: str = "auto",
    quantization: str = "none",
    **options: Any,
) -> InferencePlan:
    """A plan of transcribing with a model; an adapter made here, or one beside it, brings rank and layers.

    `num_beams` 0, or none, is what a recording is heard with.

    Raises:
        AdapterMismatchError: if `adapter` is another model.
        ConfigError: if an option cannot be.
        ModelNotFoundError: if there is no such model.
    """
    if engine == TRANSFORMERS and (bits := BITS.get(precision)):
        precision, quantization = "auto", one_of("quantization", quantization, "none", [bits])
    options["precision"] = _COMPUTE_TYPES.get(precision, precision)
    options |= {"engine": engine, "quantization": quantization}
    options["num_beams"] = options.get("num_beams") or USUAL_BEAMS
    spec = adapter_named(adapter, registry) if adapter else registry.get(model)
    made = spec.card.get("config") if spec.base_model else None
    if adapter and spec.path is not None and not isinstance(made, Mapping):
        saved = read_json(spec.path / "adapter_config.json")
        made = {"lora_r": saved.get("r"), "target_modules": saved.get("target_modules")}
    rank = made.get("lora_r") if isinstance(made, Mapping) else None
    if not isinstance(made, Mapping) or not isinstance(rank, int):
        return InferencePlan(**options)
    modules = made.get("target_modules")
    known = tuple(name for name in modules if name in ALL_LINEAR) if isinstance(modules, list) else ()
    return InferencePlan(**options, adapter_rank=rank, adapter_modules=known or ALL_LINEAR)
