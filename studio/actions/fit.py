"""From a GPU, a model and hours of speech to the run that fits: what `fit` and the page's form ask."""

from dataclasses import Field, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from studio.actions.estimate import shape_of
from studio.errors import ConfigError
from studio.memory.calibration import Calibration, calibrate
from studio.memory.fit import LARGEST_BATCH, FitResult, cards_for, fit, for_card
from studio.memory.gpus import Gpu, card, usable_bytes
from studio.memory.plan import LABEL_LENGTH
from studio.messages import Message
from studio.options.arguments import command_line, config_to_dict
from studio.options.checks import check_values
from studio.options.choices import METHOD_LABELS, or_auto
from studio.options.option import option
from studio.options.sources import OWN_DATA
from studio.options.training import TrainingConfig
from studio.options.values import check_numbers
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions
from studio.registry.store import ModelRegistry
from studio.training.plan import config_of, planned
from studio.whisper.constants import TEXT_POSITIONS

AUTO = "auto"
FEW_HOURS, MANY_HOURS = 10.0, 50.0
MODELS = tuple(
    model
    for name in ("large-v3", "large-v3-turbo", "medium", "small", "base", "tiny")
    if (model := find_released(name)) is not None
)
"""Models to start from, the most accurate first."""


@dataclass(frozen=True)
class Advice:
    """A method for an amount of speech."""

    method: str
    lora_r: int
    reason: Message


def advise(hours: float) -> Advice:
    """The method that suits so many hours of transcribed speech; 0 if nobody knows yet."""
    if hours == 0:
        return Advice("lora", 32, _UNKNOWN)
    if hours < FEW_HOURS:
        return Advice("lora", 16, _FEW)
    if hours <= MANY_HOURS:
        return Advice("lora", 32, _SOME)
    return Advice("full", 64, _MANY)


_UNKNOWN = Message(
    "Without a number of hours: LoRA, which suits most amounts of speech. Say how many you have for better "
    "advice."
)
_FEW = Message(
    "Under 10 hours: LoRA of a low rank. There is too little to move all weights without forgetting what the "
    "model knows, so take the largest model that fits: the more it knows, the less it must be taught."
)
_SOME = Message(
    "10 to 50 hours: LoRA on all linear layers. It learns nearly as much as training all weights would, "
    "forgets less, and leaves room for a larger model."
)
_MANY = Message(
    "Over 50 hours: enough to train all weights, where they fit. Where they do not, the decoder alone or "
    "LoRA of rank 64 comes close."
)
fit_option = partial(option, "fit")


@dataclass(frozen=True)
class FitQuestion:
    """What a run is looked for; the names are those of the command line."""

    gpu: str = fit_option("", "GPU", "Name, such as RTX 4090, or size: 24GiB; empty: this machine's.")
    memory_gib: float = fit_option(0.0, "Free memory (GiB)", "0 = that of the GPU.")
    base_model: str = fit_option(
        AUTO,
        "Model",
        "Registry id, folder or Hub id; auto: the most accurate that fits.",
        aliases=("model", "model_name_or_path"),
    )
    hours: float = fit_option(
        0.0,
        "Hours of transcribed speech",
        "Decides the method; 0 if you do not know yet.",
        bounds=(0, 1_000_000),
    )
    method: str = fit_option(AUTO, "Method", "auto: by the hours of speech.", choices=or_auto(METHOD_LABELS))
    effective_batch_size: int = fit_option(
        16, "Effective batch size", "Clips per optimizer step.", bounds=(1, LARGEST_BATCH)
    )
    label_length: int = fit_option(LABEL_LENGTH, "Longest text (tokens)", "", bounds=(1, TEXT_POSITIONS))

    def __post_init__(self) -> None:
        """Refuses numbers that cannot be.

        Raises:
            ConfigError: names the option.
        """
        check_numbers(self)
        if self.memory_gib:
            card("", self.memory_gib)
        check_values(self)


FIELDS: dict[str, Field[Any]] = {f.name: f for f in fields(FitQuestion)}
"""Options of the question, by name."""


@dataclass(frozen=True)
class ModelFit:
    """What becomes of one model on the GPU."""

    base_model: str
    title: str
    result: FitResult


@dataclass(frozen=True)
class FitAnswer:
    """The run, and how it was found."""

    gpu: Gpu
    base_model: str
    advice: Advice
    result: FitResult
    config: TrainingConfig
    models: tuple[ModelFit, ...]
    """The models to choose from, the most accurate first."""

    @property
    def command(self) -> str:
        """What starts the run in a terminal, on data of one's own."""
        return command_line(replace(self.config, train_data=OWN_DATA))

    def to_json(self) -> dict[str, Any]:
        """For `--json`: what `FitResult` tells, the run's options, the other models, and the cards."""
        return {
            **self.result.to_json(),
            "gpu": self.gpu.name,
            "base_model": self.base_model,
            "advice": str(self.advice.reason),
            "config": config_to_dict(self.config),
            "command": self.command,
            "models": [
                {
                    "base_model": row.base_model,
                    "fits": row.result.fits,
                    "method": row.result.plan.method,
                    "quantization": row.result.plan.quantization,
                    "device_bytes": row.result.estimate.device_bytes,
                }
                for row in self.models
            ],
            "cards": {gpu.name: verdict for gpu, verdict in cards_for(self.result.elsewhere)},
        }


def find_fit(question: FitQuestion, registry: ModelRegistry, receipts: Path | None = None) -> FitAnswer:
    """The best run for a GPU; `receipts` is the folder of what was measured on this machine.

    Raises:
        ConfigError: if a value is out of range, the GPU is unknown, or nothing is known of the model's shape.
        ModelNotFoundError: if there is no such model.
    """
    gpu = card(question.gpu, question.memory_gib)
    if gpu is None:
        raise ConfigError("There is no GPU in this machine: name a card, or give its memory in GiB.")
    advice = _advice(question)
    known = calibrate(gpu, receipts)
    models = tuple(
        ModelFit(model.id, model.title, _fit(question, model.id, model.dimensions, gpu, advice, known)[0])
        for model in MODELS
        if model.dimensions is not None
    )
    base_model = question.base_model if question.base_model != AUTO else _best(models)
    dimensions = shape_of(base_model, registry)
    result, config = _fit(question, base_model, dimensions, gpu, advice, known)
    return FitAnswer(gpu, base_model, advice, result, config, models)


def _advice(question: FitQuestion) -> Advice:
    advice = advise(question.hours)
    return advice if question.method == AUTO else replace(advice, method=question.method)


def _best(models: tuple[ModelFit, ...]) -> str:
    """The most accurate model that fits with the frozen weights as they are; else one that fits at all."""
    fitting = [row for row in models if row.result.fits]
    whole = [row for row in fitting if row.result.plan.quantization == "none"]
    return (whole or fitting or list(models[-1:]))[0].base_model


def _fit(
    question: FitQuestion,
    base_model: str,
    dimensions: ModelDimensions,
    gpu: Gpu,
    advice: Advice,
    known: Calibration | None,
) -> tuple[FitResult, TrainingConfig]:
    config = TrainingConfig(
        base_model=base_model,
        method=advice.method,
        lora_r=advice.lora_r,
        lora_alpha=2 * advice.lora_r,
        per_device_train_batch_size=question.effective_batch_size,
    )
    wish = for_card(planned(config, question.label_length), gpu)
    keep = () if question.method == AUTO else ("method",)
    result = fit(dimensions, usable_bytes(gpu), wish, keep, known)
    return result, config_of(result.plan, config)
