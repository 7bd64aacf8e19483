"""A run's events, read once: what was read before is kept, and only what was appended is read again."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studio.messages import Message
from studio.runs.kinds import EVENT, fitting
from studio.runs.status import METRICS, EvalPoint
from studio.training.events import RunPhase, read_events
from studio.translation import message_from

log = logging.getLogger(__name__)


@dataclass
class History:
    """The sum of a run's events so far."""

    offset: int = 0
    phase: str = ""
    last_event: float | None = None
    step: int = 0
    max_steps: int = 0
    latest: Mapping[str, Any] = field(default_factory=dict)
    """The newest `step` event."""
    losses: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    """Learning rate by step."""
    evaluations: dict[int, EvalPoint] = field(default_factory=dict)
    phase_began: float = 0.0
    """Seconds since the epoch."""
    eval_progress: tuple[int, int] | None = None
    samples: tuple[Mapping[str, str], ...] = ()
    earlier_samples: dict[int, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """Of each evaluation, by step."""
    data: Mapping[str, Any] | None = None
    metric: str = ""
    learning_rate: float | None = None
    memory: Mapping[str, Any] | None = None
    """The newest `memory` event."""
    warnings: list[Message] = field(default_factory=list)

    def add(self, event: Mapping[str, Any]) -> None:
        """Takes in one event; kinds that are not known (of a newer studio) are passed over."""
        self.last_event = float(event.get("time", 0.0))
        kind = event.get("kind")
        if kind == "phase":
            self.phase = str(event["phase"])
            self.eval_progress, self.phase_began = None, self.last_event
        elif kind == "data":
            self.data = event
        elif kind == "plan":
            self.max_steps = int(event["max_steps"])
            self.metric = event["metric"] if event.get("metric") in METRICS else ""
            self.learning_rate = event.get("learning_rate")
        elif kind == "memory":
            self.memory = {name: event.get(name) for name in ("predicted", "measured")}
        elif kind == "step":
            self._add_step(event)
        elif kind == "eval":
            step = int(event["step"])
            self.evaluations[step] = EvalPoint(
                step, event["epoch"], event["wer"], event["cer"], event["loss"]
            )
        elif kind == "eval_progress":
            self.eval_progress = (int(event["done"]), int(event["total"]))
        elif kind == "samples":
            self.samples = self.earlier_samples[int(event["step"])] = tuple(event["rows"])
        elif kind == "warning":
            self._add_warning(event)
        elif kind == "resumed":
            self._take_back(int(event["step"]))

    def left_seconds(self) -> float | None:
        """How long the run will still take while it trains; else what it is doing, by its own pace."""
        is_on_its_way = self.step < self.max_steps and bool(self.latest)
        if is_on_its_way and self.phase in (RunPhase.TRAINING, RunPhase.EVALUATING):
            return self.latest.get("eta_seconds")
        done, total = self.eval_progress or (0, 0)
        if not done or self.last_event is None:
            return None
        return max(0.0, self.last_event - self.phase_began) / done * (total - done)

    def _add_step(self, event: Mapping[str, Any]) -> None:
        self.latest, self.step, self.max_steps = event, int(event["step"]), int(event["max_steps"])
        if event.get("loss") is not None:
            self.losses[self.step] = float(event["loss"])
        if event.get("learning_rate") is not None:
            self.rates[self.step] = float(event["learning_rate"])

    def _add_warning(self, event: Mapping[str, Any]) -> None:
        sentence = message_from(event.get("template"), event.get("values"), event["text"])
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _take_back(self, step: int) -> None:
        """A resumption goes on after `step`: what was told about later ones happens again."""
        self.step, self.latest = step, {}
        self.losses = {at: loss for at, loss in self.losses.items() if at <= step}
        self.earlier_samples = {at: rows for at, rows in self.earlier_samples.items() if at <= step}
        self.rates = {at: rate for at, rate in self.rates.items() if at <= step}
        self.evaluations = {at: point for at, point in self.evaluations.items() if at <= step}
        self.warnings = []


class Histories:
    """Histories of all runs of a studio. Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, History] = {}

    def read(self, events: Path) -> History:
        """The history up to now; a copy that nobody else changes."""
        with self._lock:
            history = self._known.setdefault(events, History())
            if events.exists() and events.stat().st_size < history.offset:  # another run of that name
                history = self._known[events] = History()
            found, history.offset = read_events(events, history.offset)
            for event in found:
                try:
                    history.add(fitting(event, EVENT))
                except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
                    log.warning("An event in %s is passed over: %s", events, error)
            return History(
                **{
                    **vars(history),
                    "losses": dict(history.losses),
                    "rates": dict(history.rates),
                    "earlier_samples": dict(history.earlier_samples),
                    "evaluations": dict(history.evaluations),
                    "warnings": list(history.warnings),
                }
            )

    def forget(self, events: Path) -> None:
        """A run was deleted."""
        with self._lock:
            self._known.pop(events, None)
