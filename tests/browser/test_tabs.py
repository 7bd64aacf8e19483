"""Each tab does its work in a real browser, in three languages, wide and narrow."""

import json
import re
import shlex
import shutil
from pathlib import Path

import openai
from filelock import FileLock
from playwright.sync_api import Browser, expect

from studio.publishing.export import LOCK
from studio.ui.build import STYLE_SHEET
from studio.ui.shared.light_page import style_sheet
from tests.browser.conftest import (
    KITCHEN_LIGHT,
    TABS,
    OpenPage,
    Pictures,
    assert_all_columns_are_in_sight,
    assert_nothing_is_too_wide,
    held,
    show_tab,
    unfold,
)
from tests.browser.test_refused import no_toast
from tests.browser.test_transcribe import take
from tests.golden.conftest import HOMES
from tests.reading import read_manifest
from tests.studio_process import StudioProcess

CONTENT = {
    "memory": "#memory-parts table",
    "train": "#train-start",
    "playground": "#transcribe-start",
    "evaluate": "#evaluate-start",
    "models": "#models-table table",
}
EVIL = "${alert(1)} <img src=x onerror=alert(2)>"


RULES = r"""(text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return [...sheet.cssRules].map((rule) => rule.cssText.replace(/,\s+/g, ','));  // of own properties
}"""


def test_a_style_sheet_without_its_space_says_the_same(browser: Browser) -> None:
    page = browser.new_page()
    whole = page.evaluate(RULES, STYLE_SHEET.read_text("utf-8"))
    assert len(whole) > 100 and page.evaluate(RULES, style_sheet(STYLE_SHEET)) == whole
    page.close()


def test_a_sample_becomes_a_transcript_that_plays_and_stays_when_the_next_thing_fails_or_is_cancelled(
    open_page: OpenPage, demo_model: Path, tmp_path: Path
) -> None:
    """A model may be a folder."""
    page = open_page("playground")
    chosen = page.locator("#transcribe-model input")
    expect(chosen).to_have_value(re.compile("Demo model|adapter of"))
    take(page, "Kitchen light")
    page.get_by_label("By word").check()
    page.get_by_role("button", name="Transcribe", exact=True).click()
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))
    text = page.locator("#transcript textarea").input_value()
    word = page.locator("#transcript-segments .word").nth(2)
    word.click()
    place = float(word.get_attribute("data-seek") or "nan")
    page.wait_for_function(
        "from => document.querySelector('#transcript-segments audio').currentTime >= from", arg=place
    )
    with page.expect_download() as download:
        page.get_by_role("link", name="SRT").click()
    assert download.value.suggested_filename == "kitchen-light.srt"
    assert "-->" in Path(download.value.path()).read_text(encoding="utf-8")

    (tmp_path / "words.wav").write_text("turn on the kitchen light", encoding="utf-8")
    page.locator("#transcribe-audio").get_by_label("Clear").click()
    page.locator("#transcribe-audio input[type=file]").set_input_files(tmp_path / "words.wav")
    expect(page.locator("#transcribe-audio audio, #transcribe-audio #waveform").first).to_be_attached()
    page.locator("#transcribe-start").click()
    status = page.locator("#transcribe-status")
    expect(status).to_contain_text("words.wav is not a sound file")
    expect(status).not_to_contain_text("/")
    expect(status).not_to_contain_text("Loading")
    expect(page.locator("#transcript textarea")).to_have_value(text)
    expect(page.locator("#transcript-downloads a")).to_have_count(5)
    unfold(page, "Layout of the captions")
    width = page.locator("#caption-max_line_width")
    width.locator("input").fill("42.5")
    for field in (page.locator("#transcript-refused"), width):
        expect(field).to_contain_text("must be a whole number, got 42.5")

    chosen.fill(str(shutil.copytree(demo_model, tmp_path / "my-whisper")))
    chosen.press("Enter")
    page.locator("#transcribe-audio").get_by_label("Clear").click()
    take(page, "Kitchen light")
    page.locator("#transcribe-start").click()  # which needs no layout
    expect(status).not_to_contain_text("is not a sound file")
    expect(page.locator("#transcript-facts")).to_contain_text("my-whisper")
    expect(page.locator("#transcript textarea")).to_have_value(text)
    page.get_by_role("tab", name="Many files", exact=True).click()
    unfold(page, "Layout of the captions")
    page.locator("#many-max_line_count input").fill("")
    page.locator("#many-start").click()
    for field in (page.locator("#many-status"), page.locator("#many-max_line_count")):
        expect(field).to_contain_text("is empty: give a number")
    no_toast(page)


def test_an_evaluation_shows_rates_and_every_clip_or_what_is_wrong(open_page: OpenPage) -> None:
    page = open_page("evaluate")
    page.locator("#evaluate-data input").fill("nowhere.jsonl")
    page.get_by_label("Clips at most").fill("2")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.locator("#evaluate-status")).to_contain_text("nowhere.jsonl")
    expect(page.locator("#evaluate-status")).not_to_contain_text("Loading")
    page.locator("#evaluate-data input").fill("demo:test")
    page.get_by_label("Also measure hallucinations").check()
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.locator("#evaluate-rates tbody tr")).to_have_count(1)
    expect(page.locator("#evaluate-rates [data-label='Hallucinated (words/h)']")).to_have_text(
        re.compile(r"^\d")
    )
    clips = page.locator("#evaluate-utterances tbody tr")
    expect(clips).to_have_count(2)
    expect(page.get_by_role("link", name="JSON")).to_be_visible()
    clips.first.get_by_role("button", name="Play").click()
    expect(clips.first.locator("audio")).to_be_focused()
    page.wait_for_function("document.querySelector('#evaluate-utterances audio').currentTime > 0")
    one_clip = page.locator("#evaluate-words td:nth-child(2)").filter(has_text=re.compile("^1$"))
    one_clip.locator("xpath=preceding-sibling::td").get_by_role("button").first.click()
    expect(clips).to_have_count(1)
    page.locator("#evaluate-utterances").get_by_role("button", name="✕").click()
    expect(clips).to_have_count(2)
    wrong, right = clips.first.locator(".reference").text_content(), "what was said: שלום"
    clips.first.get_by_role("button", name="Correct the reference").press("Enter")
    field = clips.first.get_by_role("textbox", name="Reference")
    field.fill("nothing of this")
    field.press("Escape")
    expect(clips.first.locator(".reference")).to_have_text(str(wrong))
    pencil = clips.first.get_by_role("button", name="Correct the reference")
    expect(pencil).to_be_focused()
    pencil.click()
    field.fill("")
    field.press("Enter")
    expect(page.locator("#evaluate-refused")).to_contain_text("empty: write what is said")
    let_go = held(page, "queue/join")
    clips.first.get_by_role("button", name="Play").click()
    clips.last.get_by_role("button", name="Play").click()
    field.fill(right)
    page.locator("#evaluate-search input").focus()
    let_go()
    expect(clips.last.locator("audio")).to_be_visible()
    expect(clips.first.locator(".reference")).to_have_text(right)
    page.get_by_role("button", name="Save as a new list").click()
    expect(page.locator("#evaluate-status")).to_contain_text("demo-test-corrected")
    expect(clips.first.locator(".reference")).to_have_text(right)
    saved = Path(page.locator("#evaluate-data input").input_value())
    assert right in [example.text for example in read_manifest(saved).examples]
    page.locator("#evaluate-groups .nsewdrag").click(position={"x": 150, "y": 200})
    expect(page.locator("#evaluate-group input")).not_to_have_value("All")
    page.locator("#evaluate-search input").fill("nobody has said this")
    expect(page.locator("#evaluate-utterances")).to_contain_text("0 of 2 clips")
    page.locator("#evaluate-data input").fill("demo:train")
    page.get_by_label("Clips at most").fill("0")
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.locator("#evaluate-status")).to_contain_text(re.compile("Transcribed .* clips"))
    page.locator("#evaluate-cancel").click()
    expect(page.locator("#evaluate-status")).to_contain_text("What is shown is from before.")
    expect(page.locator("#evaluate-cancel")).to_be_disabled()
    expect(page.locator("#evaluate-utterances")).to_contain_text("0 of 2 clips")
    expect(page.locator("#evaluate-rates tbody tr")).to_have_count(1)


def test_a_model_is_described_exported_renamed_and_deleted_after_asking(
    open_page: OpenPage, studio_server: StudioProcess, demo_model: Path
) -> None:
    """An export offers the model's own weights, and can be cancelled."""
    models = studio_server.home / "models"
    shutil.copytree(demo_model, models / "copied")
    (adapter,) = HOMES.glob("*/models/finished")
    shutil.copytree(adapter, models / "finished")
    before = {path.name for path in models.iterdir()}
    page = open_page("playground")
    page.get_by_role("tab", name="Side by side").click()
    show_tab(page, "models")
    page.locator("#models-choice input").click()
    page.get_by_role("option", name="copied").click()
    expect(page.locator("#models-details h2")).to_have_text("copied")
    let_go = held(page, "queue/join")
    ask, table = page.get_by_role("button", name="Delete …"), page.locator("#models-table")
    ask.click()
    table.locator(".link-button").first.click()
    table.get_by_role("button", name="finished").click()
    let_go()
    expect(page.locator("#models-details h2")).to_have_text("finished")
    expect(page.locator("#models-delete")).to_be_hidden()
    page.locator("#models-export-format input").click()
    page.get_by_role("option", name="Merged into its base").click()
    expect(page.locator("#models-export-status")).to_be_empty()
    page.locator("#models-export-quantization input").click()
    expect(page.get_by_role("option")).to_contain_text(["Unchanged", "float32", "float16", "bfloat16"])
    page.keyboard.press("Escape")
    with FileLock(models.with_name(LOCK)):
        page.locator("#models-export").click()
        expect(page.locator("#models-export-status")).to_contain_text("Waiting for another export to end")
        page.locator("#models-export-cancel").click()
        expect(page.locator("#models-export-status")).to_contain_text("Cancelled: nothing was exported.")
    page.locator("#models-table .link-button").first.click()
    expect(page.locator("#models-choice input")).to_have_value("Demo model")
    expect(page.locator("#models-export-status")).to_be_empty()
    assert {path.name for path in models.iterdir()} == before

    page.locator("#models-table").get_by_role("button", name="copied").click()
    expect(page.locator("#models-details")).to_contain_text("Size on disk")
    page.locator("#models-export").click()
    expect(page.locator("#models-table")).to_contain_text("copied-ct2")
    expect(page.locator("#models-choice input")).to_have_value("copied")
    expect(page.get_by_text("Verified: identical output")).to_have_count(1)
    expect(page.locator("#models-details")).to_contain_text("the same output (3 clips)")
    assert_all_columns_are_in_sight(page.locator("#models-table .table-scroll"))
    for tab, picker in (("evaluate", "#evaluate-models"), ("playground", "#compare-models")):
        show_tab(page, tab)
        page.locator(f"{picker} input").click()
        expect(page.get_by_role("option", name="copied-ct2")).to_be_visible()

    show_tab(page, "models")
    page.get_by_label("New name").fill("renamed")
    page.reload()  # what was typed comes back, and which model it is for
    expect(page.get_by_label("New name")).to_have_value("renamed")
    page.get_by_role("button", name="Rename").click()
    renamed = page.locator("#models-table").get_by_role("button", name="renamed")
    expect(renamed).to_have_count(1)
    expect(page.locator("#models-table")).to_contain_text("on renamed")  # what was exported of it
    page.get_by_role("button", name="Delete …").click()
    expect(page.locator("#models-delete")).to_be_in_viewport(ratio=1)
    page.locator("#models-delete").click()
    expect(renamed).to_have_count(0)
    assert not (models / "renamed").exists()


def test_a_model_is_published_with_a_token_that_is_kept_nowhere_and_served_by_the_copied_command(
    open_page: OpenPage, studio_server: StudioProcess, demo_model: Path
) -> None:
    """What is sent is shown before; names from the disk are text, and never run."""
    (studio_server.home / "models" / EVIL).mkdir()
    folder = shutil.copytree(demo_model, studio_server.home / "models" / "mine")
    (folder / "model.json").write_text('{"languages": ["en"]}', encoding="utf-8")
    page = open_page("models")
    expect(page.locator("#models-table")).to_contain_text(EVIL)
    page.locator("#models-table").get_by_role("button", name="mine").click()
    unfold(page, "Publish on the Hugging Face Hub")
    status, sent = page.locator("#models-publish-status"), page.locator("#models-publish-sent")
    page.get_by_role("button", name="Show what is sent").click()
    expect(status).to_contain_text("give owner/name")
    page.get_by_label("Name on the Hub").fill("somebody/mine")
    page.get_by_role("button", name="Show what is sent").click()
    expect(sent).to_contain_text("somebody/mine, private")
    expect(sent).to_contain_text("model.safetensors")
    expect(sent.locator("pre")).to_contain_text("pipeline_tag: automatic-speech-recognition")
    expect(status).to_be_empty()
    page.get_by_label("Everybody may see and load it").check()
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(status).to_contain_text("A token of the Hub is needed")
    expect(sent).to_contain_text("somebody/mine, public")
    page.locator("#models-publish-token input").fill("hf_of_a_visitor")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(status).to_contain_text("The Hub did not answer")
    kept: list[str] = []
    page.expose_function("seen", lambda text: kept.append(text))
    page.evaluate("addEventListener('pagehide', () => seen(JSON.stringify([sessionStorage, localStorage])))")
    page.get_by_role("button", name="繁體中文").click()
    unfold(page, "發布到 Hugging Face Hub")
    expect(page.locator("#models-publish-name input")).to_have_value("somebody/mine")
    expect(page.locator("#models-publish-token input")).to_have_value("")
    files = [path for path in studio_server.home.rglob("*") if path.is_file()]
    assert not any(b"hf_of_a_visitor" in path.read_bytes() for path in files)
    assert "hf_of_a_visitor" not in studio_server.log() and not any("hf_of_a_visitor" in one for one in kept)

    page.set_viewport_size({"width": 390, "height": 900})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#models-table .link-button").first.click()
    unfold(page, "該部署哪種格式？")
    language = page.get_by_label("語言", exact=True)
    expect(language).to_have_value("自動")
    language.click()
    expect(page.get_by_role("option", name="泰文")).to_be_attached()
    page.keyboard.press("Escape")
    unfold(page, "部署此模型")
    box = page.locator("#models-serve-own")
    expect(box.locator("textarea")).to_have_value(re.compile("model=demo"))
    box.get_by_role("button").click()
    ask, serve = str(page.evaluate("navigator.clipboard.readText()")).splitlines()
    assert serve == "python -m studio serve --model demo"
    words = shlex.split(ask)
    assert words[0] == "curl" and words[-1] == "model=demo"
    address = words[1].removesuffix("/audio/transcriptions")
    client = openai.OpenAI(base_url=address, api_key="none is asked for", max_retries=0, timeout=120)
    heard = client.audio.transcriptions.create(model="demo", file=KITCHEN_LIGHT)
    assert "kitchen light" in heard.text
    assert_nothing_is_too_wide(page)
    show_tab(page, "playground")
    expect(page.locator("#transcribe-model input")).to_be_visible()


def test_a_page_keeps_its_language_when_another_tab_of_the_browser_changes_to_a_second_one(
    open_page: OpenPage,
) -> None:
    """The guided line leads through the one; the other one draws nothing while it is left alone."""
    page = open_page()
    other = page.context.new_page()
    other.add_init_script(
        """const draw = requestAnimationFrame.bind(window);
        window.requestAnimationFrame = (step) => {
          window.lastDrawn = performance.now();
          return draw(step);
        };"""
    )
    other.goto(page.url)
    expect(other.locator("#memory-verdict")).to_contain_text("Fits on GeForce RTX 4090")
    other.get_by_label("Transcribe with it").check()  # hides fields that the answer fills, too
    expect(other.get_by_label("Method", exact=True)).to_be_hidden()
    other.wait_for_function("performance.now() - window.lastDrawn > 500", polling=100)
    other.get_by_role("button", name="简体中文").click()
    expect(other.locator("#memory-verdict")).to_contain_text("放得下")
    other.close()

    page.locator("#memory-per_device_train_batch_size input").fill("3")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("train_batch_size 3"))
    expect(page.locator("#memory-verdict")).to_contain_text("Fits on GeForce RTX 4090")
    for button, tab, what, shown in (
        ("1. Train the demo model", "Train", "#train-plan", "GiB"),
        ("3. Compare before and after", "Evaluate", "#evaluate-start", "Evaluate"),
        (None, "Models", "#models-table", "Demo model"),
        ("2. Record and transcribe", "Transcribe", "#transcribe-start", "Transcribe"),
    ):
        opened = page.get_by_role("tab", name=tab, exact=True)
        (page.get_by_role("button", name=button) if button else opened).click()
        expect(opened).to_have_attribute("aria-selected", "true")
        expect(page.locator(what)).to_contain_text(shown)
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcribe-status")).to_contain_text("There is no recording yet")
    assert not re.search(r"[\u4e00-\u9fff]", page.locator("#studio-tabs").inner_text())

    page.reload()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    expect(page.get_by_role("tab", name="显存", exact=True)).to_be_visible()
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcribe-status")).to_contain_text("还没有录音")
    show_tab(page, "models")
    expect(page.locator("#models-table")).to_contain_text("演示模型")


def test_a_telephone_shows_all_tabs_in_their_order_and_nothing_is_wider(
    open_page: OpenPage, pictures: Pictures, demo_speech: Path, tmp_path: Path
) -> None:
    """The run stands before the options that few need; the form shows its command, names bad rows and refuses
    nonsense."""
    page = open_page("playground", width=390)
    for group, count in (("#studio-tabs", 5), ("#transcribe-sections", 4)):
        tabs = page.locator(f"{group} > .tab-wrapper [role=tab]")
        expect(tabs).to_have_count(count)
        boxes = [box for tab in tabs.all() if (box := tab.bounding_box())]
        assert boxes == sorted(boxes, key=lambda box: (round(box["y"]), box["x"]))
        assert len(boxes) == count and all(box["x"] + box["width"] <= 390 for box in boxes)
    show_tab(page, "train")
    expect(page.locator("#train-plan")).to_contain_text("56")
    pictures.take(page, "train-telephone")
    places = [page.locator(f"#{name}").bounding_box() for name in ("train-start", "run-status", "distill")]
    tops = [place["y"] for place in places if place]
    assert tops == sorted(tops) and len(tops) == 3

    unfold(page, "The same as a command or a file")
    command = page.locator("#train-command textarea")
    expect(command).to_have_value("python -m studio train --base_model demo --train_data demo")
    page.get_by_label("Epochs").fill("5")
    expect(command).to_have_value(re.compile("--num_train_epochs 5.0"))

    good = next((demo_speech / "samples").glob("*.flac"))
    rows = [{"lyd": str(good), "ord": "turn on"}, {"lyd": "missing.wav", "ord": EVIL}]
    manifest = tmp_path / "list.jsonl"
    manifest.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    page.locator("#train-train_data input").fill(str(manifest))
    unfold(page, "More about the data")
    page.locator("#train-audio_column input").fill("lyd")
    page.locator("#train-text_column input").fill("ord")
    page.keyboard.press("Tab")  # the field may grow with its text, and move the button below
    page.get_by_role("button", name="Preview and check the data").click()
    preview = page.locator("#data-preview")
    expect(preview).to_contain_text("Rows that can be read: 1, unusable: 1")
    expect(preview).to_contain_text("missing.wav")
    expect(preview.locator("td", has_text="missing.wav").first).to_have_css("display", "block")

    page.get_by_label("Learning rate", exact=True).fill("7")
    expect(page.locator("#train-refused")).to_contain_text("Learning rate must be between")
    expect(command).to_have_value("")

    page.evaluate("document.body.classList.add('dark')")
    for tab in TABS:
        show_tab(page, tab)
        expect(page.locator(CONTENT[tab]).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, tab
