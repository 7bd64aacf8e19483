"""`probe`: two real steps of a run, measured on this machine."""

from collections.abc import Mapping, Sequence

from studio.actions.estimate import shape_of
from studio.cli.output import give, say, table
from studio.cli.parsing import Parser, run_options
from studio.memory.gpus import detected_gpus
from studio.memory.receipts import CPU, Receipt, read_receipts
from studio.options.checks import check_between
from studio.runs.probe import PATIENCE_SECONDS
from studio.services import Services
from studio.settings import Settings
from studio.training.probe.question import ProbeQuestion
from studio.units import format_bytes, local_time
from studio.whisper.constants import TEXT_POSITIONS

_FIGURES = (
    ("tensors", "tensor_bytes"),
    ("allocated", "allocated_bytes"),
    ("reserved", "reserved_bytes"),
    ("on the card", "device_bytes"),
)


def parser() -> Parser:
    """Options of the measurement; those of the run belong to `TrainingConfig`."""
    made = Parser(
        "probe",
        "Measure two real steps of a training run on this machine's GPU, with weights that need no download, "
        "and keep the receipt: later estimates for this card are corrected by it. Without a GPU, the tensors "
        "of a small model are measured on the processor. Exit code 1: it ran out of memory.",
    )
    made.option(
        "label_length", "Tokens of every text: the longest of your data.", kind=int, default=TEXT_POSITIONS
    )
    made.option("timeout", "Seconds that it may take.", kind=float, default=PATIENCE_SECONDS)
    made.flag("list", "List the receipts kept so far instead.")
    made.flag("json", "Print JSON.")
    made.add_run_options()
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Measures; 1 if memory ran out."""
    given, rest = parser().read_known(arguments)
    if given.list:
        return _list(settings, as_json=given.json)
    config = run_options(rest)
    check_between("label_length", given.label_length, 1, TEXT_POSITIONS)
    with Services.open(settings) as services:
        question = ProbeQuestion(config, shape_of(config.base_model, services.registry), given.label_length)
        if not detected_gpus():
            say("There is no GPU here: tensors are measured on the processor, which corrects no estimate.")
        say("measuring two steps; Ctrl-C ends it")
        receipt, path = services.prober.measure(question, patience_seconds=given.timeout)
    give(given.json, {**receipt.to_json(), "file": str(path)}, lambda: summary(receipt))
    if not given.json:
        say(f"Kept in {path}")
    return 1 if receipt.is_out_of_memory else 0


def summary(receipt: Receipt) -> str:
    """Predicted beside measured, figure by figure."""
    if receipt.is_out_of_memory:
        return f"Memory ran out on {receipt.card}: this run does not fit there."
    rows = [
        (name, format_bytes(said), format_bytes(found), f"{said / found - 1:+.1%}")
        for name, key in _FIGURES
        if (said := receipt.predicted.get(key)) and (found := receipt.measured.get(key))
    ]
    cpu = f"Predicted and measured for the processor in {receipt.plan.precision}: tensors only"
    where = cpu if receipt.card == CPU else f"Measured on {receipt.card}"
    return f"{where}\n{table(('FIGURE', 'PREDICTED', 'MEASURED', 'OFF'), rows)}"


def _list(settings: Settings, *, as_json: bool) -> int:
    receipts = read_receipts(settings.calibration)
    rows = [
        (
            local_time(receipt.created),
            receipt.card,
            receipt.base_model,
            receipt.plan.method,
            str(receipt.plan.batch_size),
            _total(receipt.predicted),
            "out of memory" if receipt.is_out_of_memory else _total(receipt.measured),
        )
        for receipt in receipts
    ]
    heads = ("WHEN", "CARD", "BASE", "METHOD", "BATCH", "PREDICTED", "MEASURED")
    text = table(heads, rows) if rows else "Nothing was measured yet."
    give(as_json, [receipt.to_json() for receipt in receipts], lambda: text)
    return 0


def _total(figures: Mapping[str, int | None]) -> str:
    """The widest figure there is."""
    sizes = [size for _name, key in _FIGURES if (size := figures.get(key))]
    return format_bytes(sizes[-1]) if sizes else "?"
