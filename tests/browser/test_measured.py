"""Memory that was measured: of a run that failed for it, and of two steps on this machine."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Route, expect

from studio.files import write_json
from studio.options.arguments import config_to_dict
from studio.options.training import TrainingConfig
from studio.training.events import EventLog
from studio.training.run_dir import RunDir
from tests.browser.conftest import OpenPage, assert_nothing_is_too_wide, suspended
from tests.browser.test_memory import ERROR
from tests.studio_process import StudioProcess, processes_that_name

GIB = 1024**3


@pytest.fixture
def failed_run(studio_server: StudioProcess) -> RunDir:
    """The folder of a run that ran out on a card."""
    run = RunDir(studio_server.home / "runs" / "too-large")
    run.path.mkdir(parents=True)
    config = TrainingConfig(base_model="openai/whisper-small", method="full", lora_r=7, run_name="too large")
    write_json(run.config, config_to_dict(config))
    write_json(run.record, {"schema_version": 1, "created": "2026-01-02T03:04:05+00:00"})
    figures = {"allocated_bytes": 9 * GIB, "reserved_bytes": 10 * GIB, "device_bytes": 11 * GIB}
    EventLog(run.events).write(
        "memory",
        predicted={**figures, "label_length": 200, "low_bytes": 10 * GIB, "high_bytes": 12 * GIB},
        measured={**figures, "device": "RTX 3060"},
    )
    run.log.write_text(f"starting\n{ERROR}\n", encoding="utf-8")
    write_json(run.result, {"state": "failed", "error": "Memory ran out."})
    return run


def test_a_run_that_ran_out_is_explained_at_a_press_and_its_options_come_back_repaired(
    open_page: OpenPage, failed_run: RunDir
) -> None:
    page = open_page("train", width=390)
    page.get_by_role("button", name="too large").click()
    expect(page.locator("#run-memory .compared-row")).to_have_count(6)
    expect(page.locator("#run-memory")).to_contain_text("RTX 3060")
    asked: list[Route] = []
    page.route("**/run/*", lambda route: asked.append(route))
    page.locator("#run-explain").click()
    while not asked:
        page.wait_for_timeout(20)
    page.wait_for_timeout(1000)  # whatever else asks now: how many do is the page's own affair
    page.route("**/run/*", lambda route: route.continue_())
    for route in reversed(asked):  # the fields that were filled ask together, and the last is answered last
        with page.expect_event("requestfinished", lambda request, url=route.request: request == url):
            route.continue_()
    expect(page.locator("#oom-text textarea")).to_have_value(re.compile("Tried to allocate 2.00 GiB"))
    expect(page.locator("#oom-base_model input")).to_have_value(re.compile("small"))
    expect(page.locator("#oom-answer")).to_contain_text("4321")
    page.locator("#oom-use").click()
    expect(page.locator("#train-base_model input")).to_have_value(re.compile("small"))
    assert_nothing_is_too_wide(page)


@contextmanager
def measuring(home: Path) -> Iterator[None]:
    """A block in which the measurement that was asked for has begun and comes to no end."""
    while not (workers := processes_that_name(f"{home}/cache/probe-")):
        time.sleep(0.05)
    with suspended(*workers):
        yield


PRESSED_TWICE_UNTIL_IT_IS_OVER = """() => {
  const [stop, said] = ['memory-measure-stop', 'memory-measured'].map((id) => document.getElementById(id));
  if (stop?.getClientRects().length) {
    [stop, stop].forEach((button) => button.click());
    return null;
  }
  document.getElementById('memory-measure').click();
  return said?.textContent ?? 'What was said is gone.';
}"""
"""Who had asked may not have been told yet that the process is dead; the next measurement begins at once."""


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU: tests/gpu measures it")
def test_a_measurement_says_that_it_is_at_work_and_ends_at_a_press(
    open_page: OpenPage, studio_server: StudioProcess
) -> None:
    page = open_page()
    page.get_by_label("Model", exact=True).first.click()
    page.get_by_role("option", name="Demo model").first.click()
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--base_model demo"))
    page.locator("#memory-measure").click()
    with measuring(studio_server.home):
        expect(page.locator("#memory-measured")).to_contain_text("No GPU: measuring on the processor")
        page.reload()
        expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--base_model demo"))
        page.locator("#memory-measure").click()
        expect(page.locator("#memory-measured")).to_contain_text("Another measurement is at work")
        for worker in processes_that_name(f"{studio_server.home}/cache/probe-"):
            worker.kill()
    while list(studio_server.home.glob("cache/probe-*")):
        time.sleep(0.05)
    stands = page.wait_for_function(PRESSED_TWICE_UNTIL_IT_IS_OVER).json_value()
    assert "Another measurement is at work" in stands
    with measuring(studio_server.home):
        expect(page.locator("#memory-measured")).to_contain_text("No GPU: measuring on the processor")
        page.locator("#memory-measure-stop").click()
    expect(page.locator("#memory-measured")).to_contain_text("The measurement was stopped.")
    expect(page.locator("#memory-measure-stop")).to_be_hidden()
