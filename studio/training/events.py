"""What a worker tells about its run: one JSON object a line, only ever appended, read from an offset.

Kinds and their fields beside `v`, `kind` and `time` (seconds since the epoch):

| kind | fields |
|---|---|
| `phase` | `phase`: one of `RunPhase` |
| `data` | `train_samples`, `eval_samples`, `train_hours`, `eval_source`, `data_hash`, `languages`, |
| | `detected_language`, `made_times`, `skipped_count`, `skipped` (at most 20 of `{line, source, reason}`, |
| | with `template` and `values`) |
| `plan` | `max_steps`, `num_processes`, `trainable_parameters`, `all_parameters`, `device`, `precision`, |
| | `metric` (`wer` or `cer`), `learning_rate` (the peak) |
| `step` | `step`, `max_steps`, `epoch`, `loss`, `learning_rate`, `grad_norm`, |
| | `samples_per_second`, `data_wait_share`, `eta_seconds`, `memory_bytes`, `speedup` (against padding |
| | every batch, measured on those that are; null if none was or is); loss, learning rate and |
| | gradient norm are null in the steps between two points of the curve |
| `memory` | `predicted`: bytes of the estimate, or null; `measured`: see |
| | `studio.memory.measure.MeasuredPeak`; written again when the peak has risen |
| `eval` | `step`, `epoch`, `wer`, `cer`, `loss`, `intervals` (of both rates, 95 %), `seconds`; step 0 is |
| | the base model; of Chinese `cer_in_one_script`, too: without errors that are the other script |
| `eval_progress` | `done`, `total`: clips that are evaluated or read by the base; hundredths of a check |
| `samples` | `step`, `rows`: a few of `{reference, hypothesis}` |
| `checkpoint` | `step` |
| `spent` | `training_seconds`, `evaluating_seconds`: of all attempts so far |
| `warning` | `text`; `template` and `values`, to say it in another language |
| `machine` | `device`, `cpu_capability`, `threads`, `versions`: what the numbers depend on |
| `out_of_memory` | `phase`, `step`, `asked_bytes`, `free_bytes` (null if not known), `text` |
| `resumed` | `step`; what was told about later steps is taken back |
"""

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from studio.files import append_json_line, read_json_lines
from studio.messages import Message, message_to_plain

VERSION = 1


class RunPhase(StrEnum):
    """What the worker is doing."""

    STARTING = "starting"
    LOADING_MODEL = "loading_model"
    READING_DATA = "reading_data"
    LISTENING = "listening"
    EVALUATING = "evaluating"
    TRAINING = "training"
    SAVING = "saving"
    CHECKING = "checking"
    TIMING = "timing"
    """What short windows gain and cost."""


class EventLog:
    """Writer's side."""

    def __init__(self, path: Path | None) -> None:
        """Without a path nothing is written: of several processes on a machine, one keeps the record."""
        self._path = path

    def write(self, kind: str, **fields: Any) -> None:
        """Appends one event."""
        if self._path is None:
            return
        append_json_line(self._path, {"v": VERSION, "kind": kind, "time": time.time(), **fields})

    def warn(self, sentence: Message) -> None:
        """Appends a `warning`."""
        self.write("warning", **message_to_plain(sentence))


def read_events(path: Path, offset: int = 0) -> tuple[list[Mapping[str, Any]], int]:
    """Complete events from byte `offset` on, and the offset to continue from."""
    rows, offset = read_json_lines(path, offset)
    return list(rows), offset
