"""The Transcribe tab in a real browser: see, hear, correct and take away one recording."""

import base64
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from studio.dataset.audio import SAMPLING_RATE, read_audio, save_pcm
from tests.browser.conftest import OpenPage, held, press_and_read, unfold
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


def test_a_click_in_the_picture_plays_and_the_word_that_is_heard_lights_up(open_page: OpenPage) -> None:
    page = open_page("playground")
    expect(page.locator("#transcribe-status")).to_contain_text("The transcript will appear here")
    transcribe(page, "Kitchen light")
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
    page.locator(".wave-segment").nth(1).click()
    lit = page.locator("#transcript-segments .word[data-playing]").first
    expect(lit).to_be_visible()
    place = page.locator("#transcript-segments audio").evaluate("sound => sound.currentTime")
    begin = float(page.locator(".wave-segment").nth(1).get_attribute("data-seek") or "nan")
    assert page.locator("#transcript-segments audio").evaluate("sound => sound.playbackRate") == 0.5
    assert place >= begin and float(lit.get_attribute("data-until") or "nan") > begin


def test_what_a_person_corrects_is_in_the_text_and_in_the_files(open_page: OpenPage) -> None:
    page = open_page("playground")
    transcribe(page, "Kitchen light")
    expect(page.locator(".wave svg")).to_be_visible()
    times = re.findall(r"\d\d:.*-->.*", download(page, "SRT"))
    page.get_by_role("button", name="Correct the text").click()
    page.locator("textarea.correction").first.fill("turn on the <b>שלום</b> 👨‍👩‍👧 light")
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("שלום.*👨‍👩‍👧.*timer"))
    page.get_by_role("button", name="Done correcting").click()
    expect(page.locator("#transcript-segments .said").first).to_contain_text("<b>שלום</b>")
    captions = download(page, "SRT")
    assert "＜b>שלום＜/b> 👨‍👩‍👧" in captions
    assert re.findall(r"\d\d:.*-->.*", captions) == times
    before = page.locator("#transcript-downloads a").nth(1).get_attribute("href") or ""
    unfold(page, "Layout of the captions")
    page.locator("#caption-max_line_width input").fill("12")
    page.locator("#caption-max_line_width input").press("Tab")
    expect(page.locator("#transcript-downloads a").nth(1)).not_to_have_attribute("href", before)
    assert max(map(len, re.findall(r"^[a-z ]+$", download(page, "SRT"), re.M))) <= 12


@pytest.fixture
def eleven_minutes(demo_speech: Path, tmp_path: Path) -> Path:
    """A recording that is at work for as long as a test looks at it."""
    sound = read_audio(demo_speech / "samples" / "long.ogg")
    return save_pcm(np.tile(sound, 8), SAMPLING_RATE, tmp_path / "long.wav")


def test_a_long_recording_is_read_while_it_is_heard_and_can_be_cancelled(
    open_page: OpenPage, eleven_minutes: Path
) -> None:
    page = open_page("playground")
    page.locator("#transcribe-audio input[type=file]").set_input_files(eleven_minutes)
    cancel = page.locator("#transcribe-cancel")
    expect(cancel).to_be_disabled()
    page.locator("#transcribe-start").click()
    status = page.locator("#transcribe-status")
    expect(status.locator("[role=progressbar]")).to_be_visible()
    expect(status).to_contain_text(re.compile("Transcribed .* of 10 min.*left", re.S))
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("thursday"))
    expect(page.locator("#transcript-downloads a")).to_have_count(0)
    cancel.click()
    expect(status).to_contain_text("this is the text so far")
    expect(cancel).to_be_disabled()
    expect(page.locator("#transcript-downloads a")).to_have_count(5)


def test_what_was_shown_comes_back_when_the_next_recording_is_cancelled(
    open_page: OpenPage, eleven_minutes: Path
) -> None:
    page = open_page("playground")
    transcribe(page, "Kitchen light")
    expect(page.locator(".wave svg")).to_be_visible()
    text, times = page.locator("#transcript textarea"), page.locator("#transcript-segments .time")
    sound, files = page.locator("#transcript-segments audio"), page.locator("#transcript-downloads a")

    def seen() -> list[object]:
        links = [link.get_attribute("href") for link in files.all()]
        return [text.input_value(), times.all_inner_texts(), sound.get_attribute("src"), links]

    before = seen()
    page.locator("#transcribe-audio").get_by_label("Clear").click()
    page.locator("#transcribe-audio input[type=file]").set_input_files(eleven_minutes)
    page.locator("#transcribe-start").click()
    expect(text).to_have_value(re.compile("thursday"))
    expect(files).to_have_count(0)
    page.locator("#transcribe-cancel").click()
    expect(page.locator("#transcribe-status")).to_contain_text("What is shown is from before.")
    expect(files).to_have_count(5)
    assert seen() == before
    expect(page.locator(".wave svg")).to_be_visible()
    page.get_by_role("button", name="Correct the text").click()
    page.locator("textarea.correction").first.fill("corrected")
    expect(text).to_have_value(re.compile("corrected"))


def test_side_by_side_is_cancelled_in_the_line_and_at_work_and_what_was_shown_stays(
    open_page: OpenPage, eleven_minutes: Path
) -> None:
    others = [open_page("playground") for _ in range(2)]
    page = open_page("playground")
    page.get_by_role("tab", name="Side by side", exact=True).click()
    expect(page.locator("#compare-models")).to_contain_text("Demo model")
    start, cancel = page.locator("#compare-start"), page.locator("#compare-cancel")
    status, row = page.locator("#compare-status"), page.locator("#compare-table tbody tr")
    page.get_by_role("button", name="Kitchen light", exact=True).last.click()
    start.click()
    expect(row).to_contain_text("kitchen")
    page.locator("#compare-audio").get_by_label("Clear").click()
    page.locator("#compare-audio input[type=file]").set_input_files(eleven_minutes)
    start.click()
    expect(status).to_contain_text("Transcribing …")
    cancel.click()
    expect(status).to_contain_text("What is shown is from before.")
    for other in others:
        other.locator("#transcribe-audio input[type=file]").set_input_files(eleven_minutes)
        other.locator("#transcribe-start").click()
        expect(other.locator("#transcript-segments .time").first).to_be_visible()
    start.click()
    expect(status).to_contain_text("One visitor is ahead of you")
    cancel.click()
    expect(status).to_contain_text("Cancelled before it began.")
    expect(cancel).to_be_disabled()
    expect(row).to_contain_text("kitchen")
    expect(page.locator("#compare-download a")).to_have_count(1)
    for other in others:
        other.locator("#transcribe-cancel").click()
        expect(other.locator("#transcribe-status")).to_contain_text("this is the text so far")


def test_who_waits_for_others_sees_their_place_and_gets_a_text_of_their_own(open_page: OpenPage) -> None:
    others = [open_page("playground") for _ in range(3)]
    last = open_page("playground")
    for page, sample in [*((page, "Long") for page in others), (last, "Kitchen light")]:
        take(page, sample)
    for page in others:
        page.locator("#transcribe-start").click()
    for page in others:
        expect(page.locator("#transcribe-status")).not_to_contain_text("will appear here")
    last.locator("#transcribe-start").click()
    status = last.locator("#transcribe-status")
    expect(status).to_contain_text("2 visitors are ahead of you.")
    others[0].locator("#transcribe-cancel").click()
    expect(status).to_contain_text("One visitor is ahead of you: you are next.")
    others[1].locator("#transcribe-cancel").click()
    expect(last.locator("#transcript textarea")).to_have_value(re.compile("kitchen light.*ten minutes"))
    expect(others[2].locator("#transcript textarea")).to_have_value(re.compile("thursday"))


def test_models_stand_side_by_side_with_their_errors(
    open_page: OpenPage, studio_server: StudioProcess, demo_model: Path
) -> None:
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
    page.locator("#compare-start").click()
    rows = page.locator("#compare-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("mark")).to_contain_text("light")
    expect(rows.first).to_contain_text("9.1 %")
    assert "alignment" in page.evaluate(
        "atob(document.querySelector('#compare-download a').href.split(',')[1])"
    )


def test_side_by_side_chinese_is_judged_by_its_characters_and_another_script_is_spoken_of(
    open_page: OpenPage, whisper_tiny: Path, real_speech: Path, screenshots: Path
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
    page.screenshot(path=screenshots / "side-by-side-chinese.png", full_page=True)


def test_many_files_are_heard_in_turn_and_one_that_cannot_be_used_stops_nothing(
    open_page: OpenPage, demo_speech: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.wav"
    broken.write_text("no sound " * 100, encoding="utf-8")
    samples = demo_speech / "samples"
    page = open_page("playground")
    page.get_by_role("tab", name="Many files", exact=True).click()
    expect(page.locator("#transcribe-model input")).to_have_value("Demo model")
    files = [samples / "kitchen-light.flac", broken, samples / "long.ogg", samples / "silence.flac"]
    page.locator("#many-files input[type=file]").set_input_files(files)
    expect(page.locator("#many-files button[aria-label='Upload file']")).to_be_visible()
    expect(page.locator("[aria-label^='common.']")).to_have_count(0)
    page.locator("#many-start").click()
    status, rows = page.locator("#many-status"), page.locator("#many-table tbody tr")
    expect(rows.nth(2)).to_contain_text("at work")
    page.locator("#many-cancel").click()
    expect(status).to_contain_text("start it again with the same recordings to go on")
    expect(rows.nth(1)).to_contain_text("broken.wav is not a sound file")
    page.locator("#many-start").click()
    expect(status).to_contain_text("3 of 4 recordings are done. Done before: 1. 1 could not be used")
    expect(rows.nth(0)).to_contain_text("kitchen light")
    with page.expect_download() as got:
        page.locator("#many-download").get_by_role("link", name="ZIP").click()
    with zipfile.ZipFile(got.value.path()) as archive:
        assert "srt/long.srt" in archive.namelist() and "vtt/kitchen-light.vtt" in archive.namelist()


@pytest.mark.parametrize(
    ("ending", "codec"), [("mp4", "aac"), ("mkv", "aac"), ("mov", "aac"), ("webm", "libopus")]
)
def test_the_sound_of_a_video_is_transcribed(
    open_page: OpenPage, run_studio: RunStudio, demo_speech: Path, tmp_path: Path, ending: str, codec: str
) -> None:
    spoken = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    film = make_video(tmp_path / f"film.{ending}", spoken, SAMPLING_RATE, codec)
    page = open_page("playground")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Sound of a video …").first.click()
    chooser.value.set_files(film)
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))
    assert "kitchen" in run_studio("transcribe", film, "--model", "demo").stdout


AT_ONCE = """() => new MutationObserver((_, observer) => {
  const button = document.querySelector('#transcript-segments [data-correct]');
  if (!button) return;
  observer.disconnect();
  button.click();
  const field = document.querySelector('#transcript-segments textarea.correction');
  field.value = 'turn on the cellar light';
  field.dispatchEvent(new Event('input', {bubbles: true}));
}).observe(document.body, {childList: true, subtree: true})"""


def test_what_is_corrected_the_moment_that_a_transcript_is_there_stays(open_page: OpenPage) -> None:
    page = open_page("playground")
    take(page, "Kitchen light")
    page.evaluate(AT_ONCE)
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("cellar.*ten minutes"))
    expect(page.locator("#transcribe-cancel")).to_be_disabled()  # all has been answered
    expect(page.locator("#transcript-segments .wave")).to_be_visible()
    correction = page.locator("#transcript-segments textarea.correction").first
    expect(correction).to_have_value("turn on the cellar light")
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("cellar"))


def test_what_is_corrected_again_begins_with_what_stands_there(open_page: OpenPage) -> None:
    page = open_page("playground")
    transcribe(page, "Kitchen light")
    corrections = page.locator("#transcript-segments textarea.correction")
    page.get_by_role("button", name="Correct the text").click()
    corrections.first.fill("")
    page.get_by_role("button", name="Done correcting").click()
    expect(corrections).to_have_count(1)
    page.get_by_role("button", name="Correct the text").click()
    expect(corrections).to_have_value("set a timer for ten minutes")
    page.get_by_role("button", name="Done correcting").click()
    expect(page.locator("#transcript textarea")).to_have_value("set a timer for ten minutes")


def test_what_was_corrected_stays_when_the_studio_does_not_take_it(open_page: OpenPage) -> None:
    page = open_page("playground")
    transcribe(page, "Kitchen light")
    page.get_by_role("button", name="Correct the text").click()
    let_go = held(page, "", saying="cellar")
    page.locator("textarea.correction").first.fill("turn on the cellar light")
    page.get_by_role("button", name="Done correcting").click()
    let_go(well=False)
    page.get_by_role("button", name="Correct the text").click()
    expect(page.locator("textarea.correction").first).to_have_value("turn on the cellar light")


def test_a_layout_that_cannot_be_costs_no_correction(open_page: OpenPage) -> None:
    page = open_page("playground")
    transcribe(page, "Kitchen light")
    unfold(page, "Layout of the captions")
    page.locator("#caption-max_line_width input").fill("0")
    expect(page.locator("#caption-max_line_width")).to_contain_text("must be between")
    page.get_by_role("button", name="Correct the text").click()
    page.locator("textarea.correction").first.fill("turn on the cellar light")
    page.get_by_role("button", name="Done correcting").click()
    expect(page.locator("#transcript-segments .said").first).to_have_text("turn on the cellar light")
    page.reload()
    expect(page.locator("#transcript-segments .said").first).to_have_text("turn on the cellar light")


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


def test_a_video_dropped_on_the_field_is_heard_and_what_is_neither_is_refused_there(
    open_page: OpenPage, demo_speech: Path, tmp_path: Path
) -> None:
    film = make_video(
        tmp_path / "film.MP4", read_audio(demo_speech / "samples" / "kitchen-light.flac"), SAMPLING_RATE
    )
    page = open_page("playground", locale="zh-TW")
    field, neither = "#transcribe-audio .upload-container", page.locator("#transcribe-audio-neither")
    page.locator(field).wait_for()
    content = base64.b64encode(film.read_bytes()).decode()
    page.evaluate(DROP, [field, NOTES])
    expect(neither).to_contain_text("既不是音訊也不是影片")
    page.evaluate(DROP, [field, [film.name, "video/mp4", content]])
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))
    expect(neither).to_be_hidden()
    expect(page.get_by_test_id("toast-body")).to_have_count(0)


def test_of_many_files_those_that_are_no_recordings_are_named_and_the_others_heard(
    open_page: OpenPage, demo_speech: Path
) -> None:
    page = open_page("playground", locale="zh-CN")
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
