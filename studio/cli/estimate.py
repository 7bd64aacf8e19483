"""`estimate`: what the Memory tab tells: bytes of a training run or of a transcription, part by part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from studio.cli.decoding import BEAMS_HELP
from studio.cli.output import say, show, show_json, table
from studio.cli.parsing import Parser, run_options
from studio.errors import ConfigError
from studio.memory.calibration import calibrate
from studio.memory.fit import cards_for, largest_within
from studio.memory.gpus import Gpu, card, read_otherwise, usable_bytes, verdict
from studio.memory.inference import estimate_inference
from studio.memory.inference_plan import ENGINES
from studio.memory.plan import LABEL_LENGTH, MemoryEstimate, Part, TrainingPlan
from studio.memory.savings import Saving, savings
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.memory.training import estimate_training
from studio.options.arguments import help_text
from studio.options.choices import QUANTIZATIONS
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.services import Services
from studio.settings import Settings
from studio.training.fitting import inference_plan, shape_of
from studio.training.plan import planned
from studio.training.warm_start import warm_started
from studio.units import format_bytes, format_count

_VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}


def parser() -> Parser:
    """Options of the estimate itself; those of a run belong to `TrainingConfig`."""
    made = Parser("estimate", "Tell how much memory a training run, or a transcription, needs.")
    made.option("gpu", "A GPU's name, such as 'RTX 4090', or a size, such as 24GiB.")
    made.flag("cards", "Also tell which cards of the table run it.")
    made.flag("trace", "Also run one training step on tensors without memory, and tell its bytes.")
    made.flag("json", "Print JSON.")
    made.option("label_length", "Tokens of the longest label of a batch.", kind=int, default=LABEL_LENGTH)
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
    made.option("adapter", "An adapter beside it: registry id or folder.", default="")
    made.option("engine", "What runs the model.", choices=ENGINES, default="transformers")
    made.option(
        "precision",
        "Type of the weights: fp32, fp16, bf16; for faster-whisper also int8 and int8_float16.",
        aliases=("compute_type",),
        default="auto",
    )
    made.option("quantization", "Bits of the linear layers in transformers.", choices=QUANTIZATIONS)
    made.flag("use_8bit", "The same as --quantization 8bit.", aliases=("load_in_8bit",))
    made.flag("use_4bit", "The same as --quantization 4bit.", aliases=("load_in_4bit",))
    made.flag("fp16", "The same as --precision fp16.")
    made.flag("bf16", "The same as --precision bf16.")
    made.option(
        "batch_size",
        "Windows of 30 seconds at once: above 1, a recording is transcribed in batches. Its length does not "
        "matter, since windows come one batch after the other.",
        aliases=("per_device_train_batch_size",),
        kind=int,
        default=1,
    )
    made.option("num_beams", BEAMS_HELP, aliases=("beam_size",), kind=int, default=0)
    made.flag("vad_filter", "Leave silence out first: on the processor, so that it takes no GPU memory.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints the estimate; the exit code is 0 whatever the verdict."""
    given, rest = parser().read_known(arguments)
    gpu = card(given.gpu or "")
    if guessed := read_otherwise(given.gpu or ""):
        say(guessed)
    services = Services.open(settings)
    try:
        if given.inference or given.use == "transcribe":
            sized = _inference_sizes(services, rest)
        else:
            config = run_options(rest)
            config = warm_started(config, services.registry)
            plan = planned(config, given.label_length)
            dimensions = shape_of(config.base_model, services.registry)
            sized = _training_sizes(services, plan, dimensions, gpu)
            if given.trace:
                say("tracing one training step")
                sized = replace(sized, traced=traced(plan, dimensions, settings))
    finally:
        services.close()
    if given.json:
        cards = {row.name: said for row, said in cards_for(sized.elsewhere)} if given.cards else None
        trace = {"trace": sized.traced.to_json()} if sized.traced else {}
        show_json(
            {
                **sized.estimate.to_json(),
                **_fit(sized, gpu),
                "savings": [row.to_json() for row in sized.savings],
                **({"cards": cards} if cards else {}),
                **trace,
            }
        )
    else:
        show(_summary(sized, gpu))
        if given.cards:
            show(_cards(sized.elsewhere))
    return 0


@dataclass(frozen=True)
class _Sized:
    """An estimate, and how to make it for another batch."""

    estimate: MemoryEstimate
    elsewhere: MemoryEstimate
    """Without what was measured on the card asked about."""
    for_batch: Callable[[int], MemoryEstimate]
    savings: tuple[Saving, ...] = ()
    """Of a training run."""
    traced: Trace | None = None


def _training_sizes(
    services: Services, plan: TrainingPlan, dimensions: ModelDimensions, gpu: Gpu | None = None
) -> _Sized:
    known = calibrate(gpu, services.settings.calibration)

    def size_run(batch_size: int) -> MemoryEstimate:
        sized = replace(plan, batch_size=batch_size)
        estimate = estimate_training(sized, dimensions)
        return known.correct(estimate, sized, dimensions) if known else estimate

    saved = savings(plan, dimensions, known)
    return _Sized(size_run(plan.batch_size), estimate_training(plan, dimensions), size_run, saved)


def training_estimate(
    services: Services, config: TrainingConfig, *, label_length: int = LABEL_LENGTH
) -> MemoryEstimate:
    """Memory of a run on a GPU.

    Raises:
        ConfigError: if the model's dimensions are not known before a download.
        ModelNotFoundError: if there is no such model.
    """
    dimensions = shape_of(config.base_model, services.registry)
    return estimate_training(planned(config, label_length), dimensions)


def _inference_sizes(services: Services, arguments: Sequence[str]) -> _Sized:
    given = _inference().read(arguments)
    bits = [name for name, is_on in (("8bit", given.use_8bit), ("4bit", given.use_4bit)) if is_on]
    types = [name for name, is_on in (("fp16", given.fp16), ("bf16", given.bf16)) if is_on]
    plan = inference_plan(
        given.base_model,
        services.registry,
        adapter=given.adapter,
        engine=given.engine,
        precision=_one_of("precision", given.precision, "auto", types),
        quantization=_one_of("quantization", given.quantization, "none", bits),
        batch_size=given.batch_size,
        num_beams=given.num_beams,
    )
    dimensions = shape_of(given.base_model, services.registry)
    estimate = estimate_inference(plan, dimensions)
    return _Sized(
        estimate, estimate, lambda size: estimate_inference(replace(plan, batch_size=size), dimensions)
    )


def _one_of(name: str, value: str | None, default: str, switches: list[str]) -> str:
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
        (
            part.value.replace("_", " "),
            format_bytes(estimate.parts[part]),
            str(estimate.formulas.get(part, "")),
        )
        for part in Part
        if estimate.parts.get(part)
    ]
    rows.append(("together", format_bytes(estimate.device_bytes), f"highest in {estimate.peak_phase}"))
    phases = ", ".join(
        f"{phase.value.replace('_', ' ')} {format_bytes(size)}" for phase, size in estimate.phases.items()
    )
    lines = [
        table(("PART", "MEMORY", "HOW"), rows),
        f"tensors at the highest moment of each phase: {phases}",
        f"between {format_bytes(estimate.low_bytes)} and {format_bytes(estimate.high_bytes)}; "
        f"{format_count(estimate.trainable_parameters)} of {format_count(estimate.all_parameters)} "
        "parameters are trained",
    ]
    lines += [str(row.sentence) for row in sized.savings]
    if estimate.measurements:
        lines.append(f"corrected by {estimate.measurements} measurements on this card")
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
