"""Whether torch and bitsandbytes work here: tried in a process of their own, printed as JSON.

`python -m studio.doctor.libraries`. A driver that hangs or kills takes only that process with it, and the GPU
memory that torch takes for its context is free again when it ends.
"""

import importlib.metadata
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from studio.settings import PROJECT_ROOT

PATIENCE_SECONDS = 90.0
SHOWN = ("torch", "transformers", "peft", "bitsandbytes", "ctranslate2", "faster-whisper", "gradio")


@dataclass(frozen=True)
class LibraryState:
    """What the process of its own has found."""

    answered: bool
    """False if it hung or was ended."""
    sees_gpu: bool = False
    torch_cuda: str = ""
    """The CUDA that torch was built for; empty for a build without."""
    has_bf16: bool = False
    bitsandbytes: str = ""
    """`ok`, empty if it was not tried, or what it said."""
    problem: str = ""
    """What torch said; empty if nothing."""


def try_libraries(patience_seconds: float = PATIENCE_SECONDS) -> LibraryState:
    """Starts the process and waits, but not for ever."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "studio.doctor.libraries"],
            cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=patience_seconds,
        )
        return LibraryState(answered=True, **json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, TypeError):
        return LibraryState(answered=False)


def installed_versions() -> dict[str, str]:
    """Library → version; empty where it is missing."""
    versions = {}
    for name in SHOWN:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = ""
    return versions


def _look() -> dict[str, Any]:
    try:
        import torch

        sees_gpu = torch.cuda.is_available()
        found: dict[str, Any] = {"sees_gpu": sees_gpu, "torch_cuda": torch.version.cuda or ""}
        if sees_gpu:
            found["has_bf16"] = torch.cuda.is_bf16_supported()
            found["bitsandbytes"] = _try_bitsandbytes()
        return found
    except (ImportError, OSError, RuntimeError) as error:
        return {"problem": _first_line(error)}


def _try_bitsandbytes() -> str:
    """One product with weights in 4 and in 8 bits, on the GPU."""
    try:
        import bitsandbytes.nn as typed_layers
        import torch

        layers: Any = typed_layers
        rows = torch.ones(4, 64, device="cuda", dtype=torch.float16)
        for layer in (layers.Linear4bit(64, 64), layers.Linear8bitLt(64, 64, has_fp16_weights=False)):
            layer.half().to("cuda")(rows).sum().item()
        return "ok"
    except (ImportError, OSError, RuntimeError, AttributeError, ValueError) as error:
        return _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


if __name__ == "__main__":
    print(json.dumps(_look()))
