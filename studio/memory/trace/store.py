"""Traces on demand: made in a process of their own, kept on disk, the same answer for the same question."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from studio.errors import RunError, in_brief
from studio.files import read_json, write_json
from studio.memory.plan import TrainingPlan
from studio.memory.trace.result import TRACE_VERSION, Trace
from studio.messages import Message
from studio.registry.spec import ModelDimensions
from studio.room import SMALL, Room
from studio.settings import PROJECT_ROOT, Settings

LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes", "accelerate")
"""Whose code a trace runs: another version may give another answer."""
_PATIENCE_SECONDS = 300.0


def traced(plan: TrainingPlan, dimensions: ModelDimensions, settings: Settings) -> Trace:
    """The trace of a plan's training step; made if the studio's cache does not have it.

    Raises:
        RunError: if the step cannot be traced.
        StorageError: if the folder cannot be written.
    """
    question = _question(plan, dimensions)
    key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    path = settings.cache / "traces" / f"{key[:32]}.json"
    known = _read(path)
    if known is not None:
        return known
    row = _ask_worker(question, settings)
    trace = Trace.from_json(row)
    Room.of(settings, SMALL).take(path.parent.glob("*.json"))
    write_json(path, row)
    return trace


def library_versions() -> dict[str, str]:
    """Versions of the libraries whose code a trace runs; empty for one that is not installed."""
    return {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _question(plan: TrainingPlan, dimensions: ModelDimensions) -> dict[str, Any]:
    return {
        "plan": dataclasses.asdict(plan),
        "dimensions": dataclasses.asdict(dimensions),
        "versions": library_versions(),
        "schema_version": TRACE_VERSION,
    }


def _read(path: Path) -> Trace | None:
    """A trace of this version that was kept; anything else is as good as nothing."""
    try:
        return Trace.from_json(read_json(path))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask_worker(question: dict[str, Any], settings: Settings) -> dict[str, Any]:
    command = [sys.executable, "-m", "studio.memory.trace.worker"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        with settings.popen(command, cwd=PROJECT_ROOT, encoding="utf-8", **pipes) as worker:
            try:
                answer, _said = worker.communicate(json.dumps(question), _PATIENCE_SECONDS)
            finally:
                worker.kill()
        row = json.loads(answer)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RunError("The memory trace did not end ({reason}).", reason=in_brief(error)) from error
    if not isinstance(row, dict) or "error" in row:
        raise RunError(
            "This training step cannot be traced ({reason}): change the plan, or take the estimate.",
            reason=row["error"] if isinstance(row, dict) else Message("no answer"),
        )
    return row
