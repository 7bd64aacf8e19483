"""Work in a thread behind a request: its reports as they come, and its errors as visitors may read them."""

import asyncio
import os
import queue
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from studio.errors import StudioError

Result = TypeVar("Result")
Report = TypeVar("Report")

_LOOK_SECONDS = 1.0
_NAME = "page-work"


class Worked(Generic[Report, Result]):
    """Runs `work(report)` in a thread. Iterate for its reports (only the latest if they come too fast), then
    read `result`, which raises what the work raised.

    Nothing waits in a thread for it, and each second without a report gives None: so the page shows that
    time passes, and it is seen when the visitor leaves.
    """

    def __init__(self, work: Callable[[Callable[[Report], None]], Result]) -> None:
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._work = work
        self._tell: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)

    def _run(self) -> None:
        try:
            self._result = self._work(self._put)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            self._error = error
        finally:
            self._put(None)

    def _put(self, report: Report | None) -> None:
        self._reports.put(report)
        with suppress(RuntimeError):  # the loop that listened is closed: the studio is leaving
            self._tell()

    def begin(self) -> None:
        """Starts the work now and not at the first look; asking again changes nothing."""
        if self._thread.ident is None:
            self._thread.start()

    async def __aiter__(self) -> AsyncIterator[Report | None]:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        self._tell = lambda: loop.call_soon_threadsafe(came.set)
        came.set()  # for what a thread that had begun already said
        self.begin()
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await came.wait()
            except TimeoutError:
                yield None
                continue
            came.clear()
            while not self._reports.empty():
                if (report := self._latest()) is None:
                    return
                yield report

    def _latest(self) -> Report | None:
        report = self._reports.get()
        while report is not None and not self._reports.empty():
            report = self._reports.get()
        return report

    @property
    def result(self) -> Result:
        """What the work returned; call it after the iteration."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def in_own_thread(work: Callable[[], Result]) -> Result:
    """What `work` returns, or raises, from a thread that ends with it.

    Every thread in which torch computed keeps helpers for as long as it lives. Where a server's threads have
    more of them than there are cores, OpenMP lets them sleep between two operators, and a small model takes a
    third longer from then on, whoever asks.
    """
    with ThreadPoolExecutor(1, "own-work") as own:
        return own.submit(work).result()


def end_process(code: int, last_seconds: float) -> int:
    """The exit code, once no work goes on; what still computes after so long ends with the process, here.

    A thread in the midst of an operator of torch, when Python takes itself apart, aborts the process.
    """
    deadline = time.monotonic() + last_seconds
    working = [thread for thread in threading.enumerate() if thread.name == _NAME]
    for thread in working:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in working):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    return code


def named(error: StudioError, path: Path, called: str = "") -> StudioError:
    """The error with an upload's name in place of its path, whose folder says nothing to the visitor.

    `called` is that name where it is not the file's own.
    """
    values = {
        name: called or path.name if str(value) == str(path) else value
        for name, value in error.values.items()
    }
    return type(error)(error.template, **values)
