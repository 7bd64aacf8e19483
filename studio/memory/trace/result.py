"""What a trace tells: frozen values that travel as JSON. No torch here."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from studio.memory.plan import Part, Phase
from studio.memory.trace.ledger import PARTS, Sample

TRACE_VERSION = 2
"""Raised whenever the tracer would give another answer: older traces are made again."""


@dataclass(frozen=True)
class Trace:
    """One training step, byte by byte. Sizes are of live tensors, each rounded to 512 bytes."""

    peak_bytes: int
    """The most bytes alive at once: `torch.cuda.max_memory_allocated` without cuBLAS's workspace."""
    peak_phase: Phase
    parts: Mapping[Part, int]
    """At the peak; they add up to `peak_bytes`."""
    phases: Mapping[Phase, int]
    """Highest total of each phase."""
    timeline: tuple[Sample, ...]
    """The step in a few hundred moments: forward, backward, optimizer step, and a batch of the evaluation."""
    reserved_bytes: int
    """What the caching allocator takes on a device with room, by simulation: `max_memory_reserved`."""
    needed_bytes: int
    """What it takes on a device that is just large enough, where it gives back every empty segment."""
    slack_bytes: int
    """What of that no tensor ever needed at once: rounding, rests of segments, fragments."""
    trainable_parameters: int
    all_parameters: int
    operations: int
    """Operators that the step ran."""

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return {
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "schema_version": TRACE_VERSION,
            "parts": {str(part): size for part, size in self.parts.items()},
            "phases": {str(phase): size for phase, size in self.phases.items()},
            "timeline": [[str(sample.phase), *sample.sizes] for sample in self.timeline],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Trace":
        """A trace as `to_json` wrote it; raises KeyError, ValueError or TypeError for anything else."""
        values = {f.name: row[f.name] for f in dataclasses.fields(cls)}
        values["peak_phase"] = Phase(row["peak_phase"])
        values["parts"] = {Part(part): int(size) for part, size in row["parts"].items()}
        values["phases"] = {Phase(phase): int(size) for phase, size in row["phases"].items()}
        values["timeline"] = tuple(
            Sample(Phase(phase), tuple(int(size) for size in sizes)) for phase, *sizes in row["timeline"]
        )
        if any(len(sample.sizes) != len(PARTS) for sample in values["timeline"]):
            raise ValueError("a sample of the timeline has another number of parts")
        return cls(**values)
