"""A real browser for the tests: one process, a fresh visitor a test, and no error in the page goes unseen."""

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Playwright,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

from studio.settings import DEMO_SPEECH
from tests.benchmarks.live import QUIET, browser_that_hears, microphone_file, shell_of
from tests.studio_process import StudioProcess, processes_that_name

KITCHEN_LIGHT = DEMO_SPEECH / "samples" / "kitchen-light.flac"
PATIENCE_MILLISECONDS = 90_000
NO_FAULTS = (
    *("AbortError", "Connection errored out", "Failed to load resource", "Failed to fetch"),
    "Waveform load error",
)
"""What the front end says of its open streams when the page is left, and of a file that is no sound."""
TABS = ("memory", "train", "playground", "evaluate", "models")

RAW_MICROPHONE = """{
  const ask = navigator.mediaDevices?.getUserMedia.bind(navigator.mediaDevices);
  const raw = {echoCancellation: false, noiseSuppression: false, autoGainControl: false};
  if (ask) navigator.mediaDevices.getUserMedia = (asked) => ask({...asked, audio: raw});
}"""
"""The page hears what the file has: what Chromium does to a microphone depends on how busy the machine is."""

MOVED = """() => {
  const observer = new PerformanceObserver(() => {});
  observer.observe({type: 'layout-shift', buffered: true});
  const since = window.looked ?? 0;
  window.looked = performance.now();
  const named = (node) => `${node?.id || node?.parentElement?.id} ${node?.className || node?.nodeName || ''}`;
  const place = ({y, height}) => `${Math.round(y)}+${Math.round(height)}`;
  return observer.takeRecords().filter((one) => one.startTime >= since).map((one) => [
    one.startTime, one.value, one.hadRecentInput,
    one.sources.map((its) => `${named(its.node)} ${place(its.previousRect)} > ${place(its.currentRect)}`)
  ]);
}"""
"""Moves since it was asked last: when, how far, whether within half a second of an input, and what from where
to where."""
SHIFT = "layout shift"
MOST_MOVED = 0.1
"""What counts as good (web.dev/cls)."""

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def playwright(pytestconfig: pytest.Config) -> Iterator[Playwright]:
    """What starts browsers; there can be one in a process. `--slowed` holds for every page of them."""
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    rate = pytestconfig.getoption("--slowed")
    plain = BrowserContext.new_page

    def slowed(context: BrowserContext) -> Page:
        page = plain(context)
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": rate})
        return page

    with sync_playwright() as started, pytest.MonkeyPatch.context() as patch:
        if rate > 1:
            patch.setattr(BrowserContext, "new_page", slowed)
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright, chromium: str | None) -> Iterator[Browser]:
    """Chromium without a window."""
    browser = playwright.chromium.launch(executable_path=shell_of(chromium), args=list(QUIET))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def left(browser: Browser) -> Iterator[dict[str, list[BrowserContext]]]:
    """Contexts by locale whose visitors have left and are forgotten. What the page's scripts were compiled to
    is kept with them: a visitor in a new context costs nearly twice as much."""
    by_locale: dict[str, list[BrowserContext]] = defaultdict(list)
    yield by_locale
    for context in chain(*by_locale.values()):
        context.close()


@pytest.fixture
def open_page(
    browser: Browser,
    left: dict[str, list[BrowserContext]],
    playwright: Playwright,
    chromium: str | None,
    studio_server: StudioProcess,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[OpenPage]:
    """`open_page("train", locale="zh-TW", width=390)`: a new visitor who looks at a tab.

    The microphone of one who `hears` a clip plays it, once or again and again; who is to be `notified` has a
    whole browser. Where the page of another one of the same kind was closed, its context is used. The test
    fails if a script of the page failed, or if something on it opened a dialog.
    """
    faults: list[str] = []
    contexts: dict[BrowserContext, tuple[str, Path | None, bool]] = {}
    hearing: dict[Path, Browser] = {}
    whole: list[Browser] = []

    def console(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in NO_FAULTS):
            faults.append(message.text)

    def open_tab(
        tab: str = "memory",
        *,
        locale: str = "en-US",
        width: int = 1280,
        theme: str = "light",
        path: str = "/",
        hears: Path | None = None,
        again_and_again: bool = False,
        notified: bool = False,
    ) -> Page:
        if hears and hears not in hearing:
            sound = microphone_file(hears, tmp_path)
            hearing[hears] = browser_that_hears(playwright, sound, again_and_again=again_and_again)
            put_first(str(sound))
        size: ViewportSize = {"width": width, "height": 900}
        kind = (locale, hears, notified)
        if used := next((one for one, its in contexts.items() if its == kind and not one.pages), None):
            context = used
            forget(context, studio_server.url)
            context.grant_permissions(["microphone"] if hears else [])
        elif hears:
            context = hearing[hears].new_context(locale=locale, permissions=["microphone"])
            context.add_init_script(RAW_MICROPHONE)
        elif notified:
            channel = None if chromium else "chromium"
            whole.append(playwright.chromium.launch(executable_path=chromium, channel=channel, args=QUIET))
            context = whole[-1].new_context(locale=locale)
        elif left[locale]:
            context = left[locale].pop()
        else:
            context = browser.new_context(locale=locale)
        contexts[context] = kind
        context.once("close", lambda closed: contexts.pop(closed, None))
        page = context.new_page()
        page.set_viewport_size(size)
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.on("console", console)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(f"{studio_server.url}{path}?__theme={theme}")
        expect(page.locator("#memory-parts table")).to_be_visible()
        show_tab(page, tab)
        return page

    yield open_tab
    for number, page in enumerate(page for context in contexts for page in context.pages):
        request.node.user_properties.append((SHIFT, layout_shift(page)[:2]))
        look(page, f"{request.node.name}{number or ''}", request)
    for opened in (*hearing.values(), *whole):
        opened.close()
    for context, (locale, hears, notified) in [*contexts.items()]:
        if not hears and not notified:
            forget(context, studio_server.url)
            left[locale].append(context)
    assert faults == []


def forget(context: BrowserContext, origin: str) -> None:
    """Who comes next in this context is a stranger to the page."""
    empty = context.new_page()
    for page in context.pages:
        if page != empty:
            page.close()  # before it is forgotten: the page keeps what is on it when it is left
    everything = {"origin": origin, "storageTypes": "all"}
    context.new_cdp_session(empty).send("Storage.clearDataForOrigin", everything)
    context.clear_cookies()
    context.clear_permissions()
    empty.close()


def look(page: Page, name: str, request: pytest.FixtureRequest) -> None:
    """Every story ends with a picture, where `--looks` says where to."""
    folder = request.config.getoption("--looks")
    if folder and not page.is_closed():
        name = re.sub(r"[^\w-]+", "-", name).strip("-")
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def put_first(argument: str) -> None:
    """Lets processes that were started from here with `argument` go before all others, where that is allowed.

    A microphone that plays a file goes on whether Chromium has listened or not: beside busy processes it
    loses words, as no real one does.
    """
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            if argument in " ".join(process.cmdline()):
                process.nice(-15)
                Path(f"/proc/{process.pid}/autogroup").write_text("-15", "ascii")  # Linux shares by session


@contextmanager
def at_rest(home: Path, run: str) -> Iterator[None]:
    """A block in which a run that has begun to train does no step: a slow page would see only its end."""
    logs, step = f"runs/{run}-*/events.jsonl", '"kind": "step"'
    while not any(step in path.read_text("utf-8") for path in home.glob(logs)):
        time.sleep(0.05)
    with suspended(*processes_that_name(f"{home}/runs/{run}-")):
        yield


@contextmanager
def suspended(*workers: psutil.Process) -> Iterator[None]:
    """A block in which they do nothing; they may be ended meanwhile."""
    for worker in workers:
        worker.suspend()
    try:
        yield
    finally:
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.resume()


def show_tab(page: Page, tab: str) -> None:
    """Opens a tab by its place, and waits until one can type into it."""
    page.locator("#studio-tabs > .tab-wrapper [role=tab]").nth(TABS.index(tab)).click()
    page.wait_for_function(TAB_IS_THERE)
    page.evaluate(TWO_FRAMES)


def unfold(page: Page, name: str) -> None:
    """Opens what is folded under a name, and waits until one can type into it."""
    heading = page.get_by_role("button", name=name)
    heading.click()
    heading.locator("xpath=following-sibling::*").locator(TYPED_OR_PRESSED).first.wait_for()
    page.evaluate(TWO_FRAMES)


TYPED_OR_PRESSED = "input:visible, textarea:visible, button:visible"
TAB_IS_THERE = """() => [...document.querySelectorAll('#studio-tabs > [role=tabpanel]')].some(
  (panel) => panel.getClientRects().length && panel.querySelector('button, input'))"""
TWO_FRAMES = """() => new Promise((done) =>
  requestIdleCallback(() => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))),
    {timeout: 5_000}))"""
"""With the first frame after a field is there, Gradio writes its value over what was filled in meanwhile."""


NOTES_ITS_WORDS = """(button) => {
  window.said = [];
  new MutationObserver(() => window.said.push(button.textContent)).observe(button, {childList: true});
}"""


def press_and_read(button: Locator, text: str) -> None:
    """Presses what then says something for two seconds, in which nobody may look on a busy machine."""
    button.evaluate(NOTES_ITS_WORDS)
    button.click()
    button.page.wait_for_function("(text) => window.said.includes(text)", arg=text)


def assert_all_columns_are_in_sight(table: Locator) -> None:
    """`table` is what would scroll."""
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth"), "a column is out of sight"


def assert_nothing_is_too_wide(page: Page) -> None:
    """At a desk, and on a telephone."""
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")


def wait_until_recorded(recorder: Locator, seconds: int) -> None:
    """The clock of a recorder is there or, as somebody who looks late may find it, past that."""
    tens, ones = divmod(seconds, 10)
    later = re.compile(rf"[1-9]:|0:({tens}[{ones}-9]|[{tens + 1}-5]\d)")
    expect(recorder.locator("time").last).to_have_text(later)


def forget_what_moved(page: Page) -> None:
    """Before something is watched, or after a picture of the whole page, for which it is laid out anew."""
    page.evaluate(MOVED)


def assert_little_moved(page: Page) -> tuple[float, float]:
    """Cumulative layout shift (web.dev/cls) since it was asked last: in the worst five seconds, without and
    with what follows an input.

    Fails, and says what moved, if one of them is more than what counts as good.
    """
    unasked, whole, said = layout_shift(page)
    assert max(unasked, whole) <= MOST_MOVED, said
    return unasked, whole


def layout_shift(page: Page) -> tuple[float, float, str]:
    """How far things moved without, and with what follows an input, and what moved."""
    moves = page.evaluate(MOVED)
    unasked, whole = _worst(moves, is_asked=False), _worst(moves, is_asked=True)
    said = [f"{time:.0f} ms, {value:.4f}, asked: {asked}: {what}" for time, value, asked, what in moves]
    return unasked, whole, "\n".join(said)


def _worst(moves: list[tuple[float, float, bool, list[str]]], *, is_asked: bool) -> float:
    worst = total = 0.0
    begin = last = -math.inf
    for moment, value, was_asked, _ in moves:
        if was_asked and not is_asked:
            continue
        if moment - last >= 1000 or moment - begin >= 5000:
            total, begin = 0.0, moment
        total, last = total + value, moment
        worst = max(worst, total)
    return worst


def held(page: Page, what: str, saying: str = "") -> Callable[..., None]:
    """Holds the page's requests of a kind back; what is given lets them go."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        if saying in (route.request.post_data or ""):
            waiting.append(route)
        else:
            route.continue_()

    def let_go(*, well: bool = True) -> None:
        while not (waiting or well):
            page.wait_for_timeout(20)  # what is to fail has been sent, and is on its way here
        page.route(f"**/{what}*", lambda route: route.continue_())
        for route in waiting:  # Gradio loads the page again two seconds after a connection that is lost
            route.continue_() if well else route.fulfill(status=500, json={"detail": "out of order"})

    page.route(f"**/{what}*", hold)
    return let_go


class Pictures:
    """Keeps what is seen in the folder of `--screenshots`, where one is given: a picture costs as much as ten
    clicks."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) if folder else None

    def take(self, page: Page, name: str = "", **options: Any) -> bytes:
        """What is seen, kept under a name if it has one; nothing without a folder."""
        if not self.folder:
            return b""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.png" if name else None
        return page.screenshot(path=path, full_page=bool(name), **options)


@pytest.fixture
def pictures(request: pytest.FixtureRequest) -> Pictures:
    return Pictures(request.config.getoption("--screenshots"))
