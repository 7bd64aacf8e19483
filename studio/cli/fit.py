"""`fit`: the best training run for a GPU, what had to be changed for it, and what that costs."""

from collections.abc import Sequence

from studio.actions.fit import FIELDS, FitAnswer, FitQuestion, find_fit
from studio.actions.presets import PRESETS, Preset, preset, preset_answers, preset_row
from studio.cli.output import give, say, table
from studio.cli.parsing import Parser
from studio.memory.fit import FitResult, cards_for
from studio.memory.gpus import GPUS, read_otherwise, usable_bytes
from studio.memory.myths import claims
from studio.services import Services
from studio.settings import Settings
from studio.units import format_bytes


def parser() -> Parser:
    """The question; what is not given is chosen."""
    made = Parser("fit", "Find the best training run for a GPU. Exit code 1: nothing fits.")
    for name, f in FIELDS.items():
        made.of_schema(f, f.default, [gpu.name for gpu in GPUS] if name == "gpu" else ())
    presets = [row.key for row in PRESETS]
    made.option("preset", f"A preset: {', '.join(presets)}.", known=presets)
    made.flag("presets", "Show every preset, with our figures beside what guides say.")
    made.flag("claims", "Show what common guides say about memory, and what is true.")
    made.flag("json", "Print JSON.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Prints the run; 1 if nothing fits."""
    given = parser().read(arguments)
    if given.claims:
        return _show_claims(given.json)
    question = FitQuestion(**{name: getattr(given, name) for name in FIELDS})
    if given.preset:
        chosen = preset(given.preset)
        question = chosen.question
        say(f"Guides say: “{chosen.claim.said}” {chosen.claim.truth}")
    if not question.memory_gib and (guessed := read_otherwise(question.gpu)):
        say(guessed)
    with Services.open(settings) as services:
        if given.presets:
            return _show_presets(preset_answers(services.registry), given.json)
        answer = find_fit(question, services.registry, settings.calibration)
    give(given.json, answer.to_json(), lambda: _summary(answer))
    return 0 if answer.result.fits else 1


def _show_claims(is_json: bool) -> int:
    rows = [{"said": str(each.said), "truth": str(each.truth)} for each in claims()]
    give(is_json, rows, lambda: "\n\n".join("“{said}”\n  {truth}".format(**row) for row in rows))
    return 0


def _show_presets(rows: Sequence[tuple[Preset, FitAnswer]], is_json: bool) -> int:
    cells = [
        (
            row.key,
            answer.base_model,
            answer.result.plan.method,
            format_bytes(answer.result.estimate.device_bytes),
            format_bytes(usable_bytes(answer.gpu)),
            str(row.claim.said),
        )
        for row, answer in rows
    ]
    header = ("PRESET", "MODEL", "METHOD", "TAKES", "OF", "GUIDES SAY, WRONGLY")
    give(is_json, [preset_row(row, answer) for row, answer in rows], lambda: table(header, cells))
    return 0


def _summary(answer: FitAnswer) -> str:
    result = answer.result
    estimate = result.estimate
    usable = format_bytes(usable_bytes(answer.gpu))
    size = f"{format_bytes(estimate.low_bytes)} to {format_bytes(estimate.high_bytes)}"
    if result.fits:
        head = f"{answer.base_model} fits on {answer.gpu.name}: {size} of {usable} that can be used."
    else:
        head = (
            f"Nothing fits: the least that {answer.base_model} takes is {size}, and {usable} of "
            f"{answer.gpu.name} can be used. See the models below."
        )
    lines = [head, str(answer.advice.reason), "", ladder_table(result), ""]
    lines += [*(str(row.sentence) for row in result.savings), "", _models(answer)]
    if estimate.measurements:
        lines += ["", f"Corrected by {estimate.measurements} measurements on this card."]
    smallest = next((gpu.name for gpu, verdict in cards_for(result.elsewhere) if verdict == "fits"), None)
    if smallest:
        lines += ["", f"The smallest GPU that runs this: {smallest}."]
    if result.fits:
        lines += [f"The largest batch that fits: {result.largest_batch_size}.", "", answer.command]
    return "\n".join(lines)


def ladder_table(result: FitResult) -> str:
    """The rungs from the wish to the plan."""
    rows = [("as wished", format_bytes(result.wished.device_bytes), "", "")]
    rows += [
        (str(rung.change), format_bytes(rung.device_bytes), format_bytes(rung.saves_bytes), str(rung.cost))
        for rung in result.rungs
    ]
    return table(("CHANGE", "MEMORY", "SAVES", "COSTS"), rows)


def _models(answer: FitAnswer) -> str:
    rows = [
        (
            row.base_model,
            "fits" if row.result.fits else "does not fit",
            row.result.plan.method,
            row.result.plan.quantization,
            str(row.result.plan.batch_size),
            "on" if row.result.plan.gradient_checkpointing else "off",
            format_bytes(row.result.estimate.device_bytes),
        )
        for row in answer.models
    ]
    return table(("MODEL", "HERE", "METHOD", "BITS", "BATCH", "CHECKPOINTING", "MEMORY"), rows)
