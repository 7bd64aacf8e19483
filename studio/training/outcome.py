"""What came of an attempt, and the record of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from studio.errors import StudioError
from studio.messages import Message, to_plain
from studio.units import format_percent

RESULT_VERSION = 1


@dataclass
class Outcome:
    """What goes into `result.json`; filled as the attempt goes on."""

    state: str = "failed"
    error: StudioError | None = None
    model_id: str | None = None
    step: int = 0
    max_steps: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    memory: Callable[[], dict[str, Any] | None] = lambda: None
    """Predicted and measured memory, once there is something to measure."""
    capabilities: dict[str, Any] | None = None
    """What the model can still do that the base could, once it was checked."""
    short_audio: dict[str, Any] | None = None
    """What short windows gain and cost it, once that was measured."""
    started: float = field(default_factory=time.time)
    begun: float = field(default_factory=time.monotonic)
    """On a clock that nobody sets: durations are measured by it."""

    def note_progress(
        self, step: int, best_step: int, metric: str, found: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """How far training came. `found` are the evaluations by their step; that of step 0 is the base's."""
        self.step = step
        final = found.get(best_step) if best_step else None
        self.metrics = {"metric": metric, "best_step": best_step, "base": found.get(0), "final": final}

    def to_json(self, machine: dict[str, Any]) -> dict[str, Any]:
        """`result.json`; `machine` says what it ran on."""
        now = time.time()
        return {
            "schema_version": RESULT_VERSION,
            "state": self.state,
            **error_to_plain(self.error),
            "model_id": self.model_id,
            "step": self.step,
            "max_steps": self.max_steps,
            "metrics": self.metrics,
            "memory": self.memory(),
            "capabilities": self.capabilities,
            "short_audio": self.short_audio,
            "seconds": {**self.seconds, "total": time.monotonic() - self.begun},
            "started": _iso(self.started),
            "ended": _iso(now),
            **machine,
        }


def error_to_plain(error: Message | None) -> dict[str, Any]:
    """What `result.json` has of an error: its text, and what tells it in another language."""
    return {
        "error": str(error or ""),
        "error_template": error.template if error else "",
        "error_values": to_plain(error.values) if error else {},
    }


def no_better(metrics: Mapping[str, Any]) -> Message | None:
    """Says so if the finished model errs as much as its base, by a run's `metrics`; else None."""
    base, final = metrics.get("base"), metrics.get("final")
    if not base or not final:
        return None
    metric = "cer" if metrics.get("metric") == "cer" else "wer"
    if not final[metric] >= base[metric]:  # what is no number is no more either
        return None
    return Message(
        "No better than the base on the evaluation clips: {metric} {before} before, {after} after.",
        metric=metric.upper(),
        before=format_percent(base[metric]),
        after=format_percent(final[metric]),
    )


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
