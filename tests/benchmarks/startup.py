"""How soon the page answers, against a minimal Gradio app of three tabs; takes no arguments.

Each of the two is started five times in turn, and timed from the start of its process to its first answer; so
is the studio with 10,000 old runs and 1,000 models, 100 of either broken. Then its runs and its models are
asked for, ten times each, and listed by the command line, three times. The report goes to
`tests/benchmarks/reports/startup.md`; the exit code is 1 if the ratio of the medians is above 1.6, or the
Train tab takes longer than 0.3 s.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from studio.runs.manager import MOST_LISTED  # noqa: E402
from studio.services import Services  # noqa: E402
from studio.settings import Settings  # noqa: E402
from studio.ui.train.run_panel import Answers, render  # noqa: E402
from tests.studio_process import StudioProcess  # noqa: E402

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "startup.md"
OLD_HOME = ROOT / "tests" / "golden" / "homes" / "2026-11-23"
ROUNDS = 5
RUNS, MODELS, BROKEN = 10_000, 1000, 100
HIGHEST_RATIO = 1.6
MOST_TAB_SECONDS = 0.3
MINIMAL_APP = """
import gradio as gr

with gr.Blocks() as app:
    for name in ("One", "Two", "Three"):
        with gr.Tab(name):
            text = gr.Textbox(label=name)
            gr.Button("Go").click(lambda value: value, text, text)
app.launch()
"""


def seconds_to_first_answer(command: list[str], home: Path) -> float:
    """From the start of the process until the page answers."""
    environ = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    process = StudioProcess(home, environ, command=command)
    start = time.perf_counter()
    with process:
        return time.perf_counter() - start


def measure() -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each round, which take turns, so that a busy moment meets all; seconds of each question."""
    studio = [sys.executable, "app.py"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        minimal = folder / "minimal.py"
        minimal.write_text(MINIMAL_APP, encoding="utf-8")
        make_large(folder / "large")
        starts = {
            "minimal app": ([sys.executable, str(minimal)], folder / "home"),
            "studio": (studio, folder / "home"),
            "studio, large home": (studio, folder / "large"),
        }
        seconds: dict[str, list[float]] = {what: [] for what in starts}
        for command, home in starts.values():  # once unmeasured: files come from the disk only the first time
            seconds_to_first_answer(command, home)
        for number in range(ROUNDS):
            for what, (command, home) in starts.items():
                seconds[what].append(seconds_to_first_answer(command, home))
                print(f"round {number + 1}: {what} {seconds[what][-1]:.2f} s", flush=True)
        return seconds, {
            f"{what}, {where}": asked
            for where in ("home", "large")
            for what, asked in {
                **seconds_to_list(folder / where),
                **seconds_of_commands(folder / where),
            }.items()
        }


def make_large(home: Path) -> None:
    """A home of runs that finished and of models, copies of what an earlier version made; of either some are
    broken."""
    runs, models = home / "runs", home / "models"
    for number in range(RUNS):
        run = runs / f"finished-{20100101 + number}-120000"
        shutil.copytree(OLD_HOME / "runs" / "finished-20261123-040005", run)
        if number % (RUNS // BROKEN) == 0:
            (run / "config.json").write_text("{", encoding="utf-8")
    for number in range(MODELS):
        shutil.copytree(OLD_HOME / "models" / "finished", models / f"model-{number}")
        if number % (MODELS // BROKEN) == 0:
            (models / f"model-{number}" / "model.json").write_text("{", encoding="utf-8")


def seconds_to_list(home: Path) -> dict[str, list[float]]:
    """What an open page asks again and again, after it was asked once."""
    services = Services.open(Settings.from_env({**os.environ, "STUDIO_HOME": str(home)}))
    asked: dict[str, list[float]] = {}
    shown: dict[str, str] = {}
    answers = Answers()

    def tick() -> None:
        """What the Train tab asks once a second or less often: the chosen run, and the list of all."""
        selected, fingerprints, *_ = render(services.jobs, shown.get("run", ""), shown, answers, "en")
        shown.update(fingerprints, run=selected)

    questions = {
        "runs": lambda: services.jobs.runs(MOST_LISTED),
        "models": services.registry.all,
        "Train tab, a look": tick,
    }
    for what, question in questions.items():
        question()
        for _ in range(10):
            start = time.perf_counter()
            question()
            asked.setdefault(what, []).append(time.perf_counter() - start)
    services.close()
    return asked


def seconds_of_commands(home: Path) -> dict[str, list[float]]:
    """What the command line takes to list runs and models, its own start included."""
    taken: dict[str, list[float]] = {}
    for command in ("runs", "models"):
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "studio", command],
                cwd=ROOT,
                env={**os.environ, "STUDIO_HOME": str(home)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            taken.setdefault(f"`python -m studio {command}`", []).append(time.perf_counter() - start)
    return taken


def report(seconds: dict[str, list[float]], asked: dict[str, list[float]], ratio: float) -> str:
    """The report as Markdown."""
    rows = "\n".join(
        f"| {what} | {statistics.median(values):.2f} | {', '.join(f'{value:.2f}' for value in values)} |"
        for what, values in seconds.items()
    )
    lists = "\n".join(
        f"| {what} | {1000 * statistics.median(values):.1f} |" for what, values in asked.items()
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, encoding="utf-8"
    ).stdout.strip()
    return f"""# Start of the page

Seconds from the start of the process to the first answer of the page, {ROUNDS} rounds in turn, made by
`python tests/benchmarks/startup.py`.

| | median | each |
|---|---|---|
{rows}

Ratio of the medians, studio to minimal app: **{ratio:.2f}** (at most {HIGHEST_RATIO}). The large home has
{RUNS:,} runs and {MODELS:,} models, {BROKEN} of either broken.

What the page asks for again and again, after the first time: the newest {MOST_LISTED} runs, all models, and
all that the Train tab shows (at most {1000 * MOST_TAB_SECONDS:.0f} ms); and what the command line takes to
list as much, its own start included.

| | median, ms |
|---|---|
{lists}

Machine: {platform.machine()}, {os.cpu_count()} CPU cores, {platform.system()} {platform.release()};
Python {platform.python_version()}, gradio {version("gradio")}, torch {version("torch")}; commit
{commit or "unknown"}, {datetime.now(UTC):%Y-%m-%d}.
"""


def main() -> int:
    """Measures, writes the report, and tells whether the studio is quick enough."""
    seconds, asked = measure()
    ratio = statistics.median(seconds["studio"]) / statistics.median(seconds["minimal app"])
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(report(seconds, asked, ratio), encoding="utf-8")
    print(f"ratio {ratio:.2f}, report in {REPORT.relative_to(ROOT)}")
    tab = max(statistics.median(values) for what, values in asked.items() if "a look" in what)
    return 0 if ratio <= HIGHEST_RATIO and tab <= MOST_TAB_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
