"""From measurements to a table, and to the one rule that must hold: nothing is said to fit that does not."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from studio.files import write_json, write_text
from studio.memory.gpus import Verdict
from studio.units import format_bytes

_HEADS = (
    *("run", "tensors predicted", "measured", "off"),
    *("on the card predicted", "range", "measured", "off", "range corrected"),
)
REPORTS = Path(__file__).parents[1] / "benchmarks" / "reports"


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    card: str
    total_bytes: int
    free_bytes: int
    """Before the first measurement."""
    driver: str
    versions: dict[str, str]
    date: str


@dataclass(frozen=True)
class Row:
    """One case: what was said first, what it took."""

    name: str
    use: str
    """`train` or `transcribe`."""
    is_held_back: bool
    allocated_bytes: int
    device_bytes: int
    low_bytes: int
    high_bytes: int
    verdict: Verdict
    """Of the committed prediction, on what was free."""
    measured_allocated_bytes: int | None
    """None where the engine has an allocator of its own, or memory ran out."""
    measured_device_bytes: int | None
    is_out_of_memory: bool = False
    corrected_low_bytes: int | None = None
    corrected_high_bytes: int | None = None
    """The range after what was not held back had been measured; only of what was held back."""

    @property
    def allocated_error(self) -> float | None:
        """Prediction against measurement: 0.01 is one percent too much."""
        return _error(self.allocated_bytes, self.measured_allocated_bytes)

    @property
    def device_error(self) -> float | None:
        """The same of everything on the card."""
        return _error(self.device_bytes, self.measured_device_bytes)


def _error(said: int, found: int | None) -> float | None:
    return said / found - 1 if found else None


def broken_promises(rows: Sequence[Row]) -> list[str]:
    """Every case of which it was, or on a card of another size would be, said that it fits, and it did not.

    A run fits a card if the high end of its range does: so what was measured must not be above that end.
    """
    broken = []
    for row in rows:
        if row.is_out_of_memory and row.verdict == "fits":
            broken.append(f"{row.name}: said to fit, and memory ran out")
        taken = row.measured_device_bytes
        if taken is not None and taken > row.high_bytes:
            broken.append(
                f"{row.name}: took {format_bytes(taken)}, at most {format_bytes(row.high_bytes)} were said"
            )
        high = row.corrected_high_bytes
        if taken is not None and high is not None and taken > high:
            broken.append(
                f"{row.name}: took {format_bytes(taken)}, corrected to {format_bytes(high)} at most"
            )
    return broken


def markdown(machine: Machine, rows: Sequence[Row]) -> str:
    """The table for people."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    lines = [
        f"# Memory on {machine.card}",
        "",
        f"{format_bytes(machine.total_bytes)}, {format_bytes(machine.free_bytes)} free; driver "
        f"{machine.driver}; {versions}; {machine.date}. `python3 tests/run.py tests/gpu` makes it again.",
        "",
        f"| {' | '.join(_HEADS)} |",
        f"|{'---|' * len(_HEADS)}",
    ]
    lines += [_line(row) for row in rows]
    lines += ["", *_summary(rows)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    cells = [
        row.name + (" (held back)" if row.is_held_back else ""),
        format_bytes(row.allocated_bytes),
        _size(row, row.measured_allocated_bytes),
        _percent(row.allocated_error),
        format_bytes(row.device_bytes),
        f"{format_bytes(row.low_bytes)} – {format_bytes(row.high_bytes)}",
        _size(row, row.measured_device_bytes),
        _percent(row.device_error),
        f"{format_bytes(row.corrected_low_bytes)} – {format_bytes(row.corrected_high_bytes)}"
        if row.corrected_low_bytes and row.corrected_high_bytes
        else "",
    ]
    return f"| {' | '.join(cells)} |"


def _size(row: Row, size: int | None) -> str:
    if row.is_out_of_memory:
        return "out of memory"
    return format_bytes(size) if size else "not told"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f} %"


def _summary(rows: Sequence[Row]) -> list[str]:
    broken = broken_promises(rows)
    said = [f"Broken promises: {len(broken)}."] + [f"- {line}" for line in broken]
    for title, held_back in (("not held back", False), ("held back", True)):
        errors = sorted(
            abs(row.allocated_error)
            for row in rows
            if row.use == "train" and row.is_held_back is held_back and row.allocated_error is not None
        )
        if errors:
            median, worst = errors[len(errors) // 2], errors[-1]
            said.append(
                f"- {len(errors)} runs {title}: tensors {100 * median:.1f} % off in the median, "
                f"{100 * worst:.1f} % at worst."
            )
    return said


def write_report(machine: Machine, rows: Sequence[Row], folder: Path = REPORTS) -> tuple[Path, Path]:
    """Writes Markdown and JSON; gives back their files."""
    stem = "gpu-" + re.sub(r"[^a-z0-9]+", "-", machine.card.lower()).strip("-")
    table, figures = folder / f"{stem}.md", folder / f"{stem}.json"
    write_text(table, markdown(machine, rows))
    write_json(figures, {"machine": asdict(machine), "rows": [asdict(row) for row in rows]})
    return table, figures
