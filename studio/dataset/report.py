"""The dataset check: what is in the data, which rows are bad and why, before any training starts."""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from studio.dataset import text_checks
from studio.dataset.example import Example, Manifest, RowProblem, in_order
from studio.dataset.listening import ClipLevels
from studio.dataset.row_checks import RowChecks
from studio.dataset.sequences import Chosen
from studio.dataset.shared import Shared, shared_clips
from studio.dataset.usable import hear
from studio.files import write_text
from studio.watching import ShouldStop, never, untold

SCHEMA_VERSION = 1
WARNINGS = frozenset(
    {
        "incomplete",
        "clipped",
        "duplicate",
        "speaking_rate",
        "mixed_script",
        "mixed_punctuation",
        "capitals",
        "tags",
        "other_script",
        "leakage",
        "suspicious_label",
        "other_language",
    }
)
"""Kinds of problem that call for a look but do not make a row unusable; all other kinds do."""

_THREADS = 2
"""Decoding releases the interpreter's lock."""
_AHEAD = 16
_BINS = 20


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, ready to be drawn."""

    edges: tuple[float, ...] = ()
    """One more than there are counts."""
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class DatasetReport:
    """What the check found."""

    source: str
    format: str
    data_hash: str
    rows: int
    """All rows of the manifest that were looked at."""
    good_rows: int
    """Those without a problem that makes them unusable."""
    hours: float
    """Length of the good rows."""
    problems: tuple[RowProblem, ...]
    """By line; see `WARNINGS` for the kinds that do not make a row unusable."""
    durations: Histogram
    """Of the good rows, in seconds."""
    label_lengths: Histogram
    """Of the good rows: tokens if a tokenizer counted them, characters otherwise."""
    label_unit: str
    """`tokens` or `characters`."""
    languages: dict[str, int] = field(default_factory=dict)
    """Good rows by language, as the manifest names it; the empty string for rows that name none."""
    median_characters_per_second: float = 0.0
    uncounted: int = 0
    """Good rows whose labels may have more tokens than a model takes; without a tokenizer nobody knows."""
    shared: Shared | None = None
    """Clips of the test data that are in the training data, too; None if there are no test data."""
    is_complete: bool = True
    """False if the check was stopped before all rows were heard."""

    @property
    def kinds(self) -> dict[str, int]:
        """Problems by kind, most frequent first."""
        return dict(Counter(problem.kind for problem in self.problems).most_common())

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        values = asdict(self)
        values["problems"] = [problem.to_json() for problem in self.problems]
        if self.shared is not None:
            counts = {"count": self.shared.count, "total": self.shared.total}
            values["shared"] = {**counts, "names": list(self.shared.names)}
        return {"schema_version": SCHEMA_VERSION, **values, "kinds": self.kinds}


def check_dataset(
    manifest: Manifest,
    test: Manifest | None = None,
    *,
    label_length: Callable[[Example], int] = lambda example: len(example.text),
    counts_tokens: bool = False,
    min_audio_len: float = 0.2,
    max_audio_len: float = 30.0,
    on_progress: Callable[[int, int], None] = untold,
    should_stop: ShouldStop = never,
) -> DatasetReport:
    """Listens to every clip once, and says what is wrong with which row.

    `label_length` tells how long the label of a row is, or raises ConfigError if the row cannot be taught. It
    `counts_tokens` (special ones included), or characters as without it; then no label is too long. Clips
    that are in `test`, too, are reported. `on_progress` gets clips heard and clips in all; after
    `should_stop` says yes, what was heard so far is reported.
    """
    bounds = min_audio_len, max_audio_len
    checks = RowChecks(manifest.examples, *bounds, label_length, counts_tokens=counts_tokens)
    is_complete = _listen(checks, manifest, test, on_progress, should_stop)
    shared = shared_clips(manifest.examples, test.examples) if test else None
    return replace(_report(checks, manifest, is_complete=is_complete), shared=shared)


def _listen(
    checks: RowChecks,
    manifest: Manifest,
    test: Manifest | None,
    on_progress: Callable[[int, int], None],
    should_stop: ShouldStop,
) -> bool:
    """Goes through all clips; False if it was stopped before the last."""
    total = len(manifest.examples) + (len(test.examples) if test else 0)
    for done, (example, heard) in enumerate(_hear_all(_all_examples(manifest, test)), start=1):
        if done <= len(manifest.examples):
            checks.take(example, heard)
        else:
            checks.compare_with_test(example, heard)
        on_progress(done, total)
        if should_stop():
            return done == total
    return True


def _report(checks: RowChecks, manifest: Manifest, *, is_complete: bool) -> DatasetReport:
    """All that was found, with the checks that need all rows at once."""
    good = Chosen(manifest.examples, checks.good)
    spoken = Chosen(manifest.examples, checks.spoken)
    rates = text_checks.characters_per_second(spoken, checks.spoken_seconds)
    texts = chain(
        text_checks.odd_rates(spoken, rates),
        text_checks.mixed_scripts(spoken),
        text_checks.mixed_punctuation(spoken),
        text_checks.capitals(spoken),
        text_checks.tags(spoken),
        text_checks.other_scripts(spoken),
    )
    return DatasetReport(
        source=manifest.source,
        format=manifest.format,
        data_hash=manifest.hash,
        rows=checks.rows + len(manifest.problems),
        good_rows=len(good),
        hours=sum(checks.durations) / 3600,
        problems=in_order((*manifest.problems, *checks.problems, *texts)),
        durations=_histogram(checks.durations),
        label_lengths=_histogram(checks.label_lengths),
        label_unit="tokens" if checks.counts_tokens else "characters",
        languages=dict(Counter(example.language or "" for example in good).most_common()),
        median_characters_per_second=text_checks.median(rates),
        uncounted=checks.uncounted,
        is_complete=is_complete,
    )


def write_quarantine(problems: Iterable[RowProblem], path: Path) -> None:
    """Writes the unusable rows among them to `path`: line, kind, reason and audio, one JSON object a line.

    Raises:
        StorageError: if it cannot be written.
    """
    bad = [problem.to_json() for problem in problems if problem.kind not in WARNINGS]
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bad))


def _all_examples(manifest: Manifest, test: Manifest | None) -> Iterator[Example]:
    yield from manifest.examples
    if test:
        yield from test.examples


def _hear_all(examples: Iterable[Example]) -> Iterator[tuple[Example, ClipLevels | RowProblem]]:
    """Clips in order with what is heard in them; a few are decoded ahead."""
    waiting = iter(examples)
    with ThreadPoolExecutor(_THREADS) as pool:
        ahead: list[tuple[Example, Future[ClipLevels | RowProblem]]] = [
            (example, pool.submit(hear, example)) for example in islice(waiting, _AHEAD)
        ]
        try:
            while ahead:
                example, future = ahead.pop(0)
                yield example, future.result()
                ahead += [(following, pool.submit(hear, following)) for following in islice(waiting, 1)]
        finally:
            for _, future in ahead:
                future.cancel()


def _histogram(values: "array[float] | array[int]") -> Histogram:
    """Bins of whole width for whole numbers, so that none is empty only because no number fits in."""
    import numpy as np

    if not len(values):
        return Histogram()
    bins: int | list[int] = _BINS
    if isinstance(values[0], int):
        low, high = int(min(values)), int(max(values)) + 1
        width = -(-(high - low) // _BINS)
        bins = list(range(low, high + width, width))
    counts, edges = np.histogram(values, bins=bins)
    return Histogram(tuple(round(edge, 3) for edge in edges.tolist()), tuple(counts.tolist()))
