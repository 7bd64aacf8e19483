"""What stands side by side: two models clip by clip, on the page and in a file, and the forms of one."""

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Locator, Request, expect

from studio.evaluation.compare import every_normalizer
from studio.evaluation.metrics import error_rates
from studio.evaluation.result import ComparisonRow
from tests.browser.conftest import (
    PATIENCE_MILLISECONDS,
    OpenPage,
    Pictures,
    assert_all_columns_are_in_sight,
    assert_nothing_is_too_wide,
    suspended,
    unfold,
)
from tests.golden.conftest import HOMES
from tests.reading import read_manifest
from tests.studio_process import StudioProcess, words_of
from tests.unit.evaluation.test_explorer import evaluation
from tests.unit.transcription.small_models import save_adapter

RATE = re.compile(r"^\d+(\.\d+)?\s%$")


def test_the_clips_that_the_second_model_lost_are_found_in_the_scatter_and_play_in_a_file_without_a_network(
    open_page: OpenPage,
    studio_server: StudioProcess,
    demo_model: Path,
    browser: Browser,
    pictures: Pictures,
    tmp_path: Path,
) -> None:
    save_adapter(demo_model, studio_server.home / "models" / "hoarse", seed=2, strength=1.0)
    page = open_page("evaluate")
    both = [re.compile("^Demo model"), re.compile("^hoarse")]
    expect(page.locator("#evaluate-models .token")).to_have_text(both)  # chosen for who has made one
    page.get_by_label("Clips at most").fill("8")
    page.get_by_label("Test data").fill(str(with_a_lost_clip(tmp_path)))
    page.get_by_label("Report with sound").check()
    asked: list[Request] = []
    page.on("requestfinished", lambda request: asked.append(request) if "queue/join" in request.url else None)
    page.get_by_role("button", name="Evaluate", exact=True).click()
    expect(page.locator("#evaluate-rates tbody tr")).to_have_count(2)
    clips = page.locator("#evaluate-utterances tbody tr")
    expect(clips).to_have_count(8)
    expect(page.locator("#evaluate-scatter .js-plotly-plot")).to_be_visible()
    expect(page.locator('[aria-busy="true"]')).to_have_count(0)
    assert len(asked) <= 3, "what the answer fills in is no question"
    assert lost(clips) > 0
    left_out = page.locator("#evaluate-status details")
    expect(left_out).to_contain_text("Rows left out, because they cannot be used: 1.")
    left_out.locator("summary").click()
    expect(left_out.locator("tbody tr")).to_contain_text("lost.ogg")
    unfolded = page.locator("#evaluate-comparisons details")
    unfolded.locator("summary").click()
    assert_all_columns_are_in_sight(unfolded.locator(".table-scroll"))

    show = page.locator("#evaluate-show input")
    show.click()
    page.get_by_role("option", name="Worse than the other model").click()
    expect(page.locator("#evaluate-utterances")).to_contain_text(re.compile(r"\b[1-7] of 8 clips"))
    assert lost(clips) == clips.count() > 0
    pictures.take(page, "two-models")
    assert_nothing_is_too_wide(page)
    pictures.take(page, "two-models-telephone")
    page.set_viewport_size({"width": 1280, "height": 900})

    show.click()
    page.get_by_role("option", name="All clips").click()
    expect(clips).to_have_count(8)
    page.locator("#evaluate-scatter .point").first.click(force=True)
    back = page.locator("#evaluate-utterances").get_by_role("button", name="✕")
    expect(back).to_have_text(re.compile(r"\d+\s% · (≥ )?\d+\s%"))
    cell = [int(share) for share in re.findall(r"\d+", back.inner_text())]
    dots = page.locator("#evaluate-scatter .js-plotly-plot").evaluate("plot => plot.data[0].customdata")
    expect(clips).to_have_count(next(dot["clips"] for dot in dots if list(dot["cell"]) == cell))
    assert sum(dot["clips"] for dot in dots) == 8 > clips.count()
    expect(page.locator("#evaluate-utterances .clip-bar")).to_be_in_viewport()
    back.click()
    expect(clips).to_have_count(8)

    with page.expect_download() as download:
        page.get_by_role("link", name="HTML").click()
    kept = tmp_path / "evaluation.html"
    download.value.save_as(kept)
    alone = browser.new_context(viewport={"width": 1280, "height": 900})
    alone.set_offline(True)
    report = alone.new_page()
    asked: list[str] = []
    report.on("request", lambda request: asked.append(request.url[:30]))
    report.goto(kept.as_uri())
    rows = report.locator(".utterances tbody tr")
    expect(rows).to_have_count(8)
    worst = [after for _, after in rates(rows)]
    assert worst == sorted(worst, reverse=True), "those with the most errors first"
    sound = rows.first.locator("audio")
    sound.evaluate("audio => audio.play()")
    report.wait_for_function("document.querySelector('.utterances audio').currentTime > 0.2")
    assert sound.evaluate("audio => audio.duration") > 1
    words = report.locator("body > details:not(.note)").first
    words.locator("> summary").click()
    expect(words.locator("table").first).to_be_hidden()
    pictures.take(report, "report")
    assert_nothing_is_too_wide(report)
    expect(rows.first.locator("td").first).to_have_css("display", "block")
    pictures.take(report, "report-telephone")
    assert all(url.startswith(("file:", "data:")) for url in asked)
    alone.close()

    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    saved = tmp_path / "evaluation.json"
    download.value.save_as(saved)
    page = open_page("evaluate", locale="zh-TW")
    upload = page.locator("#evaluate-open").locator("xpath=..").locator("input[type=file]")
    upload.set_input_files(saved)
    expect(page.locator("#evaluate-rates tbody tr")).to_have_count(2)
    expect(page.locator("#evaluate-utterances tbody tr")).to_have_count(8)
    expect(page.locator("#evaluate-status details")).to_contain_text("略過了 1 列無法使用的資料")
    page.locator("#evaluate-utterances").get_by_role("button", name=re.compile("^播放")).first.click()
    expect(page.locator("#evaluate-utterances audio")).to_be_visible()
    pictures.take(page, "saved-evaluation")
    empty = tmp_path / "empty.json"
    empty.write_text("{}", encoding="utf-8")
    upload.set_input_files(empty)
    expect(page.locator("#evaluate-status")).to_contain_text("empty.json 不是評估結果")
    expect(page.locator("#evaluate-utterances tbody tr")).to_have_count(8)

    # Of Chinese, the errors of characters come first, in bold and in the first sentence.
    upload.set_input_files(of_chinese(tmp_path))
    table = page.locator("#evaluate-rates")
    expect(table.locator("th").nth(1)).to_contain_text("CER")
    assert [title[:3] for title in table.locator("th").all_inner_texts()[1:4]] == ["CER", "WER", "MER"]
    best = table.locator("tbody tr").first.locator("td").nth(1)
    expect(best).to_have_text("1.4 %")
    expect(table.locator("b")).to_have_count(1)
    expect(best.locator("b")).to_be_visible()
    said = page.locator("#evaluate-comparisons .comparisons").first.locator("li")
    expect(said).to_have_text([re.compile("^CER：a"), re.compile("^WER：a")])
    pictures.take(page, "evaluation-chinese")


def of_chinese(folder: Path) -> Path:
    """A saved evaluation of two models on clips of Chinese."""
    wanted = ["打开厨房的灯", "关掉卧室的灯", "今天天气怎么样", "播放音乐"] * 3
    made = evaluation(wanted, ["打开房的灯", *wanted[1:]], [text[:2] for text in wanted])
    rows = [error_rates(wanted, [row.hypothesis for row in made.utterances[n::2]]) for n in range(2)]
    models = tuple(replace(model, **vars(row)) for model, row in zip(made.models, rows, strict=True))
    compared = ComparisonRow("wer", 0.9, 0.8, 1.0, True, 0, 11, "a", "b")
    made = replace(
        made,
        models=models,
        comparisons=(compared, replace(compared, metric="cer", difference=0.6, ci_low=0.5, ci_high=0.7)),
        normalizers=tuple(every_normalizer("ab", wanted, [wanted, wanted])),
    )
    path = folder / "chinese.json"
    path.write_text(json.dumps(made.to_json()), encoding="utf-8")
    return path


def with_a_lost_clip(folder: Path) -> Path:
    """Some of the demo's test clips in a list that begins with one more, whose file is gone."""
    clips = read_manifest("demo:test", max_rows=8).examples
    rows = [("lost.ogg", "turn on"), *((str(clip.audio_path), clip.text) for clip in clips)]
    path = folder / "list.jsonl"
    lines = (json.dumps({"audio": sound, "text": text}) + "\n" for sound, text in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def rates(clips: Locator) -> list[tuple[float, float]]:
    """Per cent of errors of both models in each row."""
    said = clips.evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('.clip-rate')].map(one => one.innerText))"
    )
    found = []
    for row in said:
        before, after = (float(text.rstrip(" %")) for text in row if RATE.match(text))
        found.append((before, after))
    return found


def lost(clips: Locator) -> int:
    """Rows in which the second model makes more errors than the first."""
    return sum(after > before for before, after in rates(clips))


def hearing(server: StudioProcess, before: psutil.Process | None = None) -> psutil.Process:
    """The process in which a form hears its clips, once it has been started, after the one `before`."""
    while True:
        for process in psutil.Process(server.pid).children(recursive=True):
            if "spawn_main" in " ".join(words_of(process)) and process != before:
                return process
        time.sleep(0.05)


def test_all_forms_of_a_model_stand_in_a_table_that_stays_with_it_and_when_another_is_cancelled(
    open_page: OpenPage, studio_server: StudioProcess, pictures: Pictures, known_clips: Path
) -> None:
    (home,) = HOMES.iterdir()
    # An export of the demo model: two forms play it.
    shutil.copytree(home / "models" / "finished-ct2-int8", studio_server.home / "models" / "mine")
    page = open_page("models")
    page.locator("#models-table").get_by_role("button", name="mine").click()
    unfold(page, "Which form should I deploy?")
    clips, status = page.locator("#models-forms-clips input"), page.locator("#models-forms-status")
    page.locator("#models-forms-data input, #models-forms-data textarea").fill(str(known_clips))
    clips.fill("-1")
    page.locator("#models-forms").click()
    expect(status).to_contain_text("Clips at most")
    clips.fill("5")
    start, cancel = page.locator("#models-forms"), page.locator("#models-forms-cancel")
    table = page.locator("#models-forms-table")
    rows = table.locator("tbody tr")
    start.click()
    first = hearing(studio_server)
    with suspended(hearing(studio_server, first)):
        expect(status).to_contain_text("faster-whisper:int8: transcribing 5 clips")
        cancel.click()
    expect(status).to_contain_text("Cancelled: these are the forms measured so far.")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("float32")

    start.click()
    expect(rows).to_have_count(3, timeout=4 * PATIENCE_MILLISECONDS)  # a process a form
    expect(rows.nth(0)).to_contain_text(re.compile(r"faster-whisper\s*float32"))
    expect(rows.nth(1)).to_contain_text(re.compile(r"faster-whisper\s*int8"))
    expect(rows.nth(2)).to_contain_text(re.compile(r"faster-whisper\s*int8_float32"))
    for row in rows.all():
        _, wer, cer, loss, factor, memory, size = row.locator("td").all_inner_texts()
        assert RATE.match(wer) and RATE.match(cer) and "…" in loss and float(factor) > 0
        assert memory.endswith("iB") and size.endswith("iB")
    assert rows.first.locator("td").nth(3).inner_text() == "+0.0 …\u00a0+0.0", "nothing is lost to itself"
    expect(table.locator(".note-good")).to_contain_text("is the fastest form that loses less than 1 point")
    expect(table.locator("li").filter(has_text="cannot compute in")).to_have_count(3)
    kept = page.locator("#models-details .forms-table tbody tr").filter(has_text="faster-whisper")
    expect(kept).to_have_count(3)
    assert_all_columns_are_in_sight(table.locator(".table-scroll"))
    pictures.take(page, "forms")
    assert_nothing_is_too_wide(page)
    pictures.take(page, "forms-telephone")

    before = table.inner_text()
    start.click()
    with suspended(process := hearing(studio_server)):
        expect(status).to_contain_text("transcribing 5 clips")
        cancel.click()
    expect(status).to_contain_text("What is shown is from before.")
    expect(cancel).to_be_disabled()
    assert table.inner_text() == before
    _gone, left = psutil.wait_procs([process], timeout=60)
    assert left == []
    page.close()

    page = open_page("models")
    page.locator("#models-table").get_by_role("button", name="mine").click()
    page.get_by_text("Comparison of its forms").click()
    expect(page.locator("#models-details .forms-table tbody tr").first).to_be_visible()
