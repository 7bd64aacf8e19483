"""`estimate`: what the Memory tab tells: bytes of a training run or of a transcription, part by part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from studio.cli.output import say, show, show_json, table
from studio.cli.parsing import Parser
from studio.memory.fit import cards_for, largest_within
from studio.memory.gpus import Gpu, card, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.plan import ENGINES, INFERENCE_PRECISIONS, MemoryEstimate, Part
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.memory.training import estimate_training
from studio.services import Services
from studio.settings import Settings
from studio.training.arguments import help_text, parse_training_arguments
from studio.training.config import TrainingConfig
from studio.training.fitting import inference_plan, shape_of
from studio.training.plan import planned
from studio.units import format_bytes, format_count

_VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}


def parser() -> Parser:
    """Options of the estimate itself; those of a run belong to `TrainingConfig`."""
    made = Parser("estimate", "Tell how much memory a training run, or a transcription, needs.")
    made.option("gpu", "A GPU's name, such as 'RTX 4090', or a size, such as 24GiB.")
    made.flag("cards", "Also tell which cards of the table run it.")
    made.flag("trace", "Also run one training step on tensors without memory, and tell its bytes.")
    made.flag("json", "Print JSON.")
    made.option("label_length", "Tokens of the longest label of a batch.", kind=int, default=64)
    made.option("use", "What the memory is for.", choices=("train", "transcribe"), default="train")
    made.flag("inference", "The same as --use transcribe; see the last options.")
    made.epilog = (
        "Options of a run:\n\n" + help_text() + "\nOptions with --inference:\n\n" + _inference().format_help()
    )
    return made


def _inference() -> Parser:
    made = Parser("estimate --inference", "Memory of a transcription.")
    made.option(
        "base_model", "Registry id, folder or Hub id.", aliases=("model", "model_path"), default="demo"
    )
    made.option("engine", "What runs the model.", choices=ENGINES, default="transformers")
    made.option("precision", "Type of the weights.", choices=("auto", *INFERENCE_PRECISIONS), default="auto")
    made.option(
        "batch_size",
        "Windows of 30 seconds at once.",
        aliases=("per_device_train_batch_size",),
        kind=int,
        default=1,
    )
    made.option("num_beams", "Beams of the search.", kind=int, default=1)
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints the estimate; the exit code is 0 whatever the verdict."""
    given, rest = parser().read_known(arguments)
    gpu = card(given.gpu or "")
    services = Services.open(settings)
    try:
        if given.inference or given.use == "transcribe":
            sized = _inference_sizes(services, rest)
        else:
            config, notes = parse_training_arguments(rest)
            for note in notes:
                say(note)
            sized = _training_sizes(services, config, given.label_length)
            if given.trace:
                say("tracing one training step")
                sized = replace(sized, traced=_trace(services, config, given.label_length))
    finally:
        services.close()
    if given.json:
        cards = {row.name: said for row, said in cards_for(sized.estimate)} if given.cards else None
        trace = {"trace": sized.traced.to_json()} if sized.traced else {}
        show_json(
            {**sized.estimate.to_json(), **_fit(sized, gpu), **({"cards": cards} if cards else {}), **trace}
        )
    else:
        show(_summary(sized, gpu))
        if given.cards:
            show(_cards(sized.estimate))
    return 0


@dataclass(frozen=True)
class _Sized:
    """An estimate, and how to make it for another batch."""

    estimate: MemoryEstimate
    for_batch: Callable[[int], MemoryEstimate]
    traced: Trace | None = None


def _training_sizes(services: Services, config: TrainingConfig, label_length: int) -> _Sized:
    dimensions = shape_of(config.base_model, services.registry)
    plan = planned(config, label_length)
    return _Sized(
        estimate_training(plan, dimensions),
        lambda size: estimate_training(replace(plan, batch_size=size), dimensions),
    )


def _trace(services: Services, config: TrainingConfig, label_length: int) -> Trace:
    dimensions = shape_of(config.base_model, services.registry)
    return traced(planned(config, label_length), dimensions, services.settings.cache)


def training_estimate(
    services: Services, config: TrainingConfig, *, label_length: int = 64
) -> MemoryEstimate:
    """Memory of a run on a GPU.

    Raises:
        ConfigError: if the model's dimensions are not known before a download.
        ModelNotFoundError: if there is no such model.
    """
    return _training_sizes(services, config, label_length).estimate


def _inference_sizes(services: Services, arguments: Sequence[str]) -> _Sized:
    given = _inference().read(arguments)
    plan = inference_plan(
        given.base_model,
        services.registry,
        engine=given.engine,
        precision="fp16" if given.precision == "auto" else given.precision,
        batch_size=given.batch_size,
        num_beams=given.num_beams,
    )
    dimensions = shape_of(given.base_model, services.registry)
    return _Sized(
        estimate_inference(plan, dimensions),
        lambda size: estimate_inference(replace(plan, batch_size=size), dimensions),
    )


def _fit(sized: _Sized, gpu: Gpu | None) -> dict[str, Any]:
    if gpu is None:
        return {"gpu": None, "usable_bytes": None, "verdict": None, "largest_batch_size": None}
    usable = usable_bytes(gpu)
    return {
        "gpu": gpu.name,
        "usable_bytes": usable,
        "verdict": verdict(sized.estimate, usable),
        "largest_batch_size": largest_within(sized.for_batch, usable),
    }


def _cards(estimate: MemoryEstimate) -> str:
    rows = [(gpu.name, format_bytes(gpu.memory_bytes), _VERDICTS[said]) for gpu, said in cards_for(estimate)]
    return table(("CARD", "MEMORY", "THIS"), rows)


def _summary(sized: _Sized, gpu: Gpu | None) -> str:
    estimate = sized.estimate
    rows = [
        (part.value.replace("_", " "), format_bytes(estimate.parts[part]), estimate.formulas.get(part, ""))
        for part in Part
        if estimate.parts.get(part)
    ]
    rows.append(("together", format_bytes(estimate.device_bytes), f"highest in {estimate.peak_phase}"))
    lines = [
        table(("PART", "MEMORY", "HOW"), rows),
        f"between {format_bytes(estimate.low_bytes)} and {format_bytes(estimate.high_bytes)}; "
        f"{format_count(estimate.trainable_parameters)} of {format_count(estimate.all_parameters)} "
        "parameters are trained",
    ]
    if sized.traced is not None:
        lines.append(_traced_line(sized.traced, estimate))
    if gpu is not None:
        usable = usable_bytes(gpu)
        largest = largest_within(sized.for_batch, usable)
        lines.append(
            f"{gpu.name}: {_VERDICTS[verdict(estimate, usable)]} into {format_bytes(usable)} that can be used"
            f"; {f'the largest batch that fits is {largest}' if largest else 'no batch fits'}"
        )
    return "\n".join(lines)


def _traced_line(trace: Trace, estimate: MemoryEstimate) -> str:
    """The traced peak beside the highest of the estimate's."""
    off = max(estimate.phases.values()) / trace.peak_bytes - 1
    return (
        f"traced: {format_bytes(trace.peak_bytes)} of tensors at the highest moment, in {trace.peak_phase}; "
        f"the formulas are {off:+.2%} off"
    )
