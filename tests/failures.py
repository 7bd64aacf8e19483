"""What a failed test leaves to be read: where every thread of every process was, their logs, and the page.

It stands in the output below the failure, and whole in `.pytest_failures/NAME_OF_THE_TEST`.
"""

import atexit
import faulthandler
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".pytest_failures"
THREADS = Path(tempfile.mkdtemp(prefix="test-threads-"))
"""A file for each process that this one starts, also through others, named by its number."""
LINES = 60
PATIENCE_SECONDS = 3.0
MACHINERY = re.compile(r"<frozen (importlib|runpy)|/(pluggy|_pytest)/")
BEGAN = pytest.StashKey[float]()

atexit.register(shutil.rmtree, THREADS, ignore_errors=True)
if hasattr(faulthandler, "register"):
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests" / "started"), str(ROOT)])
    os.environ["TEST_THREADS_FOLDER"] = str(THREADS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Logs that were written to since are those of this test."""
    item.stash[BEGAN] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what is found to the report of a failure; the processes are still there, and go on."""
    report = yield
    if report.failed:
        folder = FOLDER / re.sub(r"[^\w\-]+", "-", f"{item.path.stem}-{item.name}-{report.when}")
        try:
            found = [*_said(call.excinfo), *_threads(), *_logs(item), *_pages(folder)]
        except Exception as error:  # noqa: BLE001 - the failure itself must be told whatever this meets
            found = [("What else there is could not be gathered", repr(error))]
        for title, text in found:
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w\-]+", "-", title)[-80:]
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
            left = max(0, len(text.splitlines()) - LINES)
            text = "\n".join([f"… {left} lines before"] * bool(left) + text.splitlines()[-LINES:])
            report.sections.append((title, text))
        if found:
            report.sections.append(("All of it", f"{folder.relative_to(ROOT)}/"))
    return report


def _said(info: pytest.ExceptionInfo[BaseException] | None) -> Iterator[tuple[str, str]]:
    """What a process had said that took too long."""
    for name in ("stdout", "stderr"):
        if text := getattr(info.value if info else None, name, None):
            yield f"{name} until then", text if isinstance(text, str) else text.decode(errors="replace")


def _threads() -> Iterator[tuple[str, str]]:
    """Asks each process where its threads are; this one first, if there are others."""
    asked = {int(path.name): path.stat().st_size for path in THREADS.iterdir()}
    told = {}
    for pid in asked:
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if "TEST_THREADS_FOLDER" in process.environ():  # or the number is another's, whom it would end
                told[pid] = " ".join(process.cmdline()).rstrip(".")
                process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any((THREADS / str(pid)).stat().st_size == asked[pid] for pid in told):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if told:
        with (THREADS / "own").open("w+") as own:
            faulthandler.dump_traceback(own)
        yield "Threads of the tests", _alike((THREADS / "own").read_text().partition("Current thread")[0])
        (THREADS / "own").unlink()
    for pid, command in told.items():
        dump = (THREADS / str(pid)).read_text()[asked[pid] :]
        yield f"Threads of process {pid}", f"{command}\n\n{_alike(dump) or 'it did not answer'}"


def _alike(dump: str) -> str:
    """Threads that stand at one place are told once, without the frames of importing and of pytest."""
    stacks: dict[str, list[str]] = {}
    for block in dump.strip().split("\n\n"):
        head, *frames = (line for line in block.splitlines() or [""] if not MACHINERY.search(line))
        stacks.setdefault("\n".join(frames), []).append(head)
    many = {stack: f" and {len(heads) - 1} more" if len(heads) > 1 else "" for stack, heads in stacks.items()}
    return "\n\n".join(f"{heads[0]}{many[stack]}\n{stack}" for stack, heads in stacks.items())


def _logs(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """What servers and workers wrote during this test."""
    factory = getattr(item, "funcargs", {}).get("tmp_path_factory")
    for path in sorted(factory.getbasetemp().rglob("*.log")) if factory else ():
        with suppress(OSError):
            if path.stat().st_mtime >= item.stash[BEGAN]:
                yield f"Log {path}", path.read_text(encoding="utf-8", errors="replace")


def _pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Console, errors and picture of every page that is open."""
    if "playwright.sync_api" not in sys.modules:
        return
    from playwright.sync_api import Error, Page

    pages = [thing for thing in gc.get_objects() if type(thing) is Page and not thing.is_closed()]
    for number, page in enumerate(pages, 1):
        picture = folder / f"page-{number}.png"
        try:
            page.screenshot(path=picture, timeout=5000)
        except Error as error:
            picture = Path(f"no picture: {error}")
        console = [f"{message.type}: {message.text}" for message in page.console_messages()]
        errors = [f"error: {error}" for error in page.page_errors()]
        yield f"Page {number}", "\n".join([f"{page.url} {picture}", *console, *errors])
