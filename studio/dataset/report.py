"""The dataset check: what is in the data, which rows are bad and why, before any training starts."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from studio.dataset import text_checks
from studio.dataset.example import Example, Manifest, RowProblem
from studio.dataset.listening import Heard, listen
from studio.dataset.manifest import read_manifest
from studio.errors import AudioError
from studio.files import write_text

SCHEMA_VERSION = 1
MAX_LABEL_TOKENS = 448
"""Positions of Whisper's decoder."""
SILENT_DB = -60.0
CLIPPED_SHARE = 0.001
WARNINGS = frozenset({"clipped", "duplicate", "speaking_rate", "mixed_script", "leakage"})
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
        return {"schema_version": SCHEMA_VERSION, **values, "kinds": self.kinds}


def check_dataset(
    source: str | Path,
    *,
    label_length: Callable[[str], int] | None = None,
    test_source: str | Path | None = None,
    min_audio_len: float = 0.2,
    max_audio_len: float = 30.0,
    quarantine: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    split: str = "train",
    max_rows: int | None = None,
    cache_dir: Path | None = None,
    local_files_only: bool = False,
) -> DatasetReport:
    """Reads a manifest, listens to every clip once, and says what is wrong with which row.

    `label_length` counts the tokens of a text (special tokens included); without it lengths are in characters
    and no label is too long. With `test_source`, clips that are in both are reported. `on_progress` gets
    clips heard and clips in all; after `should_stop` says yes, what was heard so far is reported.
    Unusable rows are written to `quarantine`, one JSON object with its reason a line.

    Raises:
        ManifestError, HubUnreachableError: as `read_manifest`, for either source.
        StorageError: if the quarantine cannot be written.
    """
    options: dict[str, Any] = {
        "max_rows": max_rows,
        "cache_dir": cache_dir,
        "local_files_only": local_files_only,
    }
    manifest = read_manifest(source, split=split, **options)
    test = read_manifest(test_source, split="test", **options) if test_source else None
    check = _Check(min_audio_len, max_audio_len, label_length)
    total = len(manifest.examples) + (len(test.examples) if test else 0)
    is_complete = True
    for done, (example, heard) in enumerate(_hear_all(_all_examples(manifest, test)), start=1):
        if done <= len(manifest.examples):
            check.take(example, heard)
        else:
            check.compare_with_test(example, heard)
        if on_progress:
            on_progress(done, total)
        if should_stop and should_stop():
            is_complete = done == total
            break
    report = check.report(manifest, is_complete=is_complete)
    if quarantine is not None:
        write_quarantine(report, quarantine)
    return report


def write_quarantine(report: DatasetReport, path: Path) -> None:
    """Writes the unusable rows of a report to `path`: line, kind, reason and audio, one JSON object a line.

    Raises:
        StorageError: if it cannot be written.
    """
    bad = [problem.to_json() for problem in report.problems if problem.kind not in WARNINGS]
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in bad))


def _all_examples(manifest: Manifest, test: Manifest | None) -> Iterator[Example]:
    yield from manifest.examples
    if test:
        yield from test.examples


def _hear_all(examples: Iterable[Example]) -> Iterator[tuple[Example, Heard | AudioError]]:
    """Clips in order with what is heard in them; a few are decoded ahead."""
    waiting = iter(examples)
    with ThreadPoolExecutor(_THREADS) as pool:
        ahead: list[tuple[Example, Future[Heard | AudioError]]] = [
            (example, pool.submit(_heard, example)) for example in islice(waiting, _AHEAD)
        ]
        try:
            while ahead:
                example, future = ahead.pop(0)
                yield example, future.result()
                ahead += [(following, pool.submit(_heard, following)) for following in islice(waiting, 1)]
        finally:
            for _, future in ahead:
                future.cancel()


def _heard(example: Example) -> Heard | AudioError:
    try:
        return listen(example)
    except AudioError as error:
        return error


class _Check:
    """Collects what is found, row by row."""

    def __init__(
        self, min_audio_len: float, max_audio_len: float, label_length: Callable[[str], int] | None
    ) -> None:
        self._bounds = (min_audio_len, max_audio_len)
        self._label_length = label_length
        self._rows = 0
        self._good: list[Example] = []
        self._durations: list[float] = []
        self._label_lengths: list[int] = []
        self._problems: list[RowProblem] = []
        self._by_fingerprint: dict[bytes, Example] = {}

    def take(self, example: Example, heard: Heard | AudioError) -> None:
        """Judges one row of the training data."""
        self._rows += 1
        if isinstance(heard, AudioError):
            self._problems.append(RowProblem.from_error(example.line, str(example.audio_path), heard))
            return
        length = (self._label_length or len)(example.text)
        problem = self._unusable(example, heard, length)
        if problem:
            self._problems.append(problem)
            return
        self._good.append(example)
        self._durations.append(heard.duration_seconds)
        self._label_lengths.append(length)
        if heard.clipped_share > CLIPPED_SHARE:
            self._warn(
                example,
                "clipped",
                "The recording is overdriven: {share:.1%} of its samples are at the limit.",
                share=heard.clipped_share,
            )
        first = self._by_fingerprint.setdefault(heard.fingerprint, example)
        if first is not example:
            template = (
                "The clip and its text are the same as in line {line}."
                if first.text == example.text
                else "The clip is the same as in line {line}, but with another text."
            )
            self._warn(example, "duplicate", template, line=first.line)

    def compare_with_test(self, example: Example, heard: Heard | AudioError) -> None:
        """Reports a clip of the test data that is in the training data, too."""
        if isinstance(heard, AudioError):
            return
        first = self._by_fingerprint.get(heard.fingerprint)
        if first is not None:
            self._warn(
                first, "leakage", "The clip is in the test data, too (line {line} there).", line=example.line
            )

    def report(self, manifest: Manifest, *, is_complete: bool) -> DatasetReport:
        """All that was found, with the checks that need all rows at once."""
        rates = text_checks.characters_per_second(self._good, self._durations)
        odd = [*text_checks.odd_rates(self._good, rates), *text_checks.mixed_scripts(self._good)]
        problems = sorted((*manifest.problems, *self._problems, *odd), key=lambda problem: problem.line)
        return DatasetReport(
            source=manifest.source,
            format=manifest.format,
            data_hash=manifest.hash,
            rows=self._rows + len(manifest.problems),
            good_rows=len(self._good),
            hours=sum(self._durations) / 3600,
            problems=tuple(problems),
            durations=_histogram(self._durations),
            label_lengths=_histogram(self._label_lengths),
            label_unit="tokens" if self._label_length else "characters",
            languages=dict(Counter(example.language or "" for example in self._good).most_common()),
            median_characters_per_second=text_checks.median(rates),
            is_complete=is_complete,
        )

    def _unusable(self, example: Example, heard: Heard, length: int) -> RowProblem | None:
        low, high = self._bounds
        seconds = heard.duration_seconds
        if seconds < low:
            return _problem(
                example,
                "too_short",
                "The clip is {seconds:.2f} s long, at least {low:g} s are needed.",
                seconds=seconds,
                low=low,
            )
        if seconds > high:
            return _problem(
                example,
                "too_long",
                "The clip is {seconds:.1f} s long, at most {high:g} s can be used.",
                seconds=seconds,
                high=high,
            )
        if self._label_length and length > MAX_LABEL_TOKENS:
            return _problem(
                example,
                "label_too_long",
                "The text has {length} tokens, the model can take {most}.",
                length=length,
                most=MAX_LABEL_TOKENS,
            )
        if heard.rms_db < SILENT_DB:
            return _problem(example, "silent", "The clip is silent, but it has a text.")
        return None

    def _warn(self, example: Example, kind: str, template: str, /, **values: object) -> None:
        self._problems.append(_problem(example, kind, template, **values))


def _problem(example: Example, kind: str, template: str, /, **values: object) -> RowProblem:
    return RowProblem.of(example.line, str(example.audio_path), kind, template, **values)


def _histogram(values: list[float] | list[int]) -> Histogram:
    """Bins of whole width for whole numbers, so that none is empty only because no number fits in."""
    import numpy as np

    if not values:
        return Histogram()
    bins: int | list[int] = _BINS
    if isinstance(values[0], int):
        low, high = int(min(values)), int(max(values)) + 1
        width = -(-(high - low) // _BINS)
        bins = list(range(low, high + width, width))
    counts, edges = np.histogram(values, bins=bins)
    return Histogram(tuple(round(edge, 3) for edge in edges.tolist()), tuple(counts.tolist()))
