"""What tests share: folders, settings, services, models, speech, and the studio as a process.

Only this file among the tests reads the environment. No test needs a model hub: the address of the
hub is one where nobody listens.
"""

import ctypes
import gc
import io
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as tries

from studio.cli.main import main
from studio.lazy_imports import collect_as_usual, collect_seldom
from studio.settings import DEMO_MODEL, DEMO_SPEECH, Settings
from tests.failures import pytest_runtest_makereport, pytest_runtest_setup
from tests.forking import ForkedProcess, Popen, forked_python, forked_server, forking
from tests.micro import make_micro_model, make_tones
from tests.studio_process import ROOT, StudioProcess, end_processes_of

__all__ = ["pytest_runtest_makereport", "pytest_runtest_setup"]
NO_HUB = {
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
}
OWN_PREFIXES = ("STUDIO_", "GRADIO_", "SPACE_", "HF_", "TRANSFORMERS_")
QUICK_FIRST = ("test_architecture.py", "golden", "unit", "test_house.py", "app", "faults", "gpu", "browser")
SLOW_FIRST = ("browser", "app", "faults", "test_readme.py", "test_house.py", "golden", "unit")

IMPORTED: set[str] = set()
FORKING = pytest.StashKey[Popen]()

SHIFTS = (
    "# How far things move by themselves on the page",
    "",
    "`python tests/run.py tests/browser --shifts FILE`: cumulative layout shift (web.dev/cls) of each page",
    "that a story opens, in its worst five seconds, without and with what follows an input within half a",
    "second. At most 0.1 counts as good. Where a window changes its size, or a busy machine answers later",
    "than half a second, more of it counts as by itself; so only the stories in `test_accessibility.py`,",
    "`test_story.py` and `test_come_back.py` fail for it.",
    "",
    "| story | by itself | with what was asked for |",
    "|---|---|---|",
)

os.environ.update(NO_HUB)
OWN_CARDS = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
"""A GPU rounds otherwise from run to run: only `tests/gpu` sees it, through processes (`sees_gpu`)."""
collect_seldom()  # while tests are collected, with all that they import
ssl.create_default_context = cache(ssl.create_default_context)  # each client of HTTP reads all certificates
for name, how in {
    "suite": {"derandomize": True, "max_examples": 40, "deadline": None},
    "thorough": {"max_examples": 5000, "deadline": 2000},
}.items():
    unheeded = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    tries.register_profile(name, database=None, suppress_health_check=unheeded, **how)
tries.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--screenshots assets/screenshots` renews the pictures of the README, `--renew` golden records."""
    parser.addoption("--screenshots", default="", help="folder that the browser tests keep pictures in")
    parser.addoption("--looks", default="", help="folder for the page as each browser test left it")
    parser.addoption("--shifts", default="", help="file for how far each story moved")
    parser.addoption("--renew", action="store_true", help="write the golden records anew")
    parser.addoption("--slowed", type=float, default=1.0, help="by how much pages are slower")


def pytest_configure(config: pytest.Config) -> None:
    """Servers of a slowed run give way to everything else on the machine."""
    StudioProcess.niceness = 10 if config.getoption("--slowed") > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Processes that test side by side are forked, as is what they start, by one that loads the libraries."""
    if sys.platform == "linux":
        end = ExitStack()
        config.add_cleanup(end.close)
        folder = Path(end.enter_context(TemporaryDirectory()))
        config.stash[FORKING] = popen = end.enter_context(forking(folder, own_environ()))
        for spec in specs:
            spec.python = forked_python(popen)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process of tests whom to ask for others."""
    node.workerinput["forking"] = node.config.stash[FORKING].args if FORKING in node.config.stash else ()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Files that make something once for all their tests stay whole; tests of other files go one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return file if shares_something(file) else nodeid

        def remove_node(self, node: object) -> str | None:
            """What ended its process is not tried again in another one."""
            work = self.assigned_work[node]
            open_ends = (name for unit in work.values() for name, is_done in unit.items() if not is_done)
            if crashed := next(open_ends, None):
                work[self._split_scope(crashed)][crashed] = True
            self.assigned_work[node] = {scope: unit for scope, unit in work.items() if not all(unit.values())}
            super().remove_node(node)
            return crashed

    return Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@cache
def shares_something(file: str) -> bool:
    """Whether the tests of a file have a server or something else in common that takes long to make."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return any(word in text for word in ("studio_server", "open_page", 'scope="module"', "\n@cache\n"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Writes how far the pages of each story moved, the worst first (`tests/browser/conftest.py`)."""
    if not (file := config.getoption("--shifts")):
        return
    ends = [report for report in terminalreporter.getreports("") if report.when == "teardown"]
    rows = [
        (*moved, report.nodeid.rpartition("/")[2] + name.removeprefix("layout shift"))
        for report in ends
        for name, moved in report.user_properties
        if name.startswith("layout shift")
    ]
    lines = [f"| {story} | {unasked:.3f} | {whole:.3f} |" for unasked, whole, story in sorted(rows)[::-1]]
    Path(file).write_text("\n".join([*SHIFTS, *lines, ""]), encoding="utf-8")


def pytest_collection_finish() -> None:
    """What was imported stays: torch's trainers collect garbage all the time, and would look through it."""
    IMPORTED.update(sys.modules)
    collect_as_usual()


def pytest_runtest_logfinish() -> None:
    """Nor through what a test has imported."""
    if len(sys.modules) > len(IMPORTED) + 10:
        gc.collect()
        pytest_collection_finish()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Quick tests first: a slip shows in seconds, not after the browser is done.

    Several processes begin with what takes long, so that none of them is left alone with it at the end.
    """
    order = SLOW_FIRST if hasattr(config, "workerinput") else QUICK_FIRST

    def rank(item: pytest.Item) -> int:
        place = item.path.relative_to(ROOT / "tests").parts[0]
        return order.index(place) if place in order else len(order)

    items.sort(key=rank)


def own_environ() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(OWN_PREFIXES)}
    return {**own, **NO_HUB}


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """The environment for processes of the studio: the machine's own without what would steer a studio."""
    return own_environ()


@pytest.fixture(scope="session")
def popen(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Popen]:
    """`subprocess.Popen`, quicker: for workers and servers that a test does not kill, stop or run short."""
    if sys.platform != "linux":
        yield subprocess.Popen
    elif hasattr(pytestconfig, "workerinput"):
        yield partial(ForkedProcess, *pytestconfig.workerinput["forking"])
    else:
        with forking(tmp_path_factory.mktemp("forking"), environ) as popen:
            yield popen


@pytest.fixture
def studio_home(tmp_path: Path) -> Iterator[Path]:
    """An empty home for one test; workers that still run in it are ended afterwards."""
    home = tmp_path / "studio-home"
    yield home
    end_processes_of(home)


@pytest.fixture
def settings(studio_home: Path, tmp_path: Path) -> Settings:
    """Settings of a studio in `studio_home`, with an empty model cache."""
    made = Settings(home=studio_home, hf_cache=tmp_path / "hf-cache")
    made.prepare()
    return made


@pytest.fixture
def close() -> Iterator[Callable[[Path], None]]:
    """`close(path)`: nobody may look into that file or folder until the test is over, not even root."""
    closed: list[Path] = []
    libc, header, rights = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    if sys.platform == "linux":
        libc.capget(header, rights)
        may_look = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.capset(header, (ctypes.c_uint32 * 6)(rights[0] & ~may_look, *rights[1:]))

    def close(path: Path) -> None:
        closed.append(path)
        path.chmod(0)

    yield close
    for path in closed:
        path.chmod(0o700)
    if sys.platform == "linux":
        libc.capset(header, rights)


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """Folder of the demo model."""
    return DEMO_MODEL


@pytest.fixture(scope="session")
def demo_speech() -> Path:
    """Folder of the demo speech with `train.jsonl`, `validation.jsonl` and `test.jsonl`."""
    return DEMO_SPEECH


@pytest.fixture(scope="session")
def known_clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of six clips that the demo model hears well; its own test clips are of an accent."""
    sound = str(DEMO_SPEECH / "samples" / "kitchen-light.flac")
    said = ((0.2, 1.9, "turn on the kitchen light"), (2.0, 4.2, "set a timer for ten minutes"))
    rows = [
        {"audio": {"path": sound, "start_time": start - late, "end_time": end - late}, "sentence": text}
        for late in (0.0, 0.05, 0.1)
        for start, end, text in said
    ]
    path = tmp_path_factory.mktemp("known") / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def micro_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a Whisper that trains in milliseconds and knows nothing; see `tests/micro.py`."""
    return make_micro_model(tmp_path_factory.mktemp("micro") / "micro-whisper")


@pytest.fixture(scope="session")
def mute_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one that writes nothing, which takes no time."""
    return make_micro_model(tmp_path_factory.mktemp("mute") / "mute-whisper", is_mute=True)


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Manifest of twelve clips of a second."""
    return make_tones(tmp_path_factory.mktemp("tones"), count=12)


@pytest.fixture(scope="session")
def whisper_tiny() -> Path:
    """Folder of the real whisper-tiny."""
    return _folder_from("STUDIO_TEST_MODEL", "a folder with the real whisper-tiny")


@pytest.fixture(scope="session")
def real_speech() -> Path:
    """Folder of real speech: `aishell1_zh`, `speechocean762_en`, `jfk`."""
    return _folder_from("STUDIO_TEST_SPEECH", "a folder with real speech")


def _folder_from(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: it would name {what}")
    folder = Path(value)
    assert folder.is_dir(), f"{variable}={value} is not a folder"
    return folder


@pytest.fixture
def sees_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's GPU, for the driver and for processes that are started; torch here stays blind."""
    if OWN_CARDS is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", OWN_CARDS)


@pytest.fixture(scope="session")
def chromium() -> str | None:
    """Path of the system's Chromium; None for Playwright's own."""
    return os.environ.get("STUDIO_TEST_CHROMIUM")


RunStudio = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_studio(
    environ: dict[str, str], studio_home: Path, tmp_path: Path, popen: Popen, monkeypatch: pytest.MonkeyPatch
) -> RunStudio:
    """`run_studio("models", "list", home=…, extra=…)`: a command in the process of the tests.

    It works in an empty folder and reads an empty standard input; its workers are forked. `extra` reaches the
    settings, and no library: those read the environment when they are imported.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))

    def run(
        *arguments: str | Path, home: Path = studio_home, extra: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        # Never closed: a library that is imported meanwhile may keep one for its log.
        out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        variables = {**environ, "STUDIO_HOME": str(home), **(extra or {})}
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words, lambda: replace(Settings.from_env(variables), popen=popen))
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())

    return run


@pytest.fixture
def run_process(environ: dict[str, str], studio_home: Path, tmp_path: Path) -> RunStudio:
    """The same in a process of its own, as people start it; `extra` reaches all of it."""

    def run(*arguments: str | Path, extra: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "studio", *map(str, arguments)],
            cwd=tmp_path,
            env={**environ, "STUDIO_HOME": str(studio_home), **(extra or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=500,
        )

    return run


@pytest.fixture
def start_studio(
    environ: dict[str, str], studio_home: Path, popen: Popen
) -> Iterator[Callable[..., StudioProcess]]:
    """`start_studio(extra=…)`: a server that is up, on a free port; all are ended after the test.

    It is forked, and so are its workers, unless it is to be started truly.
    """
    started: list[StudioProcess] = []

    def start(*, extra: dict[str, str] | None = None, truly: bool = False) -> StudioProcess:
        how = {} if truly else forked_server(popen)
        process = StudioProcess(studio_home, {**environ, **(extra or {})}, **how)
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture(scope="module")
def studio_server(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory, popen: Popen
) -> Iterator[StudioProcess]:
    """One server for all tests of a file, forked: `.url`, `.home`, `.log()`."""
    home = tmp_path_factory.mktemp("server") / "studio-home"
    with StudioProcess(home, environ, **forked_server(popen)) as process:
        yield process
