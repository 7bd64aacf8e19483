"""A hundred thousand clips in Evaluate's explorer: how long it takes to stand, and to answer.

`python -m tests.benchmarks.explorer`: two models with made-up texts of eight words a clip; each hears
one in eight wrong. The report goes to `tests/benchmarks/reports/explorer.md`.
"""

import random
import resource
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

from studio.evaluation.explorer import Explorer, Query
from studio.units import MIB
from tests.benchmarks.transcription import machine
from tests.studio_process import ROOT
from tests.unit.evaluation.test_explorer import evaluation

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "explorer.md"
CLIPS, WORDS, VOCABULARY, TIMES = 100_000, 8, 3000, 5


def texts(chance: random.Random) -> tuple[list[str], list[str], list[str]]:
    """What was said, and what two models wrote of it."""
    words = [f"word{number}" for number in range(VOCABULARY)]
    said = [[chance.choice(words) for _ in range(WORDS)] for _ in range(CLIPS)]
    heard = [
        [[chance.choice(words) if chance.random() < 1 / WORDS else word for word in clip] for clip in said]
        for _ in range(2)
    ]
    return tuple([" ".join(clip) for clip in each] for each in (said, *heard))  # type: ignore[return-value]


def milliseconds(question: Callable[[], object]) -> str:
    """The first time, and the median of those after it."""
    taken = []
    for _ in range(1 + TIMES):
        begun = time.perf_counter()
        question()
        taken.append(1000 * (time.perf_counter() - begun))
    return f"{taken[0]:.0f} | {statistics.median(taken[1:]):.0f}"


def main() -> None:
    """Measures and writes the report."""
    said, *heard = texts(random.Random(0))
    made = evaluation(said, *heard)
    begun = time.perf_counter()
    explorer = Explorer(made)
    stands = time.perf_counter() - begun
    ((confusion, _count), *_) = explorer.errors[1].most_frequent("confusion")
    questions: dict[str, Callable[[], object]] = {
        "all clips, the worst first": lambda: explorer.select(Query(model=1)),
        "only where B lost what A had": lambda: explorer.select(Query(model=1, show="lost")),
        "a search": lambda: explorer.select(Query(model=1, search="word77")),
        "the clips of a confusion": lambda: explorer.select(Query(model=1, mistake=confusion)),
        "the words, those first that are most often wrong": explorer.errors[1].words_by_errors,
        "errors by duration": lambda: explorer.groups("duration", 1),
        "cells of the scatter": lambda: explorer.cells(0, 1),
    }
    rows = [f"| {name} | {milliseconds(question)} |" for name, question in questions.items()]
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    lines = [
        f"# {CLIPS:,} clips in the explorer of errors\n",
        f"`python -m tests.benchmarks.explorer`, {datetime.now(UTC):%Y-%m-%d}: two models, texts of {WORDS} "
        f"words. {stands:.1f} s until it stands; the process took at most {most:.0f} MiB, the made-up texts "
        f"included. {told}.\n",
        "| what is asked | the first time, ms | then, ms |",
        "|---|---|---|",
        *rows,
    ]
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
