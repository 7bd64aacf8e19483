"""A page that is loaded again, or in another language, comes back with what the visitor had before them."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import KITCHEN_LIGHT, OpenPage, assert_little_moved, show_tab, unfold
from tests.browser.test_transcribe import download, take
from tests.studio_process import StudioProcess


def in_chinese(page: Page, section: str) -> None:
    """Changes the language, and waits for the section that was open."""
    page.get_by_role("button", name="简体中文").click()
    expect(page.get_by_role("tab", name=section, exact=True)).to_have_attribute("aria-selected", "true")


def test_recordings_transcripts_models_and_the_forms_are_there_in_the_other_language_and_when_loaded_again(
    open_page: OpenPage, demo_speech: Path, studio_server: StudioProcess
) -> None:
    """What is at work begins again in the other language alone; another tab begins anew, as does a page of
    another server."""
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
    page.get_by_role("button", name="Correct the text").click()
    page.locator("#transcript-segments textarea.correction").first.fill("turn on the cellar light")
    corrected = re.compile("cellar.*ten minutes")
    expect(page.locator("#transcript textarea")).to_have_value(corrected)
    before = page.locator("#transcript-downloads a").nth(1).get_attribute("href") or ""
    unfold(page, "Layout of the captions")
    page.locator("#caption-max_line_width input").fill("12")
    page.locator("#caption-max_line_width input").press("Tab")
    expect(page.locator("#transcript-downloads a").nth(1)).not_to_have_attribute("href", before)
    assert "cellar" in download(page, "SRT")

    page.get_by_role("tab", name="Many files", exact=True).click()
    samples = demo_speech / "samples"
    page.locator("#many-files input[type=file]").set_input_files(
        [samples / "kitchen-light.flac", samples / "silence.flac"]
    )
    page.locator("#many-start").click()
    expect(page.locator("#many-status")).to_contain_text("2 of 2 recordings are done.")
    page.get_by_role("tab", name="Side by side", exact=True).click()
    expect(page.locator("#compare-models")).to_contain_text("Demo model")
    page.get_by_role("button", name="Kitchen light", exact=True).last.click()
    page.locator("#compare-reference textarea").fill("turn on the kitchen lamp set a timer for ten minutes")
    page.locator("#compare-start").click()
    expect(page.locator("#compare-table tbody tr")).to_contain_text("9.1 %")

    in_chinese(page, "并排比较")
    expect(page.get_by_role("tab", name="转写").first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#compare-table tbody tr")).to_contain_text("演示模型")
    expect(page.locator("#compare-table tbody tr")).to_contain_text("9.1 %")
    expect(page.locator("#compare-download a")).to_have_count(1)
    expect(page.locator("#compare-models")).to_contain_text("演示模型")
    expect(page.locator("#compare-reference textarea")).to_have_value(re.compile("kitchen lamp"))
    expect(page.locator("#compare-audio audio, #compare-audio #waveform").first).to_be_attached()
    page.get_by_role("tab", name="多个文件", exact=True).click()
    rows = page.locator("#many-table tbody tr")
    expect(rows.nth(0)).to_contain_text("kitchen light")
    expect(rows.nth(1)).to_contain_text("完成")
    expect(page.locator("#many-download a")).to_have_count(2)
    expect(page.locator("#many-files")).to_contain_text("silence")
    page.locator("#many-start").click()  # the recordings themselves are there, too
    expect(page.locator("#many-status")).to_contain_text("已完成 2 个录音中的 2 个。")

    page.get_by_role("tab", name="一段录音", exact=True).click()
    expect(page.locator("#transcript textarea")).to_have_value(corrected)
    expect(page.locator("#transcript-segments .said").first).to_contain_text("cellar")
    assert "cellar" in download(page, "SRT")
    expect(page.locator("#transcript-facts")).to_contain_text("语言")
    expect(page.locator("#transcribe-audio audio, #transcribe-audio #waveform").first).to_be_attached()
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(text)
    expect(page.locator("#transcript-segments .said").first).to_contain_text("kitchen")
    expect(page.locator("#transcribe-cancel")).to_be_disabled()  # all has been answered
    page.locator("#transcript-segments [data-correct]").click()
    page.locator("#transcript-segments textarea.correction").first.fill("turn on the cellar light")
    expect(page.locator("#transcript textarea")).to_have_value(corrected)

    show_tab(page, "train")
    expect(page.locator("#train-run_name input")).to_have_value("my-voice")
    show_tab(page, "memory")
    expect(page.locator("#fit-hours input")).to_have_value("12")
    expect(page.locator("#fit-verdict")).to_contain_text("10 到 50 小时")
    page.get_by_role("tab").filter(has_text="估算").first.click()
    expect(page.locator("#memory-per_device_train_batch_size input")).to_have_value("3")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("train_batch_size 3"))

    # What is at work begins again in the other language.
    show_tab(page, "playground")
    start, bar = page.locator("#transcribe-start"), page.locator("#transcribe-status .bar-text")
    with studio_server.unhurried():
        start.click()
        expect(bar).to_be_visible()
        page.get_by_role("button", name="English").click()
        expect(page.get_by_role("tab", name="Transcribe").first).to_have_attribute("aria-selected", "true")
    expect(page.locator("#transcript textarea")).to_have_value(text)
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    expect(page.locator("#transcribe-cancel")).to_be_disabled()

    page.locator("#transcript-segments [data-correct]").click()
    page.locator("#transcript-segments textarea.correction").first.fill("turn on the cellar light")
    show_tab(page, "train")

    page.reload()  # and again before it is there
    for _time in range(2):  # what the first left unopened is there after the second
        page.reload()
        expect(page.get_by_role("tab", name="Train", exact=True)).to_have_attribute("aria-selected", "true")
        expect(page.locator("#train-run_name input")).to_have_value("my-voice")
    show_tab(page, "playground")
    expect(page.locator("#transcript-segments textarea.correction").first).to_have_value(
        "turn on the cellar light"
    )
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("cellar.*ten minutes"))
    page.locator("#transcript-segments [data-correct]").click()
    expect(page.locator("#transcript-segments .said").first).to_contain_text("cellar")
    page.goto("about:blank")
    page.go_back()
    expect(page.locator("#transcript-segments .said").first).to_contain_text("cellar")
    expect(page.locator("#transcript-segments [data-correct]")).to_have_attribute("aria-pressed", "false")

    with studio_server.unhurried():
        start.click()
        expect(bar).to_be_visible()
        page.reload()
        expect(page.locator("#transcribe-audio audio, #transcribe-audio #waveform").first).to_be_attached()
        expect(page.locator("#transcribe-cancel")).to_be_disabled()
        expect(bar).to_have_count(0)

    other = page.context.new_page()
    other.goto(f"{page.url}&per_device_train_batch_size=3&lora_r=4")
    expect(other.locator("#memory-parts table")).to_be_visible()
    show_tab(other, "train")
    expect(other.locator("#train-run_name input")).to_have_value("")
    show_tab(other, "memory")
    size = other.locator("#memory-per_device_train_batch_size input")
    command = other.locator("#memory-command textarea")
    expect(size).to_have_value("3")
    size.fill("5")
    expect(command).to_have_value(re.compile("train_batch_size 5"))
    other.reload()  # what was changed after a link had filled it stays
    expect(command).to_have_value(re.compile("train_batch_size 5"))
    expect(size).to_have_value("5")
    assert_little_moved(other)

    page.goto(page.url)
    expect(page.locator("#memory-parts table")).to_be_visible()
    show_tab(page, "train")
    expect(page.locator("#train-run_name input")).to_have_value("")

    page.locator("#train-run_name input").fill("my-voice")
    page.add_init_script(
        """const kept = JSON.parse(sessionStorage.getItem('studio-kept'));
        if (kept) sessionStorage.setItem('studio-kept', JSON.stringify({...kept, server: 1}));"""
    )
    page.reload()
    expect(page.locator("#memory-parts table")).to_be_visible()
    show_tab(page, "train")
    expect(page.locator("#train-run_name input")).to_have_value("")

    # A browser that keeps nothing shows the page all the same.
    other.add_init_script(
        """Object.defineProperty(window, 'sessionStorage', {
          get() { throw new DOMException('Access is denied', 'SecurityError'); },
        });"""
    )
    other.reload()
    expect(other.locator("#memory-parts table")).to_be_visible()
    other.get_by_role("button", name="繁體中文").click()
    expect(other.locator("html")).to_have_attribute("lang", "zh-TW")
    expect(other.locator("#memory-verdict")).to_contain_text("放得下")


def test_what_was_said_is_there_when_the_page_comes_back_and_can_be_heard_again(open_page: OpenPage) -> None:
    page = open_page("playground", hears=KITCHEN_LIGHT, again_and_again=True)
    page.get_by_role("tab", name="Live", exact=True).click()
    page.get_by_role("button", name="Start listening").click()
    text, settled = page.locator("#live .live-text"), page.locator("#live [data-live=settled]")
    expect(settled).to_contain_text("kitchen light")  # what is not settled yet may become another word
    page.reload()
    expect(settled).to_contain_text("kitchen light")
    expect(page.locator("#live [data-live=toggle]")).to_have_text("Start listening")
    expect(page.locator("#live-downloads a")).to_have_count(5)
    expect(page.locator("#live-again")).to_be_visible()

    page.get_by_role("button", name="Start listening").click()
    expect(settled).to_contain_text("ten minutes")

    in_chinese(page, "实时")  # while they speak: what was said until then is heard, and goes over
    expect(text).to_contain_text("ten minutes")
    expect(page.locator("#live-downloads a")).to_have_count(5)
    expect(page.locator("#live [data-live=toggle]")).to_have_text("开始听")
    said = text.inner_text()
    page.get_by_role("tab", name="多个文件", exact=True).click()
    page.get_by_role("tab", name="实时", exact=True).click()
    expect(text).to_have_text(said)
    page.locator("#live-again").click()
    expect(page.locator("#live-status [role=progressbar]")).to_have_count(0)
    expect(text).to_contain_text("kitchen light")
    page.locator("#live [data-live=toggle]").click()
    expect(page.locator("#live-again")).to_be_hidden()
    expect(settled).to_contain_text("ten minutes")
