"""The real studio in processes of its own: the page's server and the command line."""

import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from types import TracebackType

import psutil

from tests.forking import Popen

ROOT = Path(__file__).resolve().parent.parent


class StudioProcess:
    """`python app.py` on a free port with a home of its own; a context manager that leaves nothing behind."""

    niceness = 0
    """By how much servers, and what they start, give way to other processes."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        *,
        command: Sequence[str] = (sys.executable, "app.py"),
        checkout: Path = ROOT,
        names_home: bool = True,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """`environ` is the whole environment; the port and, if `names_home`, the home are added to it."""
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = home.parent / f"{home.name}-server-{self.port}.log"
        self._command = list(command)
        self._checkout = checkout
        self._popen = popen
        self._environ = {
            **environ,
            **({"STUDIO_HOME": str(home)} if names_home else {}),
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_SERVER_PORT": str(self.port),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "StudioProcess":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        end_processes_of(self.home)

    def start(self, timeout_seconds: float = 400.0) -> None:
        """Starts the server and waits until the page answers."""
        with self.log_path.open("ab") as log:
            self._process = self._popen(
                self._command,
                cwd=self._checkout,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if self.niceness:
            started = psutil.Process(self._process.pid)
            started.nice(started.nice() + self.niceness)
        try:
            wait_for_page(self.url, self._process, timeout_seconds)
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log()}") from None

    @property
    def pid(self) -> int:
        """Of the server's process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL to the server alone: what a crash or a power cut does to it. Workers live on."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def interrupt(self) -> int:
        """What Ctrl-C does; returns the exit code."""
        assert self._process
        self._process.terminate()
        return self._process.wait(60)

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """A block in which a forked server takes two seconds for each look at sounds."""
        mark = self.home / "unhurried"
        mark.touch()
        yield
        mark.unlink()

    def log(self) -> str:
        """What the server printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")


def wait_for_page(url: str, process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
    """Returns once `url` answers; fails if `process` ends first or the time is over."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with exit code {process.returncode}"
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=10) as response:
            if response.status == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"no answer from {url} in {timeout_seconds:.0f} s")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def command(
    words: Sequence[str | Path],
    environ: Mapping[str, str],
    home: Path,
    folder: Path,
    popen: Callable[..., subprocess.Popen[str]] = subprocess.Popen,
    command: Sequence[str] = (sys.executable, "-m", "studio"),
    stderr: int | None = None,
) -> subprocess.Popen[str]:
    """`python -m studio` with these words in `folder`, where it writes a file `stderr`; it hears Ctrl-C.

    With `forked_server(popen)` it is forked, and so are its workers.
    """
    return popen(
        [*command, *words],
        cwd=folder,
        env={**environ, "STUDIO_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr or (folder / "stderr").open("w"),
        encoding="utf-8",
        # A test in the background of a script ignores Ctrl-C, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def words_of(process: psutil.Process) -> list[str]:
    """The command line of a process; of one that has ended, whoever started it, nothing."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def processes_that_name(place: str) -> list[psutil.Process]:
    """Processes with that text in their command line: who forked them is no process of the test."""
    return [process for process in psutil.process_iter() if any(place in word for word in words_of(process))]


def end_processes_of(home: Path) -> None:
    """Ends every worker whose run lies under `home`; a run's folder is an argument of its worker.

    All at once, as when the power fails: one that saw another go would stop in order.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(argument.startswith(f"{home}/") for argument in process.cmdline()):
                process.suspend()
                found.append(process)
    for process in found:
        with suppress(psutil.Error):
            process.kill()
            process.wait(10)


def copy_checkout(target: Path, *, is_compiled: bool = False) -> None:
    """What a clone would hold, and what is not committed yet; of what git ignores, at most compiled code."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert listed.returncode == 0, listed.stderr
    names = [name for name in listed.stdout.split("\0") if name]
    if is_compiled:
        names += [
            cache_from_source(name) for name in names if name.startswith("studio/") and name.endswith(".py")
        ]
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
