"""Data on the Train tab: every clip is checked, and sentences are read into the microphone."""

import json
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from studio.dataset.audio import read_audio
from studio.dataset.manifest import read_manifest
from tests.browser.conftest import KITCHEN_LIGHT, OpenPage, wait_until_recorded
from tests.studio_process import StudioProcess

EVIL = "<img src=x onerror=alert(1)>"


def test_every_clip_is_checked_and_labels_are_doubted(
    open_page: OpenPage, demo_speech: Path, tmp_path: Path
) -> None:
    lines = (demo_speech / "test.jsonl").read_text(encoding="utf-8").splitlines()[:6]
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["audio"]["path"] = str(demo_speech / row["audio"]["path"])
    rows.append({"audio": {"path": "gone.wav"}, "sentence": "x"})
    rows[2] |= {"sentence": EVIL, "sentences": []}
    manifest = tmp_path / "list.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = open_page("train")
    page.locator("#train-train_data input").fill(str(manifest))
    page.get_by_role("button", name="Check every clip of the data").click()
    labels = page.locator("#data-transcribe input")
    labels.fill("-1")
    labels.press("Tab")
    expect(labels).to_have_value("-1")
    page.locator("#data-doctor-start").click()
    report = page.locator("#data-doctor-report")
    expect(report).to_contain_text("6 of 7 rows can be used")
    expect(report).to_contain_text("Labels the model disagrees with most")
    expect(report).to_contain_text(EVIL)
    expect(report).to_contain_text("gone.wav")
    expect(page.locator("#data-durations .js-plotly-plot")).to_be_visible()
    with page.expect_download() as download:
        report.get_by_role("link", name="HTML").click()
    download.value.save_as(tmp_path / "report.html")
    assert "&lt;img src=x" in (tmp_path / "report.html").read_text(encoding="utf-8")


def read_aloud(page: Page) -> None:
    """Records the sentence that is shown, and keeps it."""
    section = page.locator("#record-audio")
    section.get_by_role("button", name="Record", exact=True).click()
    wait_until_recorded(section, 4)  # the voice begins after 2
    section.get_by_role("button", name="Stop", exact=True).click()
    page.locator("#record-keep").click()


def test_sentences_are_read_one_by_one_and_go_on_after_a_break(
    open_page: OpenPage, studio_server: StudioProcess
) -> None:
    page = open_page("train", hears=KITCHEN_LIGHT, again_and_again=True)
    page.get_by_role("button", name="Record your own").click()
    page.get_by_role("button", name="A new list of sentences").click()
    page.get_by_label("Name of the list").fill("my voice")
    page.get_by_label("Sentences, one a line").fill(f"turn on the light\n{EVIL}\nthe third")
    page.locator("#record-begin").click()
    shown = page.locator("#record-sentence")
    expect(shown).to_contain_text("turn on the light")
    page.locator("#record-keep").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("There is no recording yet")
    read_aloud(page)
    expect(shown).to_contain_text("1 of 3 sentences read")
    expect(shown).to_contain_text(EVIL)
    page.context.close()

    page = open_page("train", hears=KITCHEN_LIGHT, again_and_again=True)
    page.get_by_role("button", name="Record your own").click()
    shown = page.locator("#record-sentence")
    expect(shown).to_contain_text("Sentence 2")
    read_aloud(page)
    expect(shown).to_contain_text("Sentence 3")
    page.locator("#record-back").click()
    expect(shown).to_contain_text("Read already")
    page.locator("#record-use").click()
    manifest = studio_server.home / "recordings" / "my voice" / "metadata.jsonl"
    expect(page.locator("#train-train_data input")).to_have_value(str(manifest))
    examples = read_manifest(manifest).examples
    assert [example.text for example in examples] == ["turn on the light", EVIL]
    assert all(np.abs(read_audio(example.audio_path)).max() > 0.05 for example in examples)
