"""Plans drawn at random and their traces: what the closed form is fitted to, and what it is judged by.

`python -m tests.benchmarks.memory_traces` draws the plans (always the same), traces those that the committed
file does not have, and prints how far the closed form is from each. Every third plan is held out: nothing may
be fitted to it. `--again` traces all of them.
"""

import dataclasses
import json
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.errors import ConfigError
from studio.memory.plan import TrainingPlan
from studio.memory.trace.store import library_versions
from studio.memory.training import estimate_training
from studio.options.choices import ALL_LINEAR, DTYPES, METHODS, OPTIMIZERS, PRECISIONS, QUANTIZATIONS
from studio.registry.catalog import find_released
from studio.registry.spec import ModelDimensions

TRACES = Path(__file__).parent / "reports" / "memory_traces.json"
MODELS = ("tiny", "base", "small", "medium", "large-v2", "large-v3", "large-v3-turbo")
_SEED = 20261120
_COUNT = 120
_SHORT_COUNT = 60


@dataclass(frozen=True)
class Case:
    """One drawn plan."""

    number: int
    model: str
    plan: TrainingPlan

    @property
    def is_held_out(self) -> bool:
        """Whether nothing may be fitted to it."""
        return self.number % 3 == 2

    @property
    def dimensions(self) -> ModelDimensions:
        """Of its model."""
        model = find_released(self.model)
        assert model is not None
        return model.dimensions

    def __str__(self) -> str:
        default = TrainingPlan()
        changed = {
            f.name: getattr(self.plan, f.name)
            for f in dataclasses.fields(TrainingPlan)
            if getattr(self.plan, f.name) != getattr(default, f.name)
        }
        return f"{self.number} {self.model} {changed}"


def draw() -> list[Case]:
    """Plans from everything that `TrainingPlan` accepts: model and method first, then the rest of it."""
    dice = random.Random(_SEED)
    first = [
        Case(number, dice.choice(MODELS), _plan(dice, dice.choice([*METHODS]))) for number in range(_COUNT)
    ]
    return [*first, *_draw_short()]


def _draw_short() -> list[Case]:
    """Plans as before, in short-audio mode and with the loss in chunks: drawn later, with other dice."""
    dice = random.Random(_SEED + 1)
    drawn = []
    for number in range(_COUNT, _COUNT + _SHORT_COUNT):
        model, plan = dice.choice(MODELS), _plan(dice, dice.choice([*METHODS]))
        changed = dataclasses.replace(
            plan,
            loss_chunk_size=dice.choice((0, 64, 256, 256, 512)),
            audio_positions=dice.choice((32, 96, 160, 256, 384, 512, 768, 1024, 1500)),
            has_padded_batches=dice.choice((False, True)),
        )
        drawn.append(Case(number, model, changed))
    return drawn


def _plan(dice: random.Random, method: str) -> TrainingPlan:
    """What a plan refuses is drawn again."""
    while True:
        try:
            return TrainingPlan(method=method, **_values(dice))
        except ConfigError:
            continue


def _values(dice: random.Random) -> dict[str, Any]:
    return {
        "lora_r": dice.choice((2, 4, 8, 16, 32, 64, 128)),
        "target_modules": tuple(
            sorted(dice.sample(ALL_LINEAR, dice.randint(1, len(ALL_LINEAR))), key=ALL_LINEAR.index)
        ),
        "lora_dropout": dice.choice((0.0, 0.05, 0.1)),
        "quantization": dice.choice([*QUANTIZATIONS]),
        "precision": dice.choice([*PRECISIONS]),
        "base_dtype": dice.choice([*DTYPES]),
        "optimizer": dice.choice([*OPTIMIZERS]),
        "batch_size": dice.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32)),
        "gradient_accumulation_steps": dice.choice((1, 1, 2, 4)),
        "label_length": dice.choice((4, 16, 32, 64, 96, 128, 225, 320, 448)),
        "gradient_checkpointing": dice.choice((False, True)),
        "use_reentrant": dice.choice((False, True)),
        "attention": dice.choice(("sdpa", "sdpa", "flash_attention_2", "eager")),
    }


def read() -> dict[int, dict[str, Any]]:
    """The committed traces by the number of their case."""
    if not TRACES.exists():
        return {}
    return {row["number"]: row for row in json.loads(TRACES.read_text(encoding="utf-8"))["traces"]}


def write(rows: dict[int, dict[str, Any]]) -> None:
    """A row a line, so that a change shows."""
    head = json.dumps({"seed": _SEED, "versions": library_versions()})[:-1]
    lines = ",\n".join(json.dumps(rows[number]) for number in sorted(rows))
    TRACES.parent.mkdir(parents=True, exist_ok=True)
    TRACES.write_text(f'{head}, "traces": [\n{lines}\n]}}\n', encoding="utf-8")


def trace_row(case: Case) -> dict[str, Any]:
    """What is kept of a trace: its peak, the parts then, and the highest moment of each phase, in bytes."""
    from studio.memory.trace.step import trace_step

    trace = trace_step(case.plan, case.dimensions)
    return {
        "number": case.number,
        "peak_bytes": trace.peak_bytes,
        "reserved_bytes": trace.reserved_bytes,
        "peak_phase": str(trace.peak_phase),
        "parts": {str(part): size for part, size in trace.parts.items() if size},
        "phases": {str(phase): size for phase, size in trace.phases.items()},
    }


def error_of(case: Case, row: dict[str, Any]) -> float:
    """Closed form against trace: 0.01 is one percent too much."""
    estimate = estimate_training(case.plan, case.dimensions)
    return max(estimate.phases.values()) / row["peak_bytes"] - 1


def summary(errors: list[float]) -> str:
    """Count, median, 95th percentile and worst of the errors' sizes, and how many are too low."""
    sizes = sorted(abs(error) for error in errors)
    high = sizes[min(len(sizes) - 1, round(0.95 * (len(sizes) - 1)))]
    low = [error for error in errors if error < 0]
    return (
        f"{len(sizes)} plans: median {100 * statistics.median(sizes):.2f} %, "
        f"95th percentile {100 * high:.2f} %, worst {100 * sizes[-1]:.2f} %; "
        f"{len(low)} too low, the worst by {-100 * min(low, default=0):.2f} %"
    )


def main() -> None:
    """Traces what is missing, and prints the table."""
    rows = {} if "--again" in sys.argv else read()
    cases = draw()
    for case in cases:
        if case.number not in rows:
            rows[case.number] = trace_row(case)
            write(rows)
            print(f"traced {case}", flush=True)
    errors = {case: error_of(case, rows[case.number]) for case in cases}
    for title, held_out in (("fitted", False), ("held out", True)):
        print(title, summary([e for case, e in errors.items() if case.is_held_out is held_out]))
    for case, error in sorted(errors.items(), key=lambda item: -abs(item[1]))[:12]:
        print(f"{100 * error:+.2f} % {rows[case.number]['peak_phase']} {case}")


if __name__ == "__main__":
    main()
