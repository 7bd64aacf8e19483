"""What an evaluation answers: models, the differences between them, and what each wrote clip by clip."""

from dataclasses import asdict, dataclass, field
from typing import Any

from studio.messages import Message

SCHEMA_VERSION = 1


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


@dataclass(frozen=True)
class ComparisonRow:
    """Model b against model a (the first one): `difference` is b minus a, below zero b is better."""

    a: str
    b: str
    metric: str
    difference: float
    ci_low: float
    ci_high: float
    significant: bool


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


@dataclass(frozen=True)
class ProblemRow:
    """A clip that was left out, for all models."""

    line: int
    audio_path: str
    reason: Message


@dataclass(frozen=True)
class Evaluation:
    """What came out; clip by clip, and for each clip the models in their order."""

    source: str
    models: tuple[ModelRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    utterances: tuple[UtteranceRow, ...]
    problems: tuple[ProblemRow, ...] = ()
    reference_scripts: dict[str, int] = field(default_factory=dict)
    """The same of what was said."""

    def to_json(self) -> dict[str, Any]:
        """The answer of `evaluate --json`."""
        problems = [{**asdict(row), "reason": str(row.reason)} for row in self.problems]
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "problems": problems}
