"""The microphone, live: words stand on the page while they are spoken, and can be taken away."""

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, expect

from tests.benchmarks.live import BEFORE_SECONDS, browser_that_hears, microphone_file
from tests.browser.conftest import PATIENCE_MILLISECONDS, OpenPage, show_tab
from tests.studio_process import StudioProcess


def live_page(browser: Browser, studio: StudioProcess) -> Page:
    """A visitor who may use the microphone, at Live."""
    page = browser.new_context(locale="en-US", permissions=["microphone"]).new_page()
    page.set_default_timeout(PATIENCE_MILLISECONDS)
    page.goto(studio.url)
    expect(page.locator("#memory-parts table")).to_be_visible()
    show_tab(page, "playground")
    page.get_by_role("tab", name="Live", exact=True).click()
    return page


def test_words_stand_on_the_page_while_they_are_spoken(
    playwright: Playwright, studio_server: StudioProcess, demo_speech: Path, tmp_path: Path
) -> None:
    spoken = microphone_file(demo_speech / "samples" / "kitchen-light.flac", tmp_path)
    browser = browser_that_hears(playwright, spoken)
    page = live_page(browser, studio_server)
    page.get_by_role("button", name="Start listening").click()
    text = page.locator("#live .live-text")
    expect(text).to_contain_text("kitchen light")
    expect(page.locator("#live [data-live=settled]")).to_contain_text("ten minutes")
    page.locator("#live").get_by_role("button", name="Stop").click()
    expect(page.locator("#live-downloads a")).to_have_count(5)
    expect(text).to_contain_text("kitchen light")
    browser.close()


def test_who_speaks_with_faster_whisper_is_told_how_far_its_export_is(
    playwright: Playwright, studio_server: StudioProcess, demo_speech: Path, tmp_path: Path
) -> None:
    spoken = microphone_file(demo_speech / "samples" / "kitchen-light.flac", tmp_path)
    browser = browser_that_hears(playwright, spoken, again_and_again=True)
    page = live_page(browser, studio_server)
    page.locator("button:visible", has_text="Engine").click()
    page.locator("#live-engine input").click()
    page.get_by_role("option", name="faster-whisper").click()
    page.get_by_role("button", name="Start listening").click()
    status = page.locator("#live [data-live=status]")
    expect(status).to_contain_text(re.compile(r"faster-whisper, \d+%: .* Speak once"))
    expect(page.locator("#live .live-text")).to_contain_text("kitchen light")
    expect(page.locator("#live [data-live=settled]")).to_contain_text("ten minutes")
    page.locator("#live").get_by_role("button", name="Stop").click()
    expect(page.locator("#live-downloads a")).to_have_count(5)
    assert [path.name for path in (studio_server.home / "models").iterdir()] == ["demo-ct2"]
    browser.close()


def test_without_a_microphone_the_page_says_what_to_do(open_page: OpenPage) -> None:
    page = open_page("playground", locale="zh-TW")
    missing = "Promise.reject(new DOMException('none', 'NotFoundError'))"
    page.evaluate(f"void (navigator.mediaDevices.getUserMedia = () => {missing})")
    page.get_by_role("tab", name="即時", exact=True).click()
    page.get_by_role("button", name="開始聆聽").click()
    expect(page.locator("#live [data-live=status]")).to_contain_text("這裡沒有麥克風")
    page.evaluate("void Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.get_by_role("button", name="開始聆聽").click()
    expect(page.locator("#live [data-live=status]")).to_contain_text("http://localhost")


def test_the_end_of_a_recording_starts_its_transcription(
    playwright: Playwright, studio_server: StudioProcess, demo_speech: Path, tmp_path: Path
) -> None:
    spoken = microphone_file(demo_speech / "samples" / "kitchen-light.flac", tmp_path)
    browser = browser_that_hears(playwright, spoken)
    page = browser.new_context(locale="en-US", permissions=["microphone"]).new_page()
    page.set_default_timeout(PATIENCE_MILLISECONDS)
    page.goto(studio_server.url)
    expect(page.locator("#memory-parts table")).to_be_visible()
    show_tab(page, "playground")
    expect(page.locator("#transcribe-model input")).to_have_value("Demo model")
    audio = page.locator("#transcribe-audio")
    audio.get_by_role("button", name="Record audio").click()
    audio.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_timeout(1000 * (BEFORE_SECONDS + 5.0))
    audio.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen light"))
    browser.close()
