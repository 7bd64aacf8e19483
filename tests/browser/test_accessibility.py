"""The page for those who hear it, see little of it, have no mouse, or click where something stood."""

import re
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import (
    KITCHEN_LIGHT,
    SHIFT,
    TWO_FRAMES,
    OpenPage,
    assert_little_moved,
    forget_what_moved,
    show_tab,
)
from tests.browser.test_memory import ERROR
from tests.golden.conftest import HOMES
from tests.studio_process import StudioProcess

AT_ONCE = "*, *::before, *::after {transition: none !important; animation: none !important}"
"""What is half faded in has half its contrast."""


@pytest.fixture(scope="module", autouse=True)
def finished_run(studio_server: StudioProcess) -> None:
    """A run with all that the page has to say of one."""
    (run,) = HOMES.glob("*/runs/finished-*")
    shutil.copytree(run, studio_server.home / "runs" / run.name)


def fill(page: Page, tab: str) -> None:
    """Has the tab show what it is for."""
    if tab == "memory":
        page.locator("#memory-chart").scroll_into_view_if_needed()
        expect(page.locator("#memory-chart figure")).to_be_visible()
        page.locator("#memory-base_model input").click()
        page.get_by_role("option", name="Whisper large-v3 ").first.click()
        expect(page.locator("#memory-command textarea")).to_have_value(re.compile("large-v3"))
    elif tab == "train":
        expect(page.locator("#run-samples table").first).to_be_visible()
        expect(page.locator("#run-loss .js-plotly-plot")).to_be_visible()
    elif tab == "playground":
        page.locator(".samples button").first.click()
        page.locator("#transcribe-start").click()
        expect(page.locator("#transcript-downloads a").first).to_be_visible()
        expect(page.locator("#transcribe-audio time").first).to_be_visible()
    elif tab == "evaluate":
        page.locator("#evaluate-max_samples input").fill("2")
        page.locator("#evaluate-start").click()
        expect(page.locator("#evaluate-utterances tbody tr")).to_have_count(2)
        expect(page.locator("#evaluate-groups .js-plotly-plot")).to_be_visible()
    else:
        page.locator("#models-table .link-button").first.click()
        expect(page.locator("#models-details h2")).to_be_visible()


STILL = "!document.querySelector('[aria-busy=\"true\"]') && !window.stirred"
STIRS = """() => {
  window.stirred = false;
  window.stirs ??= new MutationObserver(() => { window.stirred = true; });
  window.stirs.observe(document.body, {subtree: true, attributeFilter: ['aria-busy']});
}"""
"""Notes whether anything began or ended to wait for an answer: what waits is dim."""


OF_GRADIO = {"nested-interactive": "#many-files .icon-button"}
"""Rules that Gradio's own markup breaks, and where: its button for more files has their field in it."""


def faults(page: Page) -> list[str]:
    """What axe-core has to say against the page as it is shown, while nothing waits for an answer."""
    for _ in range(20):
        expect(page.locator('[aria-busy="true"]')).to_have_count(0)
        page.evaluate(STIRS)
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response
        if page.evaluate(STILL):
            break
    else:
        raise AssertionError("the page never came to rest")
    assert len(found["passes"]) > 20, "it looked"
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}"
        for rule in found["violations"]
        for node in rule["nodes"]
        if not page.locator(node["target"][0])
        .and_(page.locator(OF_GRADIO.get(rule["id"], "nothing")))
        .count()
    ]


UNFOLD = """async () => {
  const shown = (one) => one.getClientRects().length;
  for (const seen = new Set(); ;) {
    const folded = [...document.querySelectorAll('button.label-wrap:not(.open), details:not([open])')];
    const fresh = folded.filter((one) => shown(one) && !seen.has(one));
    if (!fresh.length) return;
    for (const one of fresh) { seen.add(one); one.tagName === 'DETAILS' ? one.open = true : one.click(); }
    await new Promise((done) => setTimeout(done, 200));
  }
}"""
"""Opens all that can be folded, and what is folded in that."""
SECTIONS = {"memory": "#memory-sections", "playground": "#transcribe-sections"}


def fill_section(page: Page, number: int, tab: str) -> None:
    """Opens a section by its place, and has it show what it is for."""
    page.locator(f"{SECTIONS[tab]} > .tab-wrapper [role=tab]").nth(number).click()
    if (tab, number) == ("memory", 1):
        expect(page.locator("#fit-verdict")).to_contain_text("RTX 4090")
    elif (tab, number) == ("memory", 2):
        page.locator("#oom-text textarea").fill(ERROR)
        expect(page.locator("#oom-answer .note").first).to_be_visible()
    elif (tab, number) == ("memory", 3):
        expect(page.locator("#doctor-report table")).to_contain_text("讀取音訊")
        expect(page.locator("#doctor-report tbody tr")).to_have_count(9)
        expect(page.locator("#doctor-links a")).to_be_visible()
    elif (tab, number) == ("playground", 1):
        page.locator("#many-files input[type=file]").set_input_files([KITCHEN_LIGHT])
        expect(page.locator("#many-files table")).to_be_visible()
        page.locator("#many-start").click()
        expect(page.locator("#many-download a").first).to_be_visible()
    elif (tab, number) == ("playground", 3):
        page.locator(".samples button:visible").first.click()
        page.locator("#compare-start").click()
        expect(page.locator("#compare-download a")).to_be_visible()


def assert_it_stays(page: Page, story: str, request: pytest.FixtureRequest) -> float:
    """Notes, and returns, how far things have moved by themselves."""
    found = assert_little_moved(page)
    request.node.user_properties.append((f"{SHIFT}: {story}", found))
    return found[0]


ENGLISH_NAMES = """
[...document.querySelectorAll('[aria-label], [title], [alt]')]
  .flatMap((place) => ['aria-label', 'title', 'alt'].map((name) => place.getAttribute(name) ?? ''))
  .filter((name) => /^(?!Adam )[A-Z][a-z]+( [a-z\\d.]+)*$/.test(name))
"""
"""Names of buttons and fields that Gradio gives; those of models and of cards have more in them, and those of
Adam's options are the same everywhere."""


@pytest.mark.parametrize(
    ("tabs", "theme", "locale"),
    [
        (("memory", "playground"), "light", "zh-TW"),
        (("evaluate", "models", "train"), "dark", "zh-CN"),
    ],
)
def test_axe_finds_nothing_at_a_desk_on_a_telephone_in_the_other_theme_and_in_what_is_folded(
    open_page: OpenPage, tabs: tuple[str, ...], theme: str, locale: str, request: pytest.FixtureRequest
) -> None:
    """At the desk, what is on the page stays where it is."""
    page = open_page(theme=theme, locale=locale, width=1366)
    page.add_style_tag(content=AT_ONCE)
    for tab in tabs:
        show_tab(page, tab)
        fill(page, tab)
        assert_it_stays(page, tab, request)
        assert faults(page) == []
        page.set_viewport_size({"width": 390, "height": 900})
        page.evaluate("document.body.classList.toggle('dark')")
        page.evaluate(UNFOLD)
        assert faults(page) == []
        for number in (1, 2, 3) if tab in SECTIONS else ():
            fill_section(page, number, tab)
            page.evaluate(UNFOLD)
            assert faults(page) == []
        page.set_viewport_size({"width": 1366, "height": 900})
        page.evaluate("document.body.classList.toggle('dark')")
        page.evaluate(TWO_FRAMES)
        forget_what_moved(page)
    if locale.startswith("zh"):
        assert page.evaluate(ENGLISH_NAMES) == []


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_keys_lead_from_a_list_to_the_next_field_through_the_tabs_and_through_the_words_of_a_transcript(
    open_page: OpenPage,
) -> None:
    """In the dark theme, in which scroll bars and the browser's own fields are dark."""
    page = open_page(theme="dark")
    table = page.locator("#memory-parts .table-scroll")
    expect(table).to_have_css("color-scheme", "dark")
    past_the_end = page.locator("body")
    expect(past_the_end).to_have_css("background-color", "rgb(13, 19, 24)")
    page.evaluate("document.body.classList.remove('dark')")
    expect(table).to_have_css("color-scheme", "normal")

    page.get_by_label("Model", exact=True).first.click()
    expect(page.get_by_role("listbox")).to_be_visible()
    press(page, "ArrowDown", "Enter", "Tab")
    expect(page.locator("#memory-use input").first).to_be_focused()

    def at(name: str) -> None:
        tab = page.get_by_role("tab", name=name, exact=True)
        expect(tab).to_be_focused()
        expect(tab).to_have_attribute("aria-selected", "true")

    page.get_by_role("button", name="3. Compare before and after").focus()
    press(page, "Tab")
    at("GPU memory")
    press(page, "ArrowRight", "ArrowRight")
    at("Transcribe")
    press(page, "End")
    at("Models")
    press(page, "ArrowRight", "ArrowLeft", "Home", "ArrowRight", "ArrowRight")
    at("Transcribe")
    expect(page.locator("#transcribe-audio")).to_be_visible()
    press(page, "Tab")
    expect(page.locator('[role="tab"]:focus')).to_have_count(0)
    page.get_by_role("tab", name="A recording", exact=True).focus()
    press(page, "ArrowLeft")
    at("Side by side")

    page.get_by_role("tab", name="A recording", exact=True).click()
    fill(page, "playground")
    buttons = page.locator("#transcript-segments .segments button")
    count = buttons.count()
    assert count > 10
    page.get_by_role("button", name="Correct the text").focus()
    press(page, "Tab")
    expect(buttons.first).to_be_focused()
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    expect(buttons.nth(3)).to_be_focused()
    press(page, "Enter")
    page.wait_for_function(
        "from => document.querySelector('#transcript-segments audio').currentTime >= from",
        arg=float(buttons.nth(3).get_attribute("data-seek") or "nan"),
    )
    press(page, "End")
    expect(buttons.nth(count - 1)).to_be_focused()
    press(page, "Tab")
    expect(page.locator("#transcript-segments :focus")).to_have_count(0)
    press(page, "Shift+Tab")
    expect(buttons.nth(count - 1)).to_be_focused()
    press(page, "Home", "Shift+Tab", "Enter", "Tab", "Tab")
    expect(page.locator("textarea.correction").first).to_be_focused()
    press(page, "Tab", "Tab")
    expect(page.locator("textarea.correction").nth(1)).to_be_focused()


def test_on_a_telephone_things_stay_where_they_are_fit_a_thumb_and_say_where_microphones_need_https(
    open_page: OpenPage, request: pytest.FixtureRequest
) -> None:
    hint = "only on https and on this machine"
    page = open_page(width=390)
    fill(page, "memory")
    assert assert_it_stays(page, "memory", request) > 0
    for tab in ("playground", "evaluate", "models"):
        show_tab(page, tab)
        fill(page, tab)
        assert_it_stays(page, tab, request)
        expect(page.get_by_text(hint).first).to_be_hidden()

    touched = page.context.new_page()
    device = page.context.new_cdp_session(touched)
    telephone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    device.send("Emulation.setDeviceMetricsOverride", telephone)
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    touched.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    touched.goto(page.url)
    show_tab(touched, "playground")
    expect(touched.locator("#transcribe-audio")).to_be_visible()
    expect(touched.get_by_text(hint).first).to_be_visible()
    touched.locator("#transcribe-audio [data-testid=source-select] button").last.click()
    expect(touched.locator(".record-button:visible")).to_have_count(1)
    heights = touched.locator("button:visible:not(.icon-button)").evaluate_all(
        "all => all.map((one) => [one.textContent.trim(), one.getBoundingClientRect().height])"
    )
    # Gradio keeps a pixel of each tab, out of sight, to see which of them have room.
    assert [(name, height) for name, height in heights if 1 < height < 43.9] == []
    touched.close()
