"""`Prober`: measures two training steps in a process of their own, one measurement at a time."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from studio.errors import RunError
from studio.files import read_json, write_json
from studio.memory.gpus import detected_gpus, driver_version
from studio.memory.plan import TrainingPlan
from studio.memory.receipts import CPU, Receipt, keep_receipt
from studio.memory.trace.store import library_versions
from studio.messages import Message
from studio.runs.process import end_tree, environment, own_group
from studio.settings import Settings
from studio.training.probe.question import ProbeQuestion
from studio.training.probe.worker import ANSWER, QUESTION
from studio.translation import message_from

PATIENCE_SECONDS = 900.0
_LOOK_SECONDS = 0.2


class Prober:
    """Safe to share by threads."""

    def __init__(
        self,
        settings: Settings,
        busy: Callable[[], str | None] = lambda: None,
        before_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`busy` names a run that has the machine, if one has; `before_start` frees memory."""
        self._settings = settings
        self._busy = busy
        self._before_start = before_start
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def measure(
        self, question: ProbeQuestion, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> tuple[Receipt, Path]:
        """Waits for the measurement; gives back its receipt, and the file where it is kept.

        Raises:
            ConfigError: if there is no GPU and main memory is too small.
            RunError: if a run or another measurement is at work, or this one was stopped or failed.
            StorageError: if the receipt cannot be written.
        """
        if not self._lock.acquire(blocking=False):
            raise RunError("Another measurement is at work: wait for its end, or stop it.")
        try:
            self._stop.clear()
            if not detected_gpus():
                question.check_main_memory()
            if run := self._busy():
                raise RunError(
                    "Run {run} is at work and would be measured, too: wait for its end, or stop it.", run=run
                )
            self._before_start()
            with tempfile.TemporaryDirectory(prefix="probe-", dir=self._settings.cache) as folder:
                answer = self._ask(question, Path(folder), patience_seconds)
        finally:
            self._lock.release()
        receipt = _receipt(question, answer)
        return receipt, keep_receipt(self._settings.calibration, receipt)

    def stop(self) -> None:
        """Ends the measurement at work, if there is one, and comes back when it has ended."""
        self._stop.set()
        with self._lock:
            pass

    @property
    def is_busy(self) -> bool:
        """Whether a measurement is at work."""
        return self._lock.locked()

    def _ask(self, question: ProbeQuestion, folder: Path, patience_seconds: float) -> dict[str, Any]:
        write_json(folder / QUESTION, question.to_json())
        asked = [str(folder), str(patience_seconds), str(os.getpid())]
        with (folder / "log").open("wb") as log:
            process = self._settings.popen(
                [sys.executable, "-m", "studio.training.probe.worker", *asked],
                cwd=folder,
                env=environment(self._settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **own_group(),
            )
        try:
            self._wait(process, patience_seconds)
        finally:
            if process.poll() is None:
                end_tree(psutil.Process(process.pid))
                process.wait()
        return _answer(folder, process.returncode)

    def _wait(self, process: "subprocess.Popen[bytes]", patience_seconds: float) -> None:
        deadline = time.monotonic() + patience_seconds
        while process.poll() is None:
            if self._stop.wait(_LOOK_SECONDS):
                raise RunError("The measurement was stopped.")
            if time.monotonic() > deadline:
                raise RunError(
                    "The two steps took longer than {seconds:.0f} seconds: take a smaller model or batch.",
                    seconds=patience_seconds,
                )


def _answer(folder: Path, exit_code: int) -> dict[str, Any]:
    try:
        answer = read_json(folder / ANSWER)
    except (OSError, ValueError):
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        raise RunError(
            "The measurement ended with exit code {code}: {reason}",
            code=exit_code,
            reason=said[-1][:300] if said else Message("it said nothing."),
        ) from None
    if "error" in answer:
        raise RunError("This run cannot be measured: {reason}", reason=message_from(**answer["error"]))
    return dict(answer)


def _receipt(question: ProbeQuestion, answer: dict[str, Any]) -> Receipt:
    predicted, measured = answer["predicted"], answer["measured"]
    card = measured["device"]
    return Receipt(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        base_model=question.config.base_model,
        plan=TrainingPlan(**{**answer["plan"], "target_modules": tuple(answer["plan"]["target_modules"])}),
        dimensions=question.dimensions,
        card=card,
        driver="" if card == CPU else driver_version(),
        versions=library_versions(),
        # Without a GPU there is no allocator and no context.
        predicted={"tensor_bytes": predicted["tensor_bytes"]} if card == CPU else predicted,
        measured={name: size for name, size in measured.items() if name.endswith("_bytes")},
        is_out_of_memory=answer["is_out_of_memory"],
        seconds=answer["seconds"],
    )
