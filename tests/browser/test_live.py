"""The microphone, live: words stand on the page while they are spoken, and can be taken away."""

import base64
import json
import re

import numpy as np
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import KITCHEN_LIGHT, OpenPage, held, wait_until_recorded
from tests.studio_process import ROOT, StudioProcess

NOTE_TRACKS = """() => {
  const ask = navigator.mediaDevices.getUserMedia;
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    const stream = await ask(wanted);
    Object.assign(window, {track: stream.getTracks()[0], began: performance.now()});
    return stream;
  };
}"""


def test_words_stand_on_the_page_while_they_are_spoken_and_stop_closes_the_microphone_at_once(
    open_page: OpenPage,
) -> None:
    """They say the same again and again: if a part of a word is lost on a busy machine, it comes again."""
    page = open_page("playground", hears=KITCHEN_LIGHT, again_and_again=True)
    page.get_by_role("tab", name="Live", exact=True).click()
    live = page.locator("#live")
    text, settled = live.locator(".live-text"), live.locator("[data-live=settled]")
    status, files = live.locator("[data-live=status]"), page.locator("#live-downloads a")
    page.get_by_role("button", name="Start listening").click()
    expect(status).to_have_text(re.compile(r"Listening: [1-9]\d* s$"))
    let_go = held(page, "component_server/", saying="feed")
    expect(status).to_have_text(re.compile(r"Listening: \d+ s, the text is \d+ s behind"))
    let_go()
    expect(text).to_contain_text("kitchen light")
    expect(settled).to_contain_text("ten minutes")
    live.get_by_role("button", name="Stop").click()
    expect(status).to_have_text(re.compile(r"Transcribed: \d+ s"))
    expect(files).to_have_count(5)
    expect(text).to_contain_text("kitchen light")

    spoken = downloaded(page)
    again = page.get_by_role("button", name="Transcribe the recording again")
    again.click()
    page.wait_for_function(
        "before => document.querySelector('#live-downloads a[download$=json]').href != before", arg=spoken
    )
    whole = json.loads(base64.b64decode(downloaded(page).partition(",")[2]))
    assert (json.loads(base64.b64decode(spoken.partition(",")[2]))["engine"], whole["engine"]) == (
        "live",
        "transformers",
    )
    expect(text).to_have_text(whole["text"])
    expect(page.locator("#live-status")).to_have_text("")
    assert "kitchen light" in whole["text"] and whole["duration_seconds"] > 4
    page.get_by_role("button", name="Start listening").click()
    expect(again).to_be_hidden()
    expect(text).to_contain_text("kitchen")
    live.get_by_role("button", name="Stop").click()
    expect(status).to_have_text(re.compile(r"Transcribed: \d+ s"))

    page.evaluate(NOTE_TRACKS)
    leaving = page.get_by_role("tab", name="Many files", exact=True)
    for closing in (live.get_by_role("button", name="Stop"), leaving):
        let_go = held(page, "component_server/", saying="feed")
        page.get_by_role("button", name="Start listening").click()
        expect(status).to_contain_text("Listening")
        page.wait_for_function("performance.now() - began > 8000", polling=200)  # the clip is said by then
        closing.click()
        page.wait_for_function("track.readyState == 'ended'")
        said = page.evaluate("(performance.now() - began) / 1000")
        let_go()
        expect(status).to_have_text(re.compile(r"Transcribed: \d+ s"))
        expect(files).to_have_count(5)
        expect(text).to_contain_text(re.compile("kitchen|timer|minutes"))
        heard = re.search(r"Transcribed: (\d+) s", status.inner_text() or status.text_content() or "")
        assert heard and 6 <= int(heard[1]) <= said + 0.5

    # Who speaks anew before the tab has shown what was said speaks anew.
    let_go = held(page, "queue/join")
    page.get_by_role("tab", name="Live", exact=True).click()
    page.get_by_role("button", name="Start listening").click()
    let_go()
    expect(status).to_contain_text("Listening")
    toggle = live.locator("[data-live=toggle]")
    expect(toggle).to_have_text("Stop")
    toggle.click()
    expect(status).to_have_text(re.compile(r"Transcribed: \d+ s"))
    page.get_by_role("tab", name="Many files", exact=True).click()

    # Who takes that back meanwhile is not listened to.
    let_go = held(page, "queue/join")
    page.get_by_role("tab", name="Live", exact=True).click()
    page.evaluate("window.track = null")
    toggle.click()
    toggle.click()
    let_go()
    expect(status).to_have_text("")
    expect(toggle).to_have_text("Start listening")
    assert page.evaluate("window.track") is None


def downloaded(page: Page) -> str:
    """The address of the JSON file, which has it all."""
    return str(page.locator("#live-downloads a", has_text="JSON").get_attribute("href"))


NOTE_STATUS = """() => {
  const status = document.querySelector('#live [data-live=status]');
  window.told = [];
  new MutationObserver(() => told.push(status.textContent)).observe(status, {childList: true});
}"""
"""What is told for a moment only is not missed."""


def test_the_end_of_a_recording_starts_its_transcription_and_live_it_is_told_how_far_an_export_is(
    open_page: OpenPage, studio_server: StudioProcess
) -> None:
    page = open_page("playground", hears=KITCHEN_LIGHT, again_and_again=True)
    audio = page.locator("#transcribe-audio")
    audio.get_by_role("button", name="Record audio").click()
    audio.get_by_role("button", name="Record", exact=True).click()
    wait_until_recorded(audio, 13)  # by then the clip is said once as a whole, wherever it was when one began
    audio.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen light"))

    page.get_by_role("tab", name="Live", exact=True).click()
    page.locator("button:visible", has_text="Engine").click()
    page.locator("#live-engine input").click()
    page.get_by_role("option", name="faster-whisper").click()
    page.locator("#live [data-live=status]").wait_for(state="attached")
    page.evaluate(NOTE_STATUS)
    page.get_by_role("button", name="Start listening").click()
    expect(page.locator("#live .live-text")).to_contain_text("kitchen light")
    expect(page.locator("#live [data-live=settled]")).to_contain_text("ten minutes")
    page.locator("#live").get_by_role("button", name="Stop").click()
    expect(page.locator("#live-downloads a")).to_have_count(5)
    assert re.search(r"faster-whisper, \d+%: .* Speak when", page.evaluate("told.join()"))
    assert [path.name for path in (studio_server.home / "models").iterdir()] == ["demo-ct2"]


def test_samples_are_rounded_to_sixteen_bits(browser: Browser) -> None:
    code = (ROOT / "assets" / "microphone.js").read_text(encoding="utf-8")
    encoded = re.search(r"^function encoded.*?^}", code, re.MULTILINE | re.DOTALL)
    assert encoded
    page = browser.new_page()
    sent = page.evaluate(
        f"({encoded[0]})([[0.7, -0.7, 1.2, 2.5], [-3, 40000, -40000]].map(quiet => "
        "quiet.map(value => value / 32767)))"
    )
    page.close()
    assert np.frombuffer(base64.b64decode(sent), "<i2").tolist() == [1, -1, 1, 3, -3, 32767, -32767]
