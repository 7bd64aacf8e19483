"""Processes of tests, workers and servers that are forked from one that has the libraries loaded.

To import them takes each five to ten seconds of the processor, most of what a test takes. This module as a
process imports and does nothing else: it computes nothing and has one thread, so that its children are what a
fresh interpreter is after its imports. What is none of `LIBRARIES`, or is to have another value of a variable
that libraries read when they are imported, is started as ever.
"""

import ctypes
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from studio.lazy_imports import peft_library

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("torch", "transformers.models.whisper.modeling_whisper", "peft")
TRAINING = (*MODELS, "datasets", "accelerate", "studio.training.attempt", "studio.training.after_check")
LIBRARIES = {
    "studio.training.worker": TRAINING,
    "studio.training.launch": ("accelerate.commands.launch",),
    "studio.training.probe.worker": TRAINING,
    "studio.memory.trace.worker": (*MODELS, "studio.memory.trace.step"),
    "tests.forked_studio": (*MODELS, "studio.ui.serve"),
    "tests.unit.publishing.exporting": (*MODELS, "tests.unit.publishing.exporting"),
    "-c": (*TRAINING, "studio.ui.serve", "openai", "scipy.signal"),
}
"""What can be forked, and what it imports as it goes; what is a line of Python is a process of pytest."""
READ_LATE = (
    *("STUDIO_", "GRADIO_", "SPACE_", "PYTEST_", "COVERAGE_"),
    *("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONPATH", "PYTHONSAFEPATH"),
    *("HF_TOKEN", "WANDB_API_KEY", "HF_HUB_CACHE", "HF_HUB_DISABLE_PROGRESS", "HF_HUB_DISABLE_TELEMETRY"),
    *("TOKENIZERS_", "no_proxy", "NO_PROXY"),
    *("CUDA_VISIBLE_DEVICES", "TENSORBOARD_"),
    *("OMP_NUM_THREADS", "JE_ARROW_MALLOC_CONF", "KMP_"),
    *("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_"),
    *("ACCELERATE_", "TORCHELASTIC_", "TORCH_NCCL_", "TORCHINDUCTOR_CACHE_DIR"),
    *("NETWORK_NAMESPACE", "NCCL_SOCKET_", "GLOO_SOCKET_"),
    *("TEST_THREADS_FOLDER", "COLUMNS", "LINES"),
    *("OAUTH_", "OPENID_", "SYSTEM"),
)
"""Variables that libraries read as late as the studio does, or of which it does not depend."""
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
STARTED_AS_EVER = "0"
LOOKED_AT_SECONDS = 0.5
"""So long a process is there, if as a zombie: whoever starts one notes when it was started."""
Popen = Callable[..., subprocess.Popen[Any]]


@contextmanager
def forking(folder: Path, environ: Mapping[str, str], checkout: Path = ROOT) -> Iterator[Popen]:
    """What can be called instead of `subprocess.Popen` meanwhile; the processes may go on after that."""
    own = {name: value for name, value in environ.items() if not name.startswith("COVERAGE_")}
    own["PYTHONPATH"] = os.pathsep.join((str(checkout), own.get("PYTHONPATH", "")))
    own |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    own |= {
        "OMP_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }  # or imports start threads
    room = "." * 4096  # for the command line of a child
    address = str(folder / "socket")
    command = [sys.executable, "-m", "tests.forking", address, room]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=checkout, env=own, start_new_session=True, **pipes) as process:
        assert process.stdout and process.stdout.readline()
        yield partial(ForkedProcess, address)


def forked_server(popen: Popen) -> dict[str, Any]:
    """Options of `StudioProcess` for a server that is forked, as its workers are."""
    if not isinstance(popen, partial):
        return {}
    return {"popen": popen, "command": [sys.executable, "-m", "tests.forked_studio", *popen.args]}


def forked_python(popen: Popen) -> str:
    """Words that stand for Python's, followed by `-c` and a line: a forked process does what it says."""
    assert isinstance(popen, partial)
    begin = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import tests.forking; tests.forking.stand_in"
    return shlex.join([sys.executable, "-c", f"{begin}(*{popen.args!r})"])


def stand_in(address: str) -> None:
    """Has a process forked that does what this one was asked for, and ends when it does."""
    forked = ForkedProcess(address, [sys.executable, *sys.argv[1:]])
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    sys.exit(forked.wait())


class ForkedProcess(subprocess.Popen[Any]):
    """A `Popen` whose process was forked by another one, which tells how it ends."""

    def __init__(self, address: str, command: list[str], **options: Any) -> None:
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.connect(address)
        self._is_forked = False
        super().__init__(command, **options)

    def _execute_child(self, *given: Any) -> None:
        names = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]
        asked = dict(zip(names, given, strict=True))
        request = {
            # Forked processes write at once: PYTHONUNBUFFERED was set.
            "command": [str(word) for word in asked["args"] if word != "-u"],
            "folder": str(asked["cwd"] or Path.cwd()),
            "environ": dict(os.environ if asked["env"] is None else asked["env"]),
        }
        ends = enumerate(asked[name] for name in ("p2cread", "c2pwrite", "errwrite"))
        files = [end if end >= 0 else number for number, end in ends]
        socket.send_fds(self._told, [json.dumps(request).encode()], files)
        answer = self._told.recv(64).decode()
        assert answer, "the process that forks has ended"
        if answer == STARTED_AS_EVER:
            self._told.close()
            super()._execute_child(*given)
            return
        self.pid, self._is_forked, self._child_created = int(answer), True, True
        self._close_pipe_fds(*(asked[name] for name in PIPES))

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if not self._is_forked:
            return super()._internal_poll(*given, **named)
        with self._waitpid_lock:
            if self.returncode is None and select.select([self._told], [], [], 0)[0]:
                told = self._told.recv(64)  # nothing, if who forks it has ended
                self.returncode = int(told or -signal.SIGKILL)
                self._told.close()
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        if not self._is_forked:
            return super()._wait(timeout)
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._internal_poll()


def main(address: str) -> None:
    """Forks until who started it is gone, and so are processes of tests, which end what they have started;
    in a child, becomes what was asked for."""
    before = dict(os.environ)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen()
    os.write(1, b"ready\n")
    running: dict[int, tuple[int, socket.socket, float]] = {}
    starter, testing = {0}, set[int]()
    while starter or testing:
        ready, _, _ = select.select([*starter, listener, *running], [], [])
        starter -= {*ready}
        testing -= {*ready}
        for file in {*ready} & {*running}:
            pid, asking, born = running.pop(file)
            time.sleep(max(0.0, born + LOOKED_AT_SECONDS - time.monotonic()))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(ConnectionError):  # who asked has ended
                asking.send(str(code).encode())
            asking.close()
            os.close(file)
        if listener not in ready:
            continue
        asking, _ = listener.accept()
        message, files, _, _ = socket.recv_fds(asking, 2**20, 3)
        if not message:
            asking.close()
        elif not can_fork(request := json.loads(message), before):
            with suppress(ConnectionError):
                asking.send(STARTED_AS_EVER.encode())
            asking.close()
        elif pid := os.fork():
            file = os.pidfd_open(pid)
            running[file] = pid, asking, time.monotonic()
            testing |= {file} if "-c" in request["command"][1:2] else set()
        else:
            listener.close()
            for number in (*running, *(other.detach() for _, other, _ in running.values())):
                os.close(number)
            become(asking, files, request, address)
        for number in files:
            os.close(number)
    os._exit(0)


def can_fork(request: dict[str, Any], before: Mapping[str, str]) -> bool:
    """Whether a child of this process would be what a new one is; imports what it lacks."""
    python, option, module = [*request["command"], "", "", ""][:3]
    if option == "-c":
        module = option
    if python != sys.orig_argv[0] or option not in ("-m", "-c") or module not in LIBRARIES:
        return False
    asked = request["environ"]
    changed = {name for name in {*asked, *before} if asked.get(name) != before.get(name)}
    folders = [{*each.get("PYTHONPATH", "").split(os.pathsep)} - {"", str(ROOT)} for each in (asked, before)]
    if folders[0] != folders[1] or any(not name.startswith(READ_LATE) for name in changed):
        return False
    gc.disable()
    if "peft" in LIBRARIES[module]:
        peft_library()
    for library in LIBRARIES[module]:
        importlib.import_module(library)
    if "peft" in LIBRARIES[module]:  # a table that transformers makes for the first model of a process
        sys.modules["transformers.conversion_mapping"].get_checkpoint_conversion_mapping("whisper")
    gc.enable()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "an import has started a thread"
    gc.collect()
    gc.freeze()
    return True


def become(asking: socket.socket, files: list[int], request: dict[str, Any], address: str) -> None:
    """Makes this child the process that was asked for, tells its number, and runs it to its end.

    The processes that a launcher starts are forked, too.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a test in the background ignores
    os.setsid()  # Linux shares processors by session: that of all who are forked is none of one test's
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if network := request["environ"].get("NETWORK_NAMESPACE"):
        with Path("/run/netns", network).open() as place:
            assert ctypes.CDLL(None).setns(place.fileno(), 0) == 0
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    login = vars(sys.modules["gradio.oauth"]) if "gradio.oauth" in sys.modules else {}  # it read them before
    login.update({name: os.environ.get(name) for name in login if name.startswith(("OAUTH_", "OPENID_"))})
    if listen := getattr(sys.modules.get("sitecustomize"), "listen", None):
        listen()  # it tells the tests that it is of where its threads are
    show_command(request["command"])
    asking.send(str(os.getpid()).encode())
    asking.close()
    if any(name.startswith("COVERAGE_PROCESS_") for name in os.environ):
        importlib.import_module("coverage").process_startup()
    sys.modules["numpy"].random.seed()
    sys.path[:1] = [] if "PYTHONSAFEPATH" in request["environ"] else [request["folder"]]
    if request["command"][1] == "-c":
        sys.argv, code = ["-c"], request["command"][2]
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(code, vars(module))
        sys.exit()
    sys.argv = request["command"][2:]
    sys.modules.pop(sys.argv[0], None)
    if sys.argv[0] == "studio.training.launch":
        starter = importlib.import_module("torch.distributed.elastic.multiprocessing.subprocess_handler")
        starter.subprocess_handler.Popen = lambda args, **options: ForkedProcess(address, args, **options)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit()


def show_command(words: list[str]) -> None:
    """Writes a command over that of this process, where others look for it."""
    fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(map(os.fsencode, words))[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


if __name__ == "__main__":
    main(sys.argv[1])
