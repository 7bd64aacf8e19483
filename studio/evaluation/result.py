"""What an evaluation answers: models, the differences between them, and what each wrote clip by clip."""

import csv
import io
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from studio.dataset.delimited import for_spreadsheets
from studio.dataset.example import FEWEST_CLIPS, RowProblem, place_of
from studio.dataset.written import written_in
from studio.errors import DataError
from studio.evaluation.metrics import Comparison, metric_for
from studio.evaluation.scripts import counts_script
from studio.files import read_json
from studio.messages import Message, message_to_plain
from studio.translation import message_from

SCHEMA_VERSION = 1
_MOST = 2**53
"""Counts and line numbers end long before; larger ones are no floats."""
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class NonSpeech:
    """What a model writes where nobody speaks (see `studio.evaluation.non_speech`)."""

    words_per_hour: float
    loop_rate: float
    """Share of the texts that repeat themselves without end."""
    seconds: float
    """Of sound."""


@dataclass(frozen=True)
class ModelRow:
    """A model's error rates over all clips."""

    id: str
    wer: float
    cer: float
    mer: float
    normalizer: str
    n: int
    """Clips."""
    real_time_factor: float
    """Seconds of computing a second of sound, without reading files."""
    scripts: dict[str, int]
    """Of Chinese: clips written mostly in `simplified` and in `traditional` characters."""
    non_speech: NonSpeech | None = None
    """What it writes where nobody speaks; None if nobody asked."""


@dataclass(frozen=True)
class ComparisonRow(Comparison):
    """Model b against model a, the first one."""

    a: str
    b: str


@dataclass(frozen=True)
class NormalizerRow:
    """A model's error rates after one of the text normalisations."""

    normalizer: str
    model: str
    wer: float
    cer: float
    better: int
    """Clips in which it gets more characters right than the first model."""
    worse: int


@dataclass(frozen=True)
class UtteranceRow:
    """What one model wrote for one clip."""

    model: str
    audio_path: str
    line: int
    """Of the manifest."""
    start_seconds: float | None
    end_seconds: float | None
    duration_seconds: float
    reference: str
    hypothesis: str
    wer: float
    cer: float
    speaker: str | None = None
    """As the list has it."""
    language: str | None = None
    """The same."""
    loudness_db: float = 0.0
    """Below full scale; -100 for digital silence."""
    average_logprob: float | None = None
    """How sure the model was: mean natural logarithm of its tokens' probabilities, the end token included;
    None where nobody knows, as of clips over 30 s."""
    source: str = ""
    """The list, where there are several."""

    @property
    def place(self) -> Message:
        """Its line; where there are several lists, with the name of its own."""
        return place_of(self.line, self.source)

    @property
    def confidence(self) -> float | None:
        """The same as a probability: the geometric mean of the tokens'."""
        return None if self.average_logprob is None else math.exp(min(0.0, self.average_logprob))


@dataclass(frozen=True)
class Evaluation:
    """What came out; clip by clip, and for each clip the models in their order."""

    source: str
    models: tuple[ModelRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    utterances: tuple[UtteranceRow, ...]
    problems: tuple[RowProblem, ...] = ()
    """Rows that were left out, for all models."""
    reference_scripts: dict[str, int] = field(default_factory=dict)
    """The same of what was said."""
    normalizers: tuple[NormalizerRow, ...] = ()
    """All text normalisations beside each other; of each, the models in their order."""
    heard_before: int = 0
    """Texts that were taken from an earlier evaluation of the same clips, over all models."""
    task: str = "transcribe"
    """`transcribe`, or `translate`: into English."""

    @property
    def metric(self) -> str:
        """`wer` or `cer`: which one counts for the first clip, as the list has it, or as the texts tell."""
        rows = self.utterances[:: max(1, len(self.models))]
        spoken = (rows[0].language or "") if rows else ""
        return metric_for(written_in(spoken, self.task), [row.reference for row in rows])

    @property
    def taken_up(self) -> Message | None:
        """What a person is told of texts that were not heard anew."""
        if not self.heard_before:
            return None
        return Message(
            "Texts taken from an earlier evaluation of the same clips: {count}.", count=self.heard_before
        )

    def to_json(self) -> dict[str, Any]:
        """The answer of `evaluate --json`."""
        return {**self.figures(), "utterances": [dict(vars(row)) for row in self.utterances]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Evaluation":
        """What `to_json` has written.

        Raises:
            KeyError, TypeError, ValueError: if something is missing, or of another kind.
        """
        models = _rows(
            ModelRow,
            (
                {
                    **row,
                    "scripts": _counts(row["scripts"]),
                    "non_speech": _rows(NonSpeech, [row["non_speech"]])[0] if row["non_speech"] else None,
                }
                for row in found["models"]
            ),
        )
        utterances = _rows(UtteranceRow, found["utterances"])
        if [row.model for row in utterances] != [row.id for row in models] * (
            len(utterances) // max(1, len(models))
        ):
            raise ValueError("not every model has every clip")
        return cls(
            str(found["source"]),
            models,
            _rows(ComparisonRow, found["comparisons"]),
            utterances,
            _rows(RowProblem, map(_problem_of, found["problems"])),
            _counts(found["reference_scripts"]),
            _rows(NormalizerRow, found["normalizers"]),
            operator.index(found.get("heard_before", 0)),
            str(found.get("task", "transcribe")),
        )

    def figures(self) -> dict[str, Any]:
        """The same without what is said of each clip."""
        problems = []
        for row in self.problems:
            told = message_to_plain(row.reason)
            reason = told.pop("text")
            where = {"line": row.line, "audio_path": row.audio_path, **row.named}
            problems.append({**where, "reason": reason, **told})
        found = asdict(replace(self, utterances=(), problems=()))
        return {"schema_version": SCHEMA_VERSION, **found, "problems": problems}

    def to_csv(self) -> str:
        """A row a clip and model, under the names of `UtteranceRow`."""
        written = io.StringIO()
        names = [one.name for one in fields(UtteranceRow)]
        table = csv.DictWriter(written, names, lineterminator="\n")
        table.writeheader()
        for row in self.utterances:
            table.writerow({name: for_spreadsheets(value) for name, value in vars(row).items()})
        return written.getvalue().replace("\0", "")  # at which readers of tables give up


def counted_first(comparisons: Sequence[Mapping[str, Any]], metric: str) -> list[Mapping[str, Any]]:
    """Comparisons, as JSON, pair by pair, of each the one first that is by the `metric` that counts."""
    pairs = list(dict.fromkeys((row["a"], row["b"]) for row in comparisons))
    return sorted(comparisons, key=lambda row: (pairs.index((row["a"], row["b"])), row["metric"] != metric))


def worth_of(comparison: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What a comparison of an evaluation, as JSON, tells: `few` clips, `chance`, or a difference that is
    `real`, or would be if characters of another `script` were none.
    """
    if max((row["n"] for row in found["models"]), default=0) < FEWEST_CLIPS:
        return "few"
    if not comparison["significant"]:
        return "chance"
    pair = [row for row in found["models"] if row.get("id") in (comparison["a"], comparison["b"])]
    return "script" if counts_script({**found, "models": pair}) else "real"


def read_evaluation(path: Path) -> Evaluation:
    """One that was written as JSON.

    Raises:
        DataError: if it is none, or not there.
    """
    if not path.exists():
        raise DataError("There is no file {path}.", path=path)
    try:
        return Evaluation.from_json(read_json(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "{path} is no evaluation: name the .json that --output_file or the Evaluate tab has written.",
            path=path,
        ) from error


def _rows(row_type: type[_Row], found: Iterable[Mapping[str, Any]]) -> tuple[_Row, ...]:
    """The rows of a table.

    Raises:
        TypeError: if a value is missing, or of another kind.
    """
    kinds = {name: _accepted(kind) for name, kind in get_type_hints(row_type).items()}
    rows = tuple(row_type(**row) for row in found)
    for row in rows:
        for name, value in vars(row).items():
            if not isinstance(value, kinds[name]) or (isinstance(value, int) and abs(value) > _MOST):
                raise TypeError("a value is of another kind")
    return rows


def _problem_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that was left out, with its reason as it can be said in any language, if it is one of ours."""
    reason = message_from(row.get("template"), row.get("values"), row["reason"])
    rest = {name: value for name, value in row.items() if name not in ("template", "values")}
    return {**rest, "reason": reason}


def _accepted(kind: Any) -> Any:
    """What a field may be: a whole number is a float, too, and what is in a dict is not looked at."""
    kind = dict if get_origin(kind) is dict else kind
    return kind | int if isinstance(0.0, kind) else kind


def _counts(found: Any) -> dict[str, int]:
    """Clips in each script."""
    counts: dict[str, int] = {str(name): operator.index(count) for name, count in found.items()}
    if any(count > _MOST for count in counts.values()):
        raise ValueError("a count is too large")
    return counts
