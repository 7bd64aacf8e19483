"""What a worker tells about its run: one JSON object a line, only ever appended, read from an offset.

Kinds and their fields beside `v`, `kind` and `time` (seconds since the epoch):

| kind | fields |
|---|---|
| `phase` | `phase`: one of `Phase` |
| `data` | `train_samples`, `eval_samples`, `train_hours`, `eval_source`, `languages`, |
| | `detected_language`, `skipped_count`, `skipped` (at most 20 of `{line, reason}`) |
| `plan` | `max_steps`, `trainable_parameters`, `all_parameters`, `device`, `precision`, |
| | `metric` (`wer` or `cer`), `learning_rate` (the peak) |
| `step` | `step`, `max_steps`, `epoch`, `loss`, `learning_rate`, `grad_norm`, |
| | `samples_per_second`, `eta_seconds`, `memory_bytes`; loss, learning rate and |
| | gradient norm are null in the steps between two points of the curve |
| `eval` | `step`, `epoch`, `wer`, `cer`, `loss`, `seconds`; step 0 is the base model |
| `eval_progress` | `done`, `total` |
| `samples` | `step`, `rows`: a few of `{reference, hypothesis}` |
| `checkpoint` | `step` |
| `warning` | `text` |
| `resumed` | `step`; what was told about later steps is taken back |
"""

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from studio.files import append_json_line, read_json_lines

VERSION = 1


class Phase(StrEnum):
    """What the worker is doing."""

    STARTING = "starting"
    LOADING_MODEL = "loading_model"
    READING_DATA = "reading_data"
    EVALUATING = "evaluating"
    TRAINING = "training"
    SAVING = "saving"


class EventLog:
    """Writer's side."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, kind: str, **fields: Any) -> None:
        """Appends one event."""
        append_json_line(self._path, {"v": VERSION, "kind": kind, "time": time.time(), **fields})


def read_events(path: Path, offset: int = 0) -> tuple[list[Mapping[str, Any]], int]:
    """Complete events from byte `offset` on, and the offset to continue from."""
    rows, offset = read_json_lines(path, offset)
    return list(rows), offset
