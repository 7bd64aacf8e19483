"""Another language is another page: it comes back with everything that the visitor had before them."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, show_tab
from tests.browser.test_transcribe import take


def test_a_recording_its_transcript_and_the_forms_are_there_in_the_other_language(
    open_page: OpenPage,
) -> None:
    page = open_page()
    page.locator("#memory-per_device_train_batch_size input").fill("3")
    page.get_by_role("tab", name="Fit for me").click()
    page.locator("#fit-hours input").fill("12")
    expect(page.locator("#fit-command textarea")).to_have_value(re.compile("whisper-large-v3"))
    show_tab(page, "train")
    page.locator("#train-run_name input").fill("my-voice")
    show_tab(page, "playground")
    take(page, "Kitchen light")
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    text = page.locator("#transcript textarea").input_value()

    page.get_by_role("button", name="简体中文").click()
    expect(page.get_by_role("tab", name="转写").first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#transcript textarea")).to_have_value(text)
    expect(page.locator("#transcript-facts")).to_contain_text("语言")
    expect(page.locator("#transcribe-audio audio, #transcribe-audio #waveform").first).to_be_attached()
    page.locator("#transcript-segments [data-correct]").click()
    page.locator("#transcript-segments textarea.correction").first.fill("turn on the cellar light")
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("cellar.*ten minutes"))
    page.locator("#transcribe-start").click()  # the recording itself is there, too
    expect(page.locator("#transcript textarea")).to_have_value(text)

    show_tab(page, "train")
    expect(page.locator("#train-run_name input")).to_have_value("my-voice")
    show_tab(page, "memory")
    expect(page.locator("#fit-hours input")).to_have_value("12")
    expect(page.locator("#fit-verdict")).to_contain_text("10 到 50 小时")
    page.get_by_role("tab").filter(has_text="估算").first.click()
    expect(page.locator("#memory-per_device_train_batch_size input")).to_have_value("3")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("train_batch_size 3"))


def test_a_page_that_is_loaded_again_otherwise_begins_anew(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#memory-per_device_train_batch_size input").fill("3")
    page.get_by_role("button", name="繁體中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-TW")
    expect(page.locator("#memory-per_device_train_batch_size input")).to_have_value("3")
    page.reload()
    expect(page.locator("#memory-per_device_train_batch_size input")).to_have_value("8")


def test_what_is_at_work_begins_again_in_the_other_language(open_page: OpenPage) -> None:
    page = open_page("playground")
    take(page, "Long")
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcribe-status .bar-text")).to_be_visible()
    page.get_by_role("button", name="简体中文").click()
    expect(page.get_by_role("tab", name="转写").first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    expect(page.locator("#transcript textarea")).to_have_value(re.compile(r"(\w+ ){60}"))
    expect(page.locator("#transcribe-cancel")).to_be_disabled()
