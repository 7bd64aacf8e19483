"""What the page costs the browser: opened, answering, left alone, beside a run; Gradio's scripts and ours.

`python -m tests.benchmarks.page`: a studio with the demo, Chromium, both scripts in turn (see
`studio/ui/quick_page.py`). Processor time is that of the page's process. The report goes to
`tests/benchmarks/reports/page.md`.
"""

import os
import platform
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import psutil
from gradio.route_utils import BUILD_PATH_LIB
from gradio_client import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.benchmarks.live import QUIET
from tests.studio_process import ROOT, StudioProcess

REPORT = ROOT / "tests" / "benchmarks" / "reports" / "page.md"
ROUNDS, RESTED_SECONDS, WATCHED_SECONDS = 3, 20, 30
BATCHES = (2, 4, 6, 8, 12)
GRADIOS, OURS = "Gradio's script", "ours"
RUN = {
    "base_model": "demo",
    "train_data": "demo:train",
    "max_steps": 5000,
    "eval_strategy": "no",
    "eval_on_start": False,
    "capability_check": False,
}
OPENED, ANSWERED, RESTED, WATCHED = (
    "opened, processor seconds",
    "a number changed, processor seconds each",
    f"left alone for {RESTED_SECONDS} s, processor seconds",
    f"a run watched for {WATCHED_SECONDS} s, processor seconds",
)
SLOWED = 4
FIRST = f"first view on a processor {SLOWED} times slower, seconds"
WAITED = "from the number to the new verdict, seconds"
Figures = dict[str, list[float]]


def processor_seconds() -> float:
    """Of all pages that are open."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                used += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return used


@contextmanager
def counted(figures: list[float], times: int = 1) -> Iterator[None]:
    """Adds the processor time of what is done meanwhile, a `times`-th of it."""
    before = processor_seconds()
    yield
    figures.append((processor_seconds() - before) / times)


def new_page(browser: Browser, script: str) -> Page:
    """A page that will be shown by one of the two scripts."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(90_000)
    if script == GRADIOS:
        page.route(
            re.compile(r"/assets/(core|Blocks|statustracker)-[^/]*\.js$"),
            lambda route: route.fulfill(path=Path(BUILD_PATH_LIB) / route.request.url.rpartition("/")[2]),
        )
    return page


def first_view(browser: Browser, url: str, script: str) -> float:
    """Seconds until a slow processor shows the first verdict."""
    page = new_page(browser, script)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
    begun = time.perf_counter()
    page.goto(url)
    expect(page.locator("#memory-parts table")).to_be_visible(timeout=90_000)
    taken = time.perf_counter() - begun
    page.context.close()
    return taken


def measure(browser: Browser, url: str, script: str, figures: Figures) -> None:
    """One round of one script."""
    figures[FIRST].append(first_view(browser, url, script))
    page = new_page(browser, script)
    with counted(figures[OPENED]):
        page.goto(url)
        expect(page.locator("#memory-parts table")).to_be_visible(timeout=90_000)
        page.wait_for_timeout(1500)
    batch = page.locator("#memory-per_device_train_batch_size input").first
    with counted(figures[ANSWERED], len(BATCHES)):
        for size in BATCHES:
            begun = time.perf_counter()
            batch.fill(str(size))
            shown = re.compile(rf"batch_size {size}\b")
            expect(page.locator("#memory-command textarea")).to_have_value(shown, timeout=90_000)
            figures[WAITED].append(time.perf_counter() - begun)
    with counted(figures[RESTED]):
        page.wait_for_timeout(1000 * RESTED_SECONDS)
    page.locator("#studio-tabs > .tab-wrapper [role=tab]").nth(1).click()
    expect(page.locator("#run-status")).to_contain_text("step", timeout=400_000)
    with counted(figures[WATCHED]):
        page.wait_for_timeout(1000 * WATCHED_SECONDS)
    page.context.close()


def report(found: dict[str, Figures]) -> str:
    """The table of the report: medians, and how they compare."""
    made_with = ", ".join(f"{name} {version(name)}" for name in ("gradio", "playwright"))
    rows = []
    for what in (FIRST, OPENED, WAITED, ANSWERED, RESTED, WATCHED):
        plain, mine = (statistics.median(found[script][what]) for script in (GRADIOS, OURS))
        rows.append(f"| {what} | {plain:.2f} | {mine:.2f} | {mine / plain:.2f} |\n")
    return (
        "# What the page costs the browser\n\n"
        f"`python -m tests.benchmarks.page`, {ROUNDS} rounds of either script in turn, medians; a run "
        f"trains the demo beside them. {os.cpu_count()} CPU cores, load of {os.getloadavg()[0]:.1f} at the "
        f"end, Python {platform.python_version()}, {made_with}.\n\n"
        f"| the page | {GRADIOS} | {OURS} | ratio |\n|---|---|---|---|\n" + "".join(rows)
    )


def main() -> None:
    """Measures, prints and writes the report."""
    found: dict[str, Figures] = {script: defaultdict(list) for script in (GRADIOS, OURS)}
    environ = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    with (
        tempfile.TemporaryDirectory() as name,
        StudioProcess(Path(name) / "home", environ) as studio,
        sync_playwright() as playwright,
    ):
        Client(studio.url, verbose=False).predict(config=RUN, api_name="/start_run")
        chromium = os.environ.get("STUDIO_TEST_CHROMIUM")
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        for _ in range(ROUNDS):
            for script, figures in found.items():
                measure(browser, studio.url, script, figures)
        browser.close()
    REPORT.write_text(report(found), encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
