"""All checks in a row. What varies (libraries and GPUs, hub) is passed in, so that a test can hand it over.

Whatever may hang or crash is tried in a process of its own; see `studio.doctor.trying`.
"""

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from studio.doctor.gpu import GpuProcess, GpuState
from studio.doctor.report import Check, DoctorReport, Health
from studio.doctor.trying import AUDIO, BITSANDBYTES, CTRANSLATE2, GPUS, MISSING, OK, TORCH
from studio.messages import Message
from studio.settings import PROJECT_ROOT, Settings
from studio.units import GIB, format_bytes

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
    ctranslate2: str = ""
    """`ok`, `missing` without cuBLAS of CUDA 12, or what it said; empty without an NVIDIA GPU."""
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
    found["gpus"] = tuple(_gpu_libraries(row) for row in found.get("gpus", ()))
    known = {name: value for name, value in found.items() if name in LibraryState.__dataclass_fields__}
    return LibraryState(stuck_at=stuck_at, exit_code=code if stuck_at else None, **known)


def _gpu_libraries(row: dict[str, Any]) -> GpuState:
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


HUB_PATIENCE_SECONDS = 4.0
_LITTLE_DISK, _NO_DISK = 20 * GIB, 2 * GIB
_LITTLE_MEMORY = 4 * GIB
_KEPT_SECONDS = 60.0
_last: dict[Path, tuple[float, DoctorReport | None]] = {}
"""Home → until when strangers are told what was found in it last."""
_MUCH_HELD = 0.1
"""Share of a card that others hold from which on it is worth a note."""


def examine(
    settings: Settings,
    *,
    libraries: Callable[[], LibraryState] = try_libraries,
    hub: Callable[[], bool] | None = None,
) -> DoctorReport:
    """Looks at this machine; takes seconds, and never longer than its processes may."""
    state = libraries()
    cards = list(state.gpus)
    versions = installed_versions()
    disk = shutil.disk_usage(settings.home).free
    memory = int(psutil.virtual_memory().available)
    reaches_hub = (hub or reaches_hub_soon)()
    checks = (
        _python(),
        _versions(versions),
        *_gpus(cards, state),
        _torch(cards, state),
        _bitsandbytes(cards, state),
        *_ctranslate2(state),
        _memory(memory),
        _disk(disk, settings.home),
        _audio(state),
        _hub(reaches_hub),
    )
    figures = {
        "gpus": [asdict(card) for card in cards],
        "versions": {"python": platform.python_version(), **versions},
        "disk_free_bytes": disk,
        "memory_available_bytes": memory,
    }
    return DoctorReport(checks, figures)


def examine_for_visitors(settings: Settings) -> DoctorReport:
    """The same, but at most once a minute where anybody may ask: it takes seconds of all cores."""
    if not settings.is_public:
        return examine(settings)
    until, report = _last.get(settings.home, (0.0, None))
    if report is None or time.monotonic() > until:
        report = examine(settings)
        _last[settings.home] = time.monotonic() + _KEPT_SECONDS, report
    return report


def reaches_hub_soon(address: str = "", patience_seconds: float = HUB_PATIENCE_SECONDS) -> bool:
    """Whether the model hub answers. A name that is never resolved counts as no answer."""
    from huggingface_hub import constants

    answered = threading.Event()

    def ask() -> None:
        """Notes that somebody answered, whatever was said."""
        try:
            request = urllib.request.Request(address or constants.ENDPOINT, method="HEAD")
            with urllib.request.urlopen(request, timeout=patience_seconds):
                answered.set()
        except urllib.error.HTTPError as error:
            if error.code < 500:
                answered.set()
        except (OSError, ValueError):
            return

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(patience_seconds)


def _python() -> Check:
    version = platform.python_version()
    finding = Message("{version} on {system}", version=version, system=platform.platform(terse=True))
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        return Check(Message("Python"), Health.OK, finding)
    advice = Message("Use Python 3.11, 3.12 or 3.13: the libraries are pinned to what runs there.")
    return Check(Message("Python"), Health.PROBLEM, finding, advice)


def _versions(versions: dict[str, str]) -> Check:
    name = Message("Libraries")
    missing = [library for library, version in versions.items() if not version]
    if missing:
        finding = Message("missing: {names}", names=", ".join(missing))
        return Check(name, Health.PROBLEM, finding, _INSTALL)
    shown = ", ".join(f"{library} {version}" for library, version in versions.items())
    return Check(name, Health.OK, Message("{text}", text=shown))


def _gpus(cards: list[GpuState], state: LibraryState) -> list[Check]:
    if state.stuck_at == GPUS:
        return [_stuck(Message("GPU"), state, _RESTART)]
    if not cards:
        finding = Message("no NVIDIA GPU, or no driver for it")
        advice = Message(
            "Everything works on the processor, more slowly. If there is a card, install NVIDIA's driver; in "
            "a container, start it with --gpus all."
        )
        return [Check(Message("GPU"), Health.NOTE, finding, advice)]
    return [_gpu(card) for card in cards]


def _gpu(card: GpuState) -> Check:
    name = Message("GPU {index}", index=card.index)
    held = ", ".join(
        f"{row.name or '?'} {row.pid}" + (f" ({format_bytes(row.held_bytes)})" if row.held_bytes else "")
        for row in card.processes
    )
    values = {
        "name": card.name,
        "free": format_bytes(card.free_bytes),
        "total": format_bytes(card.total_bytes),
        "driver": card.driver,
        "cuda": card.cuda,
    }
    if card.total_bytes - card.free_bytes <= _MUCH_HELD * card.total_bytes:
        finding = Message("{name}: {free} of {total} free; driver {driver}, CUDA up to {cuda}", **values)
        return Check(name, Health.OK, finding)
    if not held:
        finding = Message(
            "{name}: {free} of {total} free, the rest is held by processes that cannot be seen from here; "
            "driver {driver}, CUDA up to {cuda}",
            **values,
        )
    else:
        finding = Message(
            "{name}: {free} of {total} free, held by {held}; driver {driver}, CUDA up to {cuda}",
            held=held,
            **values,
        )
    advice = Message("Plan the run for what is free now, or end those processes if they are yours.")
    return Check(name, Health.NOTE, finding, advice)


def _torch(cards: list[GpuState], state: LibraryState) -> Check:
    name = Message("torch and CUDA")
    if state.stuck_at == TORCH:
        return _stuck(name, state, _RESTART if cards else _REINSTALL)
    if state.stuck_at in (GPUS, AUDIO):
        return _not_reached(name)
    if state.problem:
        return Check(name, Health.PROBLEM, Message("{text}", text=state.problem), _REINSTALL)
    if state.sees_gpu:
        kinds = "bf16, fp16" if state.has_bf16 else "fp16"
        finding = Message("torch uses the GPU, with CUDA {cuda}: {kinds}", cuda=state.torch_cuda, kinds=kinds)
        return Check(name, Health.OK, finding)
    if not cards:
        return Check(name, Health.OK, Message("torch computes on the processor"))
    if not state.torch_cuda:
        advice = Message("Install a CUDA build of torch, as pytorch.org/get-started/locally describes.")
        return Check(name, Health.PROBLEM, Message("this torch was built without CUDA"), advice)
    advice = Message("Update NVIDIA's driver to one that runs CUDA {cuda}.", cuda=state.torch_cuda)
    return Check(name, Health.PROBLEM, Message("there is a GPU, and torch cannot use it"), advice)


def _bitsandbytes(cards: list[GpuState], state: LibraryState) -> Check:
    name = Message("8 and 4 bits (bitsandbytes)")
    if state.stuck_at == BITSANDBYTES:
        return _stuck(name, state, _WITHOUT_BITS)
    if state.stuck_at and state.stuck_at != CTRANSLATE2:
        return _not_reached(name)
    if state.bitsandbytes == OK:
        return Check(name, Health.OK, Message("both work on the GPU"))
    if state.bitsandbytes:
        return Check(name, Health.PROBLEM, Message("{text}", text=state.bitsandbytes), _WITHOUT_BITS)
    health = Health.PROBLEM if cards else Health.NOTE
    advice = Message("8 and 4 bits save memory on NVIDIA GPUs; on the processor they work, slowly.")
    return Check(name, health, Message("not tried: torch sees no GPU"), advice)


def _ctranslate2(state: LibraryState) -> list[Check]:
    """Only where there is an NVIDIA GPU: on the processor it works without anything else."""
    name = Message("faster-whisper on the GPU")
    if state.stuck_at == CTRANSLATE2:
        return [_stuck(name, state, _WITHOUT_CUBLAS)]
    if state.ctranslate2 == OK:
        return [Check(name, Health.OK, Message("it finds the GPU, and cuBLAS of CUDA 12"))]
    if state.ctranslate2 == MISSING:
        return [Check(name, Health.NOTE, Message("cuBLAS of CUDA 12 is missing"), _WITHOUT_CUBLAS)]
    found = Message("{text}", text=state.ctranslate2)
    return [Check(name, Health.PROBLEM, found, _INSTALL)] if state.ctranslate2 else []


def _memory(available: int) -> Check:
    finding = Message("{size} available", size=format_bytes(available))
    if available >= _LITTLE_MEMORY:
        return Check(Message("Main memory"), Health.OK, finding)
    advice = Message("Close other programs: loading a large model takes several GiB beside the GPU's.")
    return Check(Message("Main memory"), Health.NOTE, finding, advice)


def _disk(free: int, home: Path) -> Check:
    name = Message("Disk")
    finding = Message("{size} free in {folder}", size=format_bytes(free), folder=str(home))
    if free >= _LITTLE_DISK:
        return Check(name, Health.OK, finding)
    health = Health.NOTE if free >= _NO_DISK else Health.PROBLEM
    advice = Message(
        "A run of large-v3 with all weights writes up to 20 GiB a checkpoint, an adapter far less: free "
        "some, or set STUDIO_HOME to another disk."
    )
    return Check(name, health, finding, advice)


def _audio(state: LibraryState) -> Check:
    name = Message("Reading audio")
    if state.stuck_at == AUDIO:
        return _stuck(name, state, _AUDIO_AGAIN)
    if not state.audio:
        return _not_reached(name)
    if state.audio != OK:
        return Check(name, Health.PROBLEM, Message("{text}", text=state.audio), _AUDIO_AGAIN)
    return Check(name, Health.OK, Message("FLAC and OGG were decoded; nothing else has to be installed"))


def _stuck(name: Message, state: LibraryState, advice: Message) -> Check:
    """What hung, or ended the process that tried it."""
    if state.exit_code is None:
        return Check(name, Health.PROBLEM, Message("it did not answer in time"), advice)
    finding = Message("it ended the process that tried it, with exit code {code}", code=state.exit_code)
    return Check(name, Health.PROBLEM, finding, advice)


def _not_reached(name: Message) -> Check:
    advice = Message("Fix what ended the check first, then check again.")
    return Check(name, Health.NOTE, Message("not tried: the check ended before"), advice)


_RESTART = Message("Restart the machine or its driver, then ask again; nvidia-smi must answer, too.")
_INSTALL = Message("Run pip install -r requirements.txt in the studio's environment.")
_REINSTALL = Message("Install torch again: pip install --force-reinstall -r requirements.txt.")
_WITHOUT_CUBLAS = Message(
    "Run pip install nvidia-cublas-cu12. Without it faster-whisper computes on the processor; transformers "
    "does not need it."
)
_WITHOUT_BITS = Message("Train without 8 and 4 bits: gradient checkpointing saves more.")
_AUDIO_AGAIN = Message("Run pip install --force-reinstall -r requirements.txt: av and soundfile bring all.")


def _hub(is_reached: bool) -> Check:
    name = Message("Model hub")
    if is_reached:
        return Check(name, Health.OK, Message("it answers"))
    advice = Message(
        "Without it, use the demo model, models that were downloaded before, or a folder with one; behind a "
        "proxy, set HTTPS_PROXY, or HF_ENDPOINT to a mirror."
    )
    return Check(name, Health.NOTE, Message("it did not answer"), advice)
