"""The Transcribe tab in a real browser: see, hear, correct and take away one recording."""

import base64
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, Route, expect

from studio.dataset.audio import SAMPLING_RATE, read_audio
from tests.browser.conftest import OpenPage, Pictures, held, press_and_read, unfold
from tests.conftest import RunStudio
from tests.films import make_video
from tests.studio_process import StudioProcess


def take(page: Page, sample: str) -> None:
    page.get_by_role("button", name=sample, exact=True).click()


def transcribe(page: Page, sample: str) -> None:
    take(page, sample)
    page.locator("#transcribe-start").click()


def download(page: Page, name: str) -> str:
    with page.expect_download() as got:
        page.locator("#transcript-downloads").get_by_role("link", name=name, exact=True).click()
    return Path(got.value.path()).read_text(encoding="utf-8")


AT_ONCE = """() => new MutationObserver((_, observer) => {
  const button = document.querySelector('#transcript-segments [data-correct]');
  if (!button) return;
  observer.disconnect();
  button.click();
  const field = document.querySelector('#transcript-segments textarea.correction');
  field.value = 'turn on the cellar light';
  field.dispatchEvent(new Event('input', {bubbles: true}));
}).observe(document.body, {childList: true, subtree: true})"""


NOTES_WHAT_IS_LIT = """() => document.querySelector('#transcript-segments audio')
  .addEventListener('timeupdate', ({target: {currentTime, playbackRate}}) => {
    const word = document.querySelector('#transcript-segments .word[data-playing]');
    if (word?.getClientRects().length) window.lit ??= [currentTime, playbackRate, +word.dataset.until];
  })"""
"""A word is lit for a moment."""


def test_a_transcript_is_seen_heard_corrected_laid_out_and_taken_away(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page("playground")
    expect(page.locator("#transcribe-status")).to_contain_text("The transcript will appear here")
    page.evaluate(AT_ONCE)
    transcribe(page, "Kitchen light")
    text, said = page.locator("#transcript textarea"), page.locator("#transcript-segments .said")
    corrections = page.locator("#transcript-segments textarea.correction")
    expect(text).to_have_value(re.compile("cellar.*ten minutes"))
    expect(page.locator("#transcribe-cancel")).to_be_disabled()  # all has been answered
    expect(page.locator("#transcript-segments .wave")).to_be_visible()
    expect(corrections.first).to_have_value("turn on the cellar light")
    expect(text).to_have_value(re.compile("cellar"))

    # Transcribed again meanwhile, it is the new text that stands there and is corrected.
    page.route("**/queue/data*", without_what_is_between)
    page.locator("#transcribe-start").click()
    expect(text).to_have_value(re.compile("kitchen"))
    page.unroute("**/queue/data*")
    expect(page.locator("#transcribe-cancel")).to_be_disabled()
    correct(page)
    expect(corrections.first).to_have_value("turn on the kitchen light")
    corrections.first.fill("turn on the cellar light")
    done_correcting(page)
    expect(said.first).to_have_text("turn on the cellar light")

    page.locator("#transcribe-start").click()
    expect(said.first).to_have_text("turn on the kitchen light")
    expect(page.locator(".wave svg")).to_be_visible()
    expect(page.locator(".wave-segment")).to_have_count(2)
    expect(page.locator("#transcript")).to_be_hidden()  # its text stands in the segments
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press_and_read(page.get_by_role("button", name="Copy the text"), "Copied")
    assert "kitchen light" in page.evaluate("navigator.clipboard.readText()")
    expect(page.locator(".sureness-legend")).to_contain_text("very unsure < 40 %")

    play, speed = page.locator("[data-play]"), page.locator("[data-speed]")
    expect(page.locator("#transcript-segments audio")).to_be_hidden()  # this is its player
    expect(page.locator(".played")).to_have_text("00:00 / 00:04")
    for shown in ("0.75×", "0.5×"):
        speed.click()
        expect(speed).to_have_text(shown)
    play.click()
    expect(play).to_have_text("Pause")
    play.click()
    expect(play).to_have_text("Play")
    page.evaluate(NOTES_WHAT_IS_LIT)
    page.locator(".wave-segment").nth(1).click()
    place, rate, until = page.wait_for_function("window.lit").json_value()
    begin = float(page.locator(".wave-segment").nth(1).get_attribute("data-seek") or "nan")
    assert rate == 0.5 and place >= begin and until > begin

    # A layout that cannot be costs no correction.
    times = re.findall(r"\d\d:.*-->.*", download(page, "SRT"))
    width, link = page.locator("#caption-max_line_width"), page.locator("#transcript-downloads a").nth(1)
    unfold(page, "Layout of the captions")
    width.locator("input").fill("0")
    expect(width).to_contain_text("must be between")
    let_go = held(page, "queue/join", saying='"texts"')
    with page.expect_request(lambda request: "turn off" in (request.post_data or "")):
        correct(page, "turn off")
    corrections.first.fill("turn on the <b>שלום</b> 👨‍👩‍👧 light")
    page.wait_for_timeout(500)  # by then it has been told, while what was told before is not answered
    let_go()
    expect(text).to_have_value(re.compile("שלום.*👨‍👩‍👧.*timer"))
    done_correcting(page)
    expect(said.first).to_contain_text("<b>שלום</b>")
    expect(width).to_contain_text("must be between")
    captions = download(page, "SRT")
    assert "＜b>שלום＜/b> 👨‍👩‍👧" in captions
    assert re.findall(r"\d\d:.*-->.*", captions) == times
    page.reload()
    expect(said.first).to_have_text("turn on the <b>שלום</b> 👨‍👩‍👧 light")
    before = link.get_attribute("href") or ""
    unfold(page, "Layout of the captions")
    width.locator("input").fill("12")
    width.locator("input").press("Tab")
    expect(link).not_to_have_attribute("href", before)
    assert max(map(len, re.findall(r"^[a-z ]+$", download(page, "SRT"), re.M))) <= 12

    # What is corrected again begins with what stands there.
    correct(page, "")
    done_correcting(page)
    expect(corrections).to_have_count(1)
    page.get_by_role("button", name="Correct the text").click()
    expect(corrections).to_have_value("set a timer for ten minutes")
    done_correcting(page)
    expect(text).to_have_value("set a timer for ten minutes")

    # What cannot be heard takes nothing away, and it is said whose text that is.
    status, empty = page.locator("#transcribe-status"), tmp_path / "empty.wav"
    empty.touch()
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("#transcribe-start").click()
    expect(status).to_contain_text(
        re.compile("There is no recording yet.*What is shown is from before", re.S)
    )
    page.locator("#transcribe-audio input[type=file]").set_input_files(empty)
    page.locator("#transcribe-start").click()
    expect(status).to_contain_text(re.compile("empty.wav.*What is shown is from before", re.S))
    expect(text).to_have_value("set a timer for ten minutes")

    # What was corrected stays when the studio does not take it.
    page.get_by_role("button", name="Correct the text").click()
    let_go = held(page, "", saying="attic")
    corrections.first.fill("turn on the attic light")
    done_correcting(page)
    let_go(well=False)
    page.get_by_role("button", name="Correct the text").click()
    expect(corrections.first).to_have_value("turn on the attic light")


def without_what_is_between(route: Route) -> None:
    """Lets a page know the end of what was started, as where nothing is told before."""
    answer = route.fetch()
    told = [message for message in answer.text().split("\n\n") if '"process_generating"' not in message]
    route.fulfill(response=answer, body="\n\n".join(told))


def correct(page: Page, text: str | None = None) -> None:
    """Begins to correct, and writes over the first sentence if there is a text."""
    page.get_by_role("button", name="Correct the text").click()
    if text is not None:
        page.locator("textarea.correction").first.fill(text)


def done_correcting(page: Page) -> None:
    page.get_by_role("button", name="Done correcting").click()


@pytest.fixture
def recordings(demo_speech: Path, tmp_path: Path) -> tuple[Path, Path]:
    """One of minutes that waits or is soon cancelled, and one of twice as many that is at work for as long as
    it is looked at; neither is quickly decoded."""
    sound = read_audio(demo_speech / "samples" / "long.ogg")
    for name, times in (("minutes", 3), ("endless", 6)):
        soundfile.write(tmp_path / f"{name}.flac", np.tile(sound, times), SAMPLING_RATE)
    return tmp_path / "minutes.flac", tmp_path / "endless.flac"


def test_models_stand_side_by_side_visitors_wait_in_line_and_what_was_shown_outlasts_what_is_cancelled(
    open_page: OpenPage, studio_server: StudioProcess, demo_model: Path, recordings: tuple[Path, Path]
) -> None:
    minutes, endless = recordings
    shutil.copytree(demo_model, studio_server.home / "models" / "twin")
    page = open_page("playground")
    page.get_by_role("tab", name="Side by side", exact=True).click()
    chosen = page.locator("#compare-models")
    expect(chosen).to_contain_text("Demo model")
    chosen.locator("input").click()
    page.get_by_role("option", name="twin").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Kitchen light", exact=True).last.click()
    page.locator("#compare-reference textarea").fill("turn on the kitchen lamp set a timer for ten minutes")
    start, cancel = page.locator("#compare-start"), page.locator("#compare-cancel")
    status, rows = page.locator("#compare-status"), page.locator("#compare-table tbody tr")
    start.click()

    def assert_compared() -> None:
        expect(rows).to_have_count(2)
        expect(rows.first.locator("mark")).to_contain_text("light")
        expect(rows.first).to_contain_text("9.1 %")
        expect(page.locator("#compare-download a")).to_have_count(1)

    assert_compared()
    assert "alignment" in page.evaluate(
        "atob(document.querySelector('#compare-download a').href.split(',')[1])"
    )
    page.locator("#compare-audio").get_by_label("Clear").click()
    page.locator("#compare-audio input[type=file]").set_input_files(minutes)

    new, known, last = (open_page("playground") for _ in range(3))
    new.locator("#transcribe-audio input[type=file]").set_input_files(minutes)
    expect(new.locator("#transcribe-cancel")).to_be_disabled()
    transcribe(known, "Kitchen light")
    expect(known.locator(".wave svg")).to_be_visible()
    text, times = known.locator("#transcript textarea"), known.locator("#transcript-segments .time")
    sound, files = known.locator("#transcript-segments audio"), known.locator("#transcript-downloads a")

    def seen() -> list[object]:
        links = [link.get_attribute("href") for link in files.all()]
        return [text.input_value(), times.all_inner_texts(), sound.get_attribute("src"), links]

    before = seen()
    known.locator("#transcribe-audio").get_by_label("Clear").click()
    known.locator("#transcribe-audio input[type=file]").set_input_files(endless)
    take(last, "Kitchen light")

    with studio_server.unhurried():
        for other in (new, known):
            other.locator("#transcribe-start").click()
            expect(other.locator("#transcribe-status [role=progressbar]")).to_be_visible()
        start.click()
        expect(status).to_contain_text("One visitor is ahead of you")
        cancel.click()
        expect(status).to_contain_text("Cancelled before it began.")
        expect(cancel).to_be_disabled()
        assert_compared()
        start.click()
        expect(status).to_contain_text("One visitor is ahead of you")
        last.locator("#transcribe-start").click()
        expect(last.locator("#transcribe-status")).to_contain_text("2 visitors are ahead of you.")

        # What is at work can be read meanwhile.
        expect(new.locator("#transcribe-status")).to_contain_text(
            re.compile("Transcribed .* of 4 min.*left", re.S)
        )
        expect(new.locator("#transcript textarea")).to_have_value(re.compile("thursday"))
        expect(new.locator("#transcript-downloads a")).to_have_count(0)
        expect(text).to_have_value(re.compile("thursday"))
        expect(files).to_have_count(0)

        new.locator("#transcribe-cancel").click()
        expect(last.locator("#transcribe-status")).to_contain_text(
            "One visitor is ahead of you: you are next."
        )
        expect(status).to_contain_text("Transcribing …")
        cancel.click()
        known.locator("#transcribe-cancel").click()
    expect(last.locator("#transcript textarea")).to_have_value(re.compile("kitchen light.*ten minutes"))
    expect(status).to_contain_text("What is shown is from before.")
    assert_compared()
    expect(new.locator("#transcribe-status")).to_contain_text("this is the text so far")
    expect(new.locator("#transcribe-cancel")).to_be_disabled()
    expect(new.locator("#transcript-downloads a")).to_have_count(5)
    expect(new.locator("#transcript textarea")).to_have_value(re.compile("thursday"))
    expect(known.locator("#transcribe-status")).to_contain_text("What is shown is from before.")
    expect(files).to_have_count(5)
    assert seen() == before
    expect(known.locator(".wave svg")).to_be_visible()
    correct(known, "corrected")
    expect(text).to_have_value(re.compile("corrected"))


DROP = """([selector, ...files]) => {
  const given = new DataTransfer();
  for (const [name, type, content] of files) {
    const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
    given.items.add(new File([bytes], name, {type}));
  }
  for (const kind of ['dragenter', 'dragover', 'drop']) {
    const event = new DragEvent(kind, {dataTransfer: given, bubbles: true, cancelable: true});
    document.querySelector(selector).dispatchEvent(event);
  }
}"""
NOTES = ["notes.txt", "text/plain", base64.b64encode(b"notes").decode()]


def test_side_by_side_chinese_is_judged_by_its_characters_and_of_many_files_those_that_are_none_are_named(
    open_page: OpenPage, whisper_tiny: Path, real_speech: Path, demo_speech: Path, pictures: Pictures
) -> None:
    page = open_page("playground", locale="zh-CN")
    page.get_by_role("tab", name="并排比较", exact=True).click()
    chosen = page.locator("#compare-models")
    expect(chosen.locator(".token")).to_have_count(1)
    chosen.locator("input").fill(str(whisper_tiny))
    page.keyboard.press("Enter")
    expect(chosen.locator(".token")).to_have_count(2)
    page.locator("#compare-audio input[type=file]").set_input_files(
        real_speech / "aishell1_zh" / "test" / "BAC009S0150W0134.flac"
    )
    page.locator("#compare-reference textarea").fill("所有因外部冲击导致房价泡沫破灭的经济体")
    page.locator("#compare-start").click()
    shown = page.locator("#compare-table")
    expect(shown.locator("tbody tr")).to_have_count(2)
    expect(shown.locator("th")).to_contain_text(["模型", "模型输出", "CER", "WER"])
    expect(shown.locator("tbody tr").last.locator("td").nth(2)).to_have_text("42.1 %")
    expect(shown.locator("li")).to_contain_text(["繁体字（8 个）", "chinese"])
    pictures.take(page, "side-by-side-chinese")

    page.get_by_role("tab", name="多个文件", exact=True).click()
    field, neither = page.locator("#many-files"), page.locator("#many-files-neither")
    sound = demo_speech / "samples" / "kitchen-light.flac"
    content = base64.b64encode(sound.read_bytes()).decode()
    field.locator(".upload-container, button").first.wait_for()
    page.evaluate(DROP, ["#many-files input[type=file]", NOTES, [sound.name, "audio/flac", content]])
    expect(neither).to_have_text(re.compile(r"既不是音频也不是视频.* notes\.txt\s*$"))
    expect(field).to_contain_text("kitchen-light")
    expect(field).not_to_contain_text("notes")
    expect(page.get_by_test_id("toast-body")).to_have_count(0)
    page.locator("#many-start").click()
    expect(page.locator("#many-table")).to_contain_text("kitchen")


CANCELLED_AT_THE_THIRD = """() => {
  const row = document.querySelector('#many-table tbody tr:nth-child(3)');
  const isAtWork = row?.textContent.includes('at work');
  if (isAtWork) document.getElementById('many-cancel').click();
  return isAtWork;
}"""
"""Whoever looks from outside may come when it is done."""


def test_videos_and_many_files_are_heard_what_is_neither_is_refused_and_a_missing_microphone_is_told(
    open_page: OpenPage, run_studio: RunStudio, demo_speech: Path, tmp_path: Path
) -> None:
    spoken = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    codecs = {"MP4": "aac", "mp4": "aac", "mkv": "aac", "mov": "aac", "webm": "libopus"}
    dropped, *chosen = (
        make_video(tmp_path / f"as-{ending}.{ending}", spoken, SAMPLING_RATE, codec)
        for ending, codec in codecs.items()
    )
    page = open_page("playground")
    field, neither = "#transcribe-audio .upload-container", page.locator("#transcribe-audio-neither")
    text, files = page.locator("#transcript textarea"), page.locator("#transcript-downloads")
    page.locator(field).wait_for()
    expect(page.locator("#transcribe-model input")).to_have_value("Demo model")
    content = base64.b64encode(dropped.read_bytes()).decode()
    page.evaluate(DROP, [field, NOTES])
    expect(neither).to_contain_text("That is neither sound nor video")
    page.evaluate(DROP, [field, [dropped.name, "video/mp4", content]])
    page.locator("#transcribe-start").click()
    expect(text).to_have_value(re.compile("kitchen"))
    expect(neither).to_be_hidden()
    expect(page.get_by_test_id("toast-body")).to_have_count(0)

    for film in chosen:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Sound of a video …").first.click()
        chooser.value.set_files(film)
        page.locator("#transcribe-start").click()
        expect(files.locator(f"a[download='{film.stem}.srt']")).to_be_attached()
        expect(text).to_have_value(re.compile("kitchen"))
    # Many are heard in turn, and one that cannot be used stops nothing.
    broken = tmp_path / "broken.wav"
    broken.write_text("no sound " * 100, encoding="utf-8")
    samples = demo_speech / "samples"
    page.get_by_role("tab", name="Many files", exact=True).click()
    four = [samples / "kitchen-light.flac", broken, samples / "long.ogg", samples / "silence.flac"]
    page.locator("#many-files input[type=file]").set_input_files(four)
    expect(page.locator("#many-files button[aria-label='Upload file']")).to_be_visible()
    expect(page.locator("[aria-label^='common.']")).to_have_count(0)
    page.locator("#many-start").click()
    status, rows = page.locator("#many-status"), page.locator("#many-table tbody tr")
    page.wait_for_function(CANCELLED_AT_THE_THIRD)
    expect(status).to_contain_text("start it again with the same recordings to go on")
    expect(rows.nth(1)).to_contain_text("broken.wav is not a sound file")
    page.locator("#many-start").click()
    expect(status).to_contain_text("3 of 4 recordings are done. Done before: 1. 1 could not be used")
    expect(rows.nth(0)).to_contain_text("kitchen light")
    with page.expect_download() as got:
        page.locator("#many-download").get_by_role("link", name="ZIP").click()
    with zipfile.ZipFile(got.value.path()) as archive:
        assert "srt/long.srt" in archive.namelist() and "vtt/kitchen-light.vtt" in archive.namelist()
    page.locator("#many-files").get_by_role("button", name="Clear", exact=True).click()
    page.locator("#many-start").click()
    expect(status).to_contain_text(re.compile("no recordings yet.*What is shown is from before", re.S))
    expect(rows.nth(0)).to_contain_text("kitchen light")

    missing = "Promise.reject(new DOMException('none', 'NotFoundError'))"
    page.evaluate(f"void (navigator.mediaDevices.getUserMedia = () => {missing})")
    page.get_by_role("tab", name="Live", exact=True).click()
    page.get_by_role("button", name="Start listening").click()
    expect(page.locator("#live [data-live=status]")).to_contain_text("There is no microphone here")
    page.evaluate("void Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.evaluate("void delete Crypto.prototype.randomUUID")  # nor is that there then
    page.get_by_role("button", name="Start listening").click()
    expect(page.locator("#live [data-live=status]")).to_contain_text("http://localhost")
    heard = run_studio("transcribe", *chosen, "--model", "demo").stdout
    assert heard.count("turn on the kitchen light") == len(chosen)
