"""Predicted beside measured memory of a run: for its events, its result and its model's card."""

import logging
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from studio.errors import StudioError
from studio.memory.gpus import present_architecture
from studio.memory.measure import MeasuredPeak, PeakMeter
from studio.memory.overhead import on_card
from studio.memory.plan import MemoryEstimate
from studio.memory.training import estimate_training
from studio.options.training import TrainingConfig
from studio.registry.spec import ModelDimensions
from studio.training.data.clips import TrainingData
from studio.training.events import EventLog
from studio.training.plan import training_plan

_NEWS = 1.01
"""A peak that is higher by this factor than the one told before is worth an event."""
log = logging.getLogger("studio.training")


class MemoryWatch:
    """Compares what a run takes with what was predicted for it."""

    def __init__(self, events: EventLog) -> None:
        """Measures from now on: to be made before the model is loaded."""
        self._events = events
        self._meter = PeakMeter()
        self._predicted: dict[str, Any] | None = None
        self._told = 0

    def predict(
        self,
        config: TrainingConfig,
        precision: str,
        config_json: Any,
        data: TrainingData,
        audio_positions: int | None = None,
    ) -> None:
        """Predicts for what the worker is about to do: its precision, its longest label and clip."""
        longest = longest_label(data)
        try:
            plan = training_plan(replace(config, precision=precision), self._has_gpu, audio_positions)
            dimensions = ModelDimensions.from_config(config_json)
            estimate = estimate_training(replace(plan, label_length=longest), dimensions)
            estimate = on_card(estimate, present_architecture())
        except StudioError as error:  # a prediction that cannot be made is no reason not to train
            log.info("No prediction of memory: %s", error)
        else:
            self._predicted = predicted(estimate, label_length=longest, has_gpu=self._has_gpu)
        self._write(self._meter.read())

    def look(self) -> None:
        """Writes an event if the peak has risen."""
        measured = self._meter.read()
        if measured.figure > _NEWS * self._told:
            self._write(measured)

    def to_json(self) -> dict[str, Any]:
        """For the result and the card."""
        return {"predicted": self._predicted, "measured": asdict(self._meter.read())}

    @property
    def _has_gpu(self) -> bool:
        return self._meter.is_cuda

    def _write(self, measured: MeasuredPeak) -> None:
        self._told = measured.figure
        self._events.write("memory", predicted=self._predicted, measured=asdict(measured))


def longest_label(data: TrainingData) -> int:
    """Tokens of the longest label that the run may meet."""
    clips = chain(data.train, data.evaluation)
    return max(max(len(clip.labels), len(clip.timed_labels)) for clip in clips)


def predicted(estimate: MemoryEstimate, *, label_length: int, has_gpu: bool) -> dict[str, Any]:
    """The measurable figures of an estimate; without a GPU, its tensors alone."""
    row: dict[str, Any] = {
        "label_length": label_length,
        "peak_phase": str(estimate.peak_phase),
        "tensor_bytes": max(estimate.phases.values()),
    }
    if has_gpu:
        names = ("allocated_bytes", "reserved_bytes", "device_bytes", "low_bytes", "high_bytes")
        row |= {name: getattr(estimate, name) for name in names}
    return row
