"""`estimate`: what the Memory tab tells: bytes of a training run or of a transcription, part by part."""

from collections.abc import Sequence
from typing import Any

from studio.actions.estimate import (
    Sizes,
    inference_plan,
    one_of,
    remedies,
    run_sizes,
    shape_of,
    transcription_sizes,
)
from studio.cli.output import say, show, show_json, table
from studio.cli.parsing import Parser, run_options
from studio.memory.fit import cards_for, for_card
from studio.memory.gpus import GPUS, Gpu, card, read_otherwise
from studio.memory.inference_plan import WIDTHS
from studio.memory.plan import LABEL_LENGTH, MemoryEstimate, Part
from studio.memory.trace.result import Trace
from studio.memory.trace.store import traced
from studio.messages import Message
from studio.options.choices import BITS, ENGINES, FASTER_WHISPER, QUANTIZATIONS
from studio.services import Services
from studio.settings import Settings
from studio.training.plan import planned
from studio.training.warm_start import warm_started
from studio.transcription.engine import FIELDS
from studio.units import format_bytes, format_count

_VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}


def parser() -> Parser:
    """Options of the estimate itself; those of a run belong to `TrainingConfig`."""
    made = Parser("estimate", "Estimate the memory of a training run or a transcription.")
    made.option(
        "gpu", "A GPU's name, such as 'RTX 4090', or a size, such as 24GiB.", known=[gpu.name for gpu in GPUS]
    )
    made.flag("cards", "Also list the GPUs that it fits on.")
    made.flag("trace", "Also trace one training step on meta tensors, byte by byte.")
    made.flag("json", "Print JSON.")
    made.option("label_length", "Tokens of the longest label of a batch.", kind=int, default=LABEL_LENGTH)
    made.option("use", "What the memory is for.", choices=("train", "transcribe"), default="train")
    made.flag("inference", "The same as --use transcribe; see the last options.")
    made.add_run_options()
    inference = _inference()
    made.epilog = f"{made.epilog}\nOptions with --inference:\n\n{inference.format_help()}"
    made.others = inference.arguments()
    return made


def _inference() -> Parser:
    made = Parser("estimate --inference", "Memory of a transcription.")
    made.option(
        "base_model", "Registry id, folder or Hub id.", aliases=("model", "model_path"), default="demo"
    )
    made.option("adapter", "An adapter beside it: registry id or folder.", default="")
    made.option("engine", "Inference engine.", choices=ENGINES, default="transformers")
    made.option(
        "precision",
        f"Type of the weights: fp32, fp16, bf16; transformers also {', '.join(BITS)}; faster-whisper also "
        f"{', '.join(name for name in ENGINES[FASTER_WHISPER] if name in WIDTHS)}.",
        aliases=("compute_type",),
        default="auto",
    )
    made.option("quantization", "Quantization of the linear layers (transformers).", choices=QUANTIZATIONS)
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
    made.of_schema(FIELDS["num_beams"], 0)
    made.flag("vad_filter", "Skip silence first: on the processor, so that it takes no GPU memory.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints the estimate; the exit code is 0 whatever the verdict."""
    given, rest = parser().read_known(arguments)
    gpu = card(given.gpu or "")
    if guessed := read_otherwise(given.gpu or ""):
        say(guessed)
    with Services.open(settings) as services:
        trace = None
        if given.inference or given.use == "transcribe":
            sizes, helps = _transcription_sizes(services, rest, gpu)
        else:
            config = run_options(rest)
            config = warm_started(config, services.registry)
            plan = planned(config, given.label_length)
            dimensions = shape_of(config.base_model, services.registry)
            sizes = run_sizes(plan, dimensions, gpu, settings.calibration)
            helps = remedies(plan.batch_size, config)
            if given.trace:
                say("tracing one training step")
                trace = traced(for_card(plan, gpu), dimensions, settings)
    if given.json:
        cards = {row.name: said for row, said in cards_for(sizes.elsewhere)} if given.cards else None
        show_json(
            {
                **sizes.estimate.to_json(),
                **_fit(sizes, gpu),
                "savings": [row.to_json() for row in sizes.savings],
                **({"cards": cards} if cards else {}),
                **({"trace": trace.to_json()} if trace else {}),
            }
        )
    else:
        show(_summary(sizes, gpu, trace, helps))
        if given.cards:
            show(_cards(sizes))
    return 0


def _transcription_sizes(
    services: Services, arguments: Sequence[str], gpu: Gpu | None
) -> tuple[Sizes, Message]:
    given = _inference().read(arguments)
    bits = [name for name, is_on in (("8bit", given.use_8bit), ("4bit", given.use_4bit)) if is_on]
    types = [name for name, is_on in (("fp16", given.fp16), ("bf16", given.bf16)) if is_on]
    plan = inference_plan(
        given.base_model,
        services.registry,
        adapter=given.adapter,
        engine=given.engine,
        precision=one_of("precision", given.precision, "auto", types),
        quantization=one_of("quantization", given.quantization, "none", bits),
        batch_size=given.batch_size,
        num_beams=given.num_beams,
    )
    sizes = transcription_sizes(plan, shape_of(given.base_model, services.registry), gpu)
    return sizes, remedies(given.batch_size)


def _fit(sizes: Sizes, gpu: Gpu | None) -> dict[str, Any]:
    if gpu is None:
        return {"gpu": None, "usable_bytes": None, "verdict": None, "largest_batch_size": None}
    found = sizes.on(gpu)
    return {
        "gpu": gpu.name,
        "usable_bytes": found.usable_bytes,
        "verdict": found.verdict,
        "largest_batch_size": found.largest_batch_size,
    }


def _cards(sizes: Sizes) -> str:
    rows = [
        (gpu.name, format_bytes(gpu.memory_bytes), _VERDICTS[said])
        for gpu, said in cards_for(sizes.elsewhere)
    ]
    return table(("CARD", "MEMORY", "THIS"), rows)


def _summary(sizes: Sizes, gpu: Gpu | None, trace: Trace | None, helps: Message) -> str:
    estimate = sizes.estimate
    rows = [
        (
            part.value.replace("_", " "),
            format_bytes(estimate.parts[part]),
            str(estimate.formulas.get(part, "")),
        )
        for part in Part
        if estimate.parts.get(part)
    ]
    rows.append(("total", format_bytes(estimate.device_bytes), f"highest in {estimate.peak_phase}"))
    phases = ", ".join(
        f"{phase.value.replace('_', ' ')} {format_bytes(size)}" for phase, size in estimate.phases.items()
    )
    lines = [
        table(("PART", "MEMORY", "HOW"), rows),
        f"peak tensor memory per phase: {phases}",
        f"between {format_bytes(estimate.low_bytes)} and {format_bytes(estimate.high_bytes)}",
    ]
    if estimate.trainable_parameters:
        trained, whole = format_count(estimate.trainable_parameters), format_count(estimate.all_parameters)
        lines[-1] += f"; {trained} of {whole} parameters are trained"
    lines += [str(row.sentence) for row in sizes.savings]
    if estimate.measurements:
        lines.append(f"corrected by {estimate.measurements} measurements on this card")
    if trace is not None:
        lines.append(_traced_line(trace, estimate))
    if gpu is not None:
        found = sizes.on(gpu)
        largest = found.largest_batch_size
        lines.append(
            f"{gpu.name}: {_VERDICTS[found.verdict]} into {format_bytes(found.usable_bytes)} that can be used"
            f"; {f'the largest batch that fits is {largest}' if largest else 'no batch fits'}"
        )
        if found.verdict != "fits":
            lines.append(str(helps))
    return "\n".join(lines)


def _traced_line(trace: Trace, estimate: MemoryEstimate) -> str:
    """The traced peak beside the highest of the estimate's."""
    off = max(estimate.phases.values()) / trace.peak_bytes - 1
    return (
        f"traced: {format_bytes(trace.peak_bytes)} of tensors at the peak, in {trace.peak_phase}; "
        f"the formulas are {off:+.2%} off"
    )
