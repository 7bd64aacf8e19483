"""How quick the memory answers are; takes no arguments. `python -m tests.benchmarks.memory_bounds`

The closed form over every drawn plan, the page from a change to the new figure in Chromium
(`STUDIO_TEST_CHROMIUM`, else Playwright's own), and a trace of large-v3 in its own process. The report is
`reports/memory_bounds.md`; the exit code is 1 if a bound is missed.
"""

import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from studio.memory.trace.store import library_versions, traced
from studio.memory.training import estimate_training
from studio.options.training import TrainingConfig
from studio.registry.catalog import find_released
from studio.settings import Settings
from studio.training.plan import planned
from tests.benchmarks.memory_traces import draw
from tests.studio_process import StudioProcess

REPORT = Path(__file__).parent / "reports" / "memory_bounds.md"
BOUNDS = {"closed form, median": 0.002, "page, median": 0.150, "trace of large-v3": 8.0}
"""Seconds."""
_ROUNDS = 5
_CHANGES = 20
_WATCH = """() => new Promise(done => {
    const verdict = document.querySelector('#memory-verdict'), before = verdict.innerText;
    const box = document.querySelector('#memory-gradient_checkpointing input');
    const look = new MutationObserver(() => {
        if (verdict.innerText !== before && verdict.innerText.includes('GiB')) {
            look.disconnect(); done(performance.now() - start);
        }
    });
    look.observe(verdict, {childList: true, subtree: true, characterData: true});
    const start = performance.now();
    box.click();
})"""
"""From the event of an input to the new figure on the page, in milliseconds."""


def closed_form() -> list[float]:
    """Seconds of each drawn plan's estimate: the best of some rounds, since other work only adds."""
    seconds = []
    for case in draw():
        rounds = []
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            estimate_training(case.plan, case.dimensions)
            rounds.append(time.perf_counter() - start)
        seconds.append(min(rounds))
    return seconds


def page_updates() -> list[float]:
    """Seconds from a change in the form to another verdict."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        environ = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
        with StudioProcess(Path(name) / "home", environ) as server:
            browser = playwright.chromium.launch(
                executable_path=os.environ.get("STUDIO_TEST_CHROMIUM"), args=["--no-sandbox"]
            )
            page = browser.new_page()
            page.goto(server.url)
            page.wait_for_function(
                "document.querySelector('#memory-verdict')?.innerText.includes('GiB')", timeout=120_000
            )
            page.wait_for_timeout(5000)
            seconds = [_one_update(page) for _ in range(_CHANGES + 2)][2:]
            browser.close()
    return seconds


def _one_update(page: Page) -> float:
    milliseconds = float(page.evaluate(_WATCH))
    page.wait_for_timeout(2000)  # the page is at rest before the next change
    return milliseconds / 1000


def traces() -> tuple[float, float, float]:
    """Seconds of a trace that has to be made, those of the processor, and of the same from the cache."""
    model = find_released("large-v3")
    assert model is not None
    plan = planned(TrainingConfig(), 128)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as name:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            traced(plan, model.dimensions, Settings(home=Path(name)))
            seconds.append(time.perf_counter() - start)
            if len(seconds) == 1:
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds[0], used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, seconds[1]


def report(rows: dict[str, tuple[float, str]], load: float) -> str:
    """The report as Markdown; the machine is named."""
    lines = [
        f"| {name} | {value * 1000:,.2f} ms | {f'{BOUNDS[name] * 1000:,.0f} ms' if name in BOUNDS else ''} "
        f"| {more} |"
        for name, (value, more) in rows.items()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    return (
        "# Bounds of the memory answers\n\nMade by `python -m tests.benchmarks.memory_bounds`.\n\n"
        "| what | took | bound | more |\n|---|---|---|---|\n" + "\n".join(lines) + "\n\n"
        f"On {os.cpu_count()} CPU cores ({platform.machine()}, {platform.system()}) without a GPU, load "
        f"average {load:.1f} from other work; Python {platform.python_version()}, {versions}.\n"
    )


def main() -> int:
    """Measures, writes the report, and tells whether all bounds are kept."""
    load = os.getloadavg()[0]
    form, updates = closed_form(), page_updates()
    made, worked, cached = traces()
    rows = {
        "closed form, median": (
            statistics.median(form),
            f"worst of {len(form)} plans {max(form) * 1e3:.2f} ms",
        ),
        "page, median": (
            statistics.median(updates),
            f"quickest {min(updates) * 1e3:.0f} ms, slowest "
            f"{max(updates) * 1e3:.0f} ms of {len(updates)} changes",
        ),
        "trace of large-v3": (
            worked,
            f"of the processor, in its own process; {made:.1f} s on the clock",
        ),
        "the same trace from the cache": (cached, ""),
    }
    REPORT.write_text(report(rows, load), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))
    return int(any(rows[name][0] > bound for name, bound in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main())
