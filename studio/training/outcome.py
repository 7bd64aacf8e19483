"""What came of an attempt, and the record of it."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from studio.errors import StudioError

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
    started: float = field(default_factory=time.time)

    def to_json(self, machine: dict[str, Any]) -> dict[str, Any]:
        """`result.json`; `machine` says what it ran on."""
        now = time.time()
        error = self.error
        return {
            "schema_version": RESULT_VERSION,
            "state": self.state,
            "error": str(error) if error else "",
            "error_template": error.template if error else "",
            "error_values": {name: str(value) for name, value in error.values.items()} if error else {},
            "model_id": self.model_id,
            "step": self.step,
            "max_steps": self.max_steps,
            "metrics": self.metrics,
            "seconds": {**self.seconds, "total": now - self.started},
            "started": _iso(self.started),
            "ended": _iso(now),
            "versions": versions(),
            **machine,
        }


def versions() -> dict[str, str]:
    """Of the libraries that decide what comes out."""
    return {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
