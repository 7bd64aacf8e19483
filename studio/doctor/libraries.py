"""Whether GPU, audio, torch and bitsandbytes work here: tried in a process of their own (`trying`)."""

import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from studio.doctor.gpu import GpuProcess, GpuState
from studio.doctor.trying import TORCH
from studio.settings import PROJECT_ROOT

PATIENCE_SECONDS = 90.0
SHOWN = ("torch", "transformers", "peft", "bitsandbytes", "ctranslate2", "faster-whisper", "gradio")


@dataclass(frozen=True)
class LibraryState:
    """What the process of its own has found."""

    stuck_at: str = ""
    """What it was trying when it hung or was ended (a name of `trying`); empty if it came to its end."""
    exit_code: int | None = None
    """How it ended where it was stuck; None if it hung."""
    gpus: tuple[GpuState, ...] = ()
    audio: str = ""
    """`ok`, empty if it was not tried, or what it said; as `bitsandbytes`."""
    sees_gpu: bool = False
    torch_cuda: str = ""
    """The CUDA that torch was built for; empty for a build without."""
    has_bf16: bool = False
    bitsandbytes: str = ""
    problem: str = ""
    """What torch said; empty if nothing."""


def try_libraries(
    patience_seconds: float = PATIENCE_SECONDS, module: Sequence[str] = ("-m", "studio.doctor.trying")
) -> LibraryState:
    """Starts the process and waits, but not for ever; what it found before it hung or died is kept."""
    with tempfile.TemporaryFile() as output:
        code = _run([sys.executable, *module], output, patience_seconds)
        output.seek(0)
        rows = [row for line in output.read().splitlines() if isinstance(row := _json(line), dict)]
    return _state(rows, code)


def _run(command: Sequence[str], output: IO[bytes], patience_seconds: float) -> int | None:
    """The exit code; None if it hung. Its output goes to a file: a grandchild could keep a pipe open."""
    try:
        return subprocess.run(
            command,
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            timeout=patience_seconds,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _state(rows: Sequence[dict[str, Any]], code: int | None) -> LibraryState:
    found: dict[str, Any] = {}
    stuck_at = TORCH
    for row in rows:
        stuck_at = str(row.pop("trying", stuck_at))
        found |= row
    found["gpus"] = tuple(_gpu(row) for row in found.get("gpus", ()))
    known = {name: value for name, value in found.items() if name in LibraryState.__dataclass_fields__}
    return LibraryState(stuck_at=stuck_at, exit_code=code if stuck_at else None, **known)


def _gpu(row: dict[str, Any]) -> GpuState:
    return GpuState(**{**row, "processes": tuple(GpuProcess(**each) for each in row["processes"])})


def installed_versions() -> dict[str, str]:
    """Library → version; empty where it is missing."""
    versions = {}
    for name in SHOWN:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
    return versions
