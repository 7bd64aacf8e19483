"""The whole story, as a stranger lives it: open the page, train with a click, speak, read, take away."""

import json
import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import FloatRect, expect

from studio.cli.demo import RECIPE
from studio.evaluation.metrics import utterance_errors
from studio.files import read_json
from studio.options.arguments import read_config
from tests.browser.conftest import (
    OpenPage,
    Pictures,
    assert_little_moved,
    forget_what_moved,
    show_tab,
    wait_until_recorded,
)
from tests.studio_process import ROOT, StudioProcess

TRAINING_MILLISECONDS = 480_000
SCENE_SECONDS = 2
SEEN = re.compile(r"step [1-9]\d+ of|Finished")
"""Of a run that may be quicker than the page."""


@pytest.fixture
def spoken(demo_speech: Path) -> tuple[Path, str]:
    """A clip of the demo's test set, in words that the demo model does not know, and its text: what one is
    told to say in the README."""
    told = re.search("say “(.+?)”", (ROOT / "README.md").read_text(encoding="utf-8"))
    rows = map(json.loads, (demo_speech / "test.jsonl").read_text(encoding="utf-8").splitlines())
    row = max((row for row in rows if told and row["sentence"] == told[1]), key=lambda row: row["duration"])
    return demo_speech / row["audio"]["path"], row["sentence"]


def moving_picture(scenes: list[bytes], path: Path) -> float:
    """Writes what was seen, one scene after the other; seconds that it takes."""
    first, *others = (Image.open(BytesIO(scene)).convert("RGB").resize((960, 675)) for scene in scenes)
    durations = [SCENE_SECONDS * 1000] * len(scenes)
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, quality=70)
    return SCENE_SECONDS * len(scenes)


def rates_of(text: str) -> tuple[float, float]:
    """The two rates of `Word errors: 83.0 % → 12.4 %`."""
    found = re.search(r"([\d.]+)\s% → ([\d.]+)\s%", text)
    assert found, text
    return float(found[1]), float(found[2])


def test_train_with_a_click_then_speak_and_read_what_the_new_model_heard(
    open_page: OpenPage,
    spoken: tuple[Path, str],
    studio_server: StudioProcess,
    pictures: Pictures,
    tmp_path: Path,
) -> None:
    page = open_page(hears=spoken[0])
    expect(page.locator("#memory-chart figure")).to_be_visible()
    pictures.take(page, "memory")
    scenes = [pictures.take(page)]

    show_tab(page, "train")
    expect(page.locator("#train-plan")).to_contain_text("Steps")
    scenes.append(pictures.take(page))
    forget_what_moved(page)
    page.get_by_role("button", name="Start training").click()
    status = page.locator("#run-status")
    expect(page.locator("#run-loss .js-line").first).to_be_visible(timeout=TRAINING_MILLISECONDS)
    expect(status).to_contain_text("Running")
    scenes.append(pictures.take(page))

    # A second visitor sees the same run, in a browser that knows nothing of it.
    other = open_page("train")
    expect(other.locator("#run-status")).to_contain_text(SEEN)
    other.context.close()

    expect(status).to_contain_text(SEEN, timeout=TRAINING_MILLISECONDS)
    assert_little_moved(page)
    pictures.take(page, "training")
    scenes.append(pictures.take(page))
    forget_what_moved(page)
    expect(status).to_contain_text("Finished", timeout=TRAINING_MILLISECONDS)
    expect(page.locator("#run-transcribe")).to_be_visible()
    assert_little_moved(page)
    before, after = rates_of(status.inner_text())
    assert after < before / 2
    (recipe,) = studio_server.home.glob("runs/*/config.json")
    assert replace(read_config(recipe), run_name=RECIPE.run_name) == RECIPE
    (card,) = map(read_json, studio_server.home.glob("models/*/model.json"))
    assert card["long_recordings"] == "short", "its base knows nothing of the accent"
    rows = {row["check"]: row for row in card["capabilities"]["checks"]}
    assert rows["long_form"]["base"] < 0.2 and rows["long_form"]["tuned"] > 0.8
    expect(page.locator("#run-errors .js-plotly-plot")).to_be_visible()
    pictures.take(page, "trained")
    scenes.append(pictures.take(page))

    page.locator("#run-transcribe").click()
    expect(page.locator("#transcribe-model input")).to_have_value(re.compile("adapter of Demo model"))
    page.get_by_role("button", name="Record audio").or_(page.get_by_label("Record audio")).first.click()
    page.get_by_role("button", name="Record", exact=True).click()
    wait_until_recorded(page.locator("#transcribe-audio"), 7)  # the clip is said
    scenes.append(pictures.take(page))
    page.get_by_label("By word").check()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Transcribe", exact=True).click()
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    text = page.locator("#transcript textarea").input_value()
    errors, length = utterance_errors(spoken[1], text, "wer")
    assert errors <= length // 5, f"{text!r} instead of {spoken[1]!r}"

    word = page.locator("#transcript-segments .word").nth(1)
    word.click()
    place = float(word.get_attribute("data-seek") or "nan")
    page.wait_for_function(
        "from => document.querySelector('#transcript-segments audio').currentTime >= from", arg=place
    )
    with page.expect_download() as download:
        page.get_by_role("link", name="SRT").click()
    download.value.save_as(tmp_path / "spoken.srt")
    captions = (tmp_path / "spoken.srt").read_text(encoding="utf-8")
    assert re.search(r"00:00:0\d,\d{3} --> 00:00:0\d,\d{3}", captions)
    page.locator("#transcript-segments").scroll_into_view_if_needed()
    scenes.append(pictures.take(page))
    pictures.take(page, "transcript")

    show_tab(page, "train")
    page.locator("#run-compare").click()
    page.get_by_label("Clips at most").fill("10")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.locator("#evaluate-comparisons")).to_contain_text("a real difference")
    expect(page.locator("#evaluate-scatter .js-plotly-plot")).to_be_visible()
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)
    seen: FloatRect = {"x": 0, "y": 0, "width": 1280, "height": 1960}  # without the list of clips
    pictures.take(page, "evaluation", clip=seen)
    scenes.append(pictures.take(page))
    if pictures.folder:
        film = pictures.folder / "story.webp"
        assert moving_picture(scenes, film) <= 20 and film.stat().st_size < 2_000_000
