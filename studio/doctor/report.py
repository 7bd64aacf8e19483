"""What the doctor finds: a line a check."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from studio.messages import Message


class Health(StrEnum):
    """How a check went."""

    OK = "ok"
    NOTE = "note"
    """Works, with something to know."""
    PROBLEM = "problem"
    """Something that the studio can do will fail."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: Message
    health: Health
    finding: Message
    advice: Message | None = None
    """What to do, unless all is well."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`, in English."""
        return {
            "name": str(self.name),
            "health": str(self.health),
            "finding": str(self.finding),
            "advice": str(self.advice) if self.advice else None,
        }


@dataclass(frozen=True)
class DoctorReport:
    """All checks, in the order in which one would ask."""

    checks: tuple[Check, ...]
    figures: dict[str, Any]
    """What programs may want to know: GPUs with their processes, versions, free bytes."""

    @property
    def has_problem(self) -> bool:
        """Whether any check found one."""
        return any(check.health is Health.PROBLEM for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "schema_version": 1,
            "has_problem": self.has_problem,
            "checks": [check.to_json() for check in self.checks],
            **self.figures,
        }
