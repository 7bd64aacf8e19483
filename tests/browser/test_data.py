"""Data on the Train tab: brought from elsewhere, checked clip by clip, and read into the microphone."""

import json
import re
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import Page, expect

from studio.dataset.audio import read_audio
from studio.options.arguments import write_yaml
from tests.browser.conftest import KITCHEN_LIGHT, OpenPage, held, unfold, wait_until_recorded
from tests.browser.test_train import many_steps
from tests.reading import read_manifest
from tests.studio_process import StudioProcess

EVIL = "<img src=x onerror=alert(1)>"


def test_every_clip_is_checked_labels_are_doubted_and_a_check_that_is_cancelled_ends(
    open_page: OpenPage, studio_server: StudioProcess, demo_speech: Path, tmp_path: Path
) -> None:
    lines = (demo_speech / "test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["audio"]["path"] = str(demo_speech / row["audio"]["path"])
    manifest, many = tmp_path / "list.jsonl", tmp_path / "many.jsonl"
    many.write_text("".join(json.dumps(row) + "\n" for row in rows * 10), encoding="utf-8")
    rows[6:] = [{"audio": {"path": "gone.wav"}, "sentence": "x"}]
    rows[2] |= {"sentence": EVIL, "sentences": []}
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = open_page("train")
    data, report = page.locator("#train-train_data input"), page.locator("#data-doctor-report")
    start, stop = page.locator("#data-doctor-start"), page.locator("#data-doctor-cancel")
    labels, status = page.locator("#data-transcribe input"), page.locator("#data-doctor-status")
    data.fill(str(many))
    unfold(page, "Check every clip of the data")
    labels.fill("-1")
    labels.press("Tab")
    expect(labels).to_have_value("-1")
    with studio_server.unhurried():
        start.click()
        expect(status).to_contain_text(re.compile(r"Transcribed \d+ of 400 clips"))
        stop.click()
    expect(status).to_contain_text("Cancelled: this is the report so far.")
    expect(report).to_contain_text("400 of 400 rows can be used")

    data.fill(str(manifest))
    start.click()
    expect(report).to_contain_text("6 of 7 rows can be used")
    expect(report).to_contain_text("Labels the model disagrees with most")
    expect(report).to_contain_text(EVIL)
    expect(report).to_contain_text("gone.wav")
    expect(status).to_have_text("")
    expect(page.locator("#data-durations .js-plotly-plot")).to_be_visible()
    with page.expect_download() as download:
        report.get_by_role("link", name="HTML").click()
    download.value.save_as(tmp_path / "report.html")
    assert "&lt;img src=x" in (tmp_path / "report.html").read_text(encoding="utf-8")
    before = report.inner_text()

    data.fill(str(many))
    with studio_server.unhurried():
        start.click()
        expect(status).to_contain_text(re.compile(r"Transcribed \d+ of 400 clips"))
        stop.click()
    expect(status).to_contain_text("What is shown is from before.")
    expect(stop).to_be_disabled()
    expect(status.locator("[role=progressbar]")).to_have_count(0)
    assert report.inner_text() == before
    expect(page.locator("#data-durations .js-plotly-plot")).to_be_visible()
    come_to_rest(studio_server)


def come_to_rest(server: StudioProcess, seconds: float = 20.0) -> None:
    """Waits until a server works at nothing any more; fails if it does not come to that."""
    process, until = psutil.Process(server.pid), time.monotonic() + seconds
    while time.monotonic() < until:
        before = process.cpu_times().user
        time.sleep(1)  # a process at work shows it in its own seconds: less would be too coarse
        if process.cpu_times().user - before < 0.3:
            return
    raise AssertionError(f"the server is at work for {seconds} seconds more")


def test_a_zip_from_another_machine_is_unpacked_checked_and_trained_with(
    open_page: OpenPage, studio_server: StudioProcess, demo_speech: Path, micro_model: Path, tmp_path: Path
) -> None:
    archive, config = tmp_path / "clips.zip", tmp_path / "mine.yaml"
    config.write_text(write_yaml(replace(many_steps(micro_model, Path("demo")), max_steps=2)), "utf-8")
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(demo_speech / "test.jsonl", "my clips/list.jsonl")
        for sound in (demo_speech / "audio").glob("test-*"):
            zipped.write(sound, f"my clips/audio/{sound.name}")
        zipped.writestr("__MACOSX/my clips/._list.jsonl", "x")
    page = open_page("train")
    unfold(page, "The same as a command or a file")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Load settings from a file").click()
    chooser.value.set_files(config)
    expect(page.get_by_label("Name of the run")).to_have_value("unwatched")
    unfold(page, "Upload training data")
    expect(page.get_by_label("Uploaded before")).to_be_hidden()
    drop, said = page.locator("#upload-files input[type=file]"), page.locator("#upload-status")
    drop.set_input_files({"name": "torn.zip", "mimeType": "", "buffer": archive.read_bytes()[:5000]})
    expect(said).to_contain_text("torn.zip is damaged, incomplete or no zip")
    data = page.locator("#train-train_data input")
    expect(data).to_have_value("demo")
    page.get_by_role("button", name="Clear").click()

    let_go = held(page, "queue/join")
    drop.set_input_files(archive)
    expect(page.locator("#upload-files")).to_contain_text("clips")  # which moves what is below
    page.get_by_role("button", name="Preview and check the data").click()  # waits for what was dropped
    let_go()
    expect(said).to_contain_text("41 files, ")
    expect(said).to_contain_text("Hidden files left out: 1.")
    folder = studio_server.home / "datasets" / "clips" / "my clips"
    expect(data).to_have_value(str(folder))
    expect(page.locator("#data-preview")).to_contain_text("Rows that can be read: 40, unusable: 0")
    page.locator("#train-start").click()
    expect(page.locator("#run-status")).to_contain_text("Created unwatched")
    page.close()

    page = open_page("train")
    unfold(page, "Upload training data")
    page.get_by_label("Uploaded before").click()
    page.get_by_role("option", name="clips").click()
    expect(page.locator("#train-train_data input")).to_have_value(str(folder))


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
    unfold(page, "Record your own")
    unfold(page, "A new list of sentences")
    page.get_by_label("Name of the list").fill("my voice")
    page.get_by_label("Sentences, one per line").fill(f"turn on the light\n{EVIL}\nthe third")
    page.locator("#record-begin").click()
    shown = page.locator("#record-sentence")
    expect(shown).to_contain_text("turn on the light")
    page.locator("#record-keep").click()
    expect(page.locator("#record-refused")).to_contain_text("There is no recording yet")
    read_aloud(page)
    expect(shown).to_contain_text("1 of 3 sentences read")
    expect(shown).to_contain_text(EVIL)
    page.close()

    page = open_page("train", hears=KITCHEN_LIGHT, again_and_again=True)
    unfold(page, "Record your own")
    shown = page.locator("#record-sentence")
    expect(shown).to_contain_text("Sentence 2")
    for following in ("Sentence 3", "Sentence 2"):  # after the last comes the first that nobody has read
        page.locator("#record-skip").click()
        expect(shown).to_contain_text(following)
    read_aloud(page)
    expect(shown).to_contain_text("Sentence 3")
    page.locator("#record-back").click()
    expect(shown).to_contain_text("Already recorded")
    page.reload()
    unfold(page, "Record your own")
    expect(shown).to_contain_text("Sentence 2")
    expect(shown).to_contain_text("Already recorded")
    expect(page.locator("#record-audio #waveform").first).to_be_visible()
    player = page.locator("#record-audio")
    expect(player.get_by_role("button", name=re.compile("download", re.I))).to_have_count(1)
    expect(player.get_by_role("button", name=re.compile("share", re.I))).to_have_count(0)
    page.locator("#record-use").click()
    manifest = studio_server.home / "recordings" / "my voice" / "metadata.jsonl"
    expect(page.locator("#train-train_data input")).to_have_value(str(manifest))
    examples = read_manifest(manifest).examples
    assert [example.text for example in examples] == ["turn on the light", EVIL]
    assert all(np.abs(read_audio(example.audio_path)).max() > 0.05 for example in examples)
