"""How soon the page answers, against a minimal Gradio app of three tabs; takes no arguments.

Each of the two is started five times in turn, and timed from the start of its process to its first answer.
The report goes to `tests/benchmarks/reports/startup.md`; the exit code is 1 if the ratio of the medians is
above 1.6.
"""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.studio_process import StudioProcess  # noqa: E402

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "startup.md"
ROUNDS = 5
HIGHEST_RATIO = 1.6
MINIMAL_APP = """
import gradio as gr

with gr.Blocks() as app:
    for name in ("One", "Two", "Three"):
        with gr.Tab(name):
            text = gr.Textbox(label=name)
            gr.Button("Go").click(lambda value: value, text, text)
app.launch()
"""


def seconds_to_first_answer(command: list[str], folder: Path) -> float:
    """From the start of the process until the page answers."""
    environ = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    process = StudioProcess(folder / "home", environ, command=command)
    start = time.perf_counter()
    with process:
        return time.perf_counter() - start


def measure() -> dict[str, list[float]]:
    """Seconds of each round; the two take turns, so that a busy moment meets both."""
    seconds: dict[str, list[float]] = {"minimal app": [], "studio": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        minimal = folder / "minimal.py"
        minimal.write_text(MINIMAL_APP, encoding="utf-8")
        commands = {"minimal app": [sys.executable, str(minimal)], "studio": [sys.executable, "app.py"]}
        for command in commands.values():  # once unmeasured: files come from the disk only the first time
            seconds_to_first_answer(command, folder)
        for number in range(ROUNDS):
            for what, command in commands.items():
                seconds[what].append(seconds_to_first_answer(command, folder))
                print(f"round {number + 1}: {what} {seconds[what][-1]:.2f} s", flush=True)
    return seconds


def report(seconds: dict[str, list[float]], ratio: float) -> str:
    """The report as Markdown."""
    rows = "\n".join(
        f"| {what} | {statistics.median(values):.2f} | {', '.join(f'{value:.2f}' for value in values)} |"
        for what, values in seconds.items()
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

Ratio of the medians: **{ratio:.2f}** (at most {HIGHEST_RATIO}).

Machine: {platform.machine()}, {os.cpu_count()} CPU cores, {platform.system()} {platform.release()};
Python {platform.python_version()}, gradio {version("gradio")}, torch {version("torch")}; commit
{commit or "unknown"}.
"""


def main() -> int:
    """Measures, writes the report, and tells whether the studio is quick enough."""
    seconds = measure()
    ratio = statistics.median(seconds["studio"]) / statistics.median(seconds["minimal app"])
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(report(seconds, ratio), encoding="utf-8")
    print(f"ratio {ratio:.2f}, report in {REPORT.relative_to(ROOT)}")
    return 0 if ratio <= HIGHEST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
