"""Who is quicker than the studio: what was clicked or typed last counts, however late its answer is."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from studio.options.arguments import write_yaml
from studio.options.training import TrainingConfig
from tests.browser.conftest import OpenPage, held, show_tab, unfold
from tests.studio_process import StudioProcess

LATE_END = """() => {
  const fetched = window.fetch.bind(window);
  const isEnd = (text) => text.includes('"msg":"close_stream"');
  window.fetch = async (resource, options) => {
    const answer = await fetched(resource, options);
    if (!(resource.url ?? resource).toString().includes('/queue/data')) return answer;
    const late = new TransformStream({async transform(text, next) {
      const end = isEnd(text) ? text.search(/data: .{8}close_stream/) : text.length;
      next.enqueue(text.slice(0, end));
      if (isEnd(text)) { window.held = true; await window.late; }
      next.enqueue(text.slice(end));
    }});
    const read = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(late);
    return new Response(read.pipeThrough(new TextEncoderStream()), answer);
  };
  window.late = new Promise((done) => { window.letGo = done; });
}"""
"""The page reads later than it was written that the server has ended the stream of answers."""


def test_what_is_asked_while_the_server_ends_the_stream_of_answers_is_answered(open_page: OpenPage) -> None:
    page = open_page("playground")
    page.add_init_script(f"({LATE_END})()")
    page.reload()
    page.wait_for_function("window.held")
    with page.expect_response("**/queue/join*"):
        page.get_by_role("button", name="Kitchen light", exact=True).click()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")  # until Gradio has taken in its number
    page.evaluate("letGo()")
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))


def test_transcribe_waits_for_the_sample_that_was_clicked_last(open_page: OpenPage) -> None:
    page = open_page("playground")
    let_go = held(page, "queue/join")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_role("button", name="Kitchen light", exact=True).click()
    page.locator("#transcribe-start").click()
    let_go()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_click_that_waits_is_forgotten_when_it_is_cancelled_or_its_sample_fails(
    open_page: OpenPage, how: str
) -> None:
    page = open_page("playground")
    # Busy for a while, so that what the first click asks for is asked, and fails, while the second one waits.
    page.evaluate("() => { window.requestIdleCallback = (done) => setTimeout(done, 1500); }")
    sample = page.get_by_role("button", name="Kitchen light", exact=True)
    number = "id => gradio_config.components.find((one) => one.props.elem_id === id).id"
    asked = page.evaluate(number, sample.get_attribute("id"))
    let_go = held(page, "queue/join", f'"trigger_id":{asked},')
    start = page.locator("#transcribe-start")
    sample.evaluate("(one, next) => { one.click(); next.click(); }", start.element_handle())
    expect(start).to_have_attribute("aria-busy", "true")
    if how == "cancelled":
        page.locator("#transcribe-cancel").click()
    let_go(well=how == "cancelled")
    expect(start).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#transcribe-cancel")).to_be_disabled()
    sample.click()  # whatever else was asked for has been sent by the time that this one is there
    expect(page.locator("#transcribe-audio #waveform").first).to_be_visible()
    expect(page.locator("#transcribe-status")).to_contain_text("The transcript will appear here")


@pytest.mark.parametrize("from_file", [False, True])
def test_a_run_waits_for_a_number_just_typed_and_for_settings_on_their_way(
    open_page: OpenPage, studio_server: StudioProcess, tmp_path: Path, from_file: bool
) -> None:
    settings = tmp_path / "mine.yaml"
    settings.write_text(write_yaml(TrainingConfig(lora_r=24)), encoding="utf-8")
    page = open_page("train" if from_file else "memory")
    unfold(page, "The same as a command or a file" if from_file else "More options")
    let_go = [held(page, what) for what in ("upload", "run/*", "queue/join")]
    if from_file:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Load settings from a file").click()
        chooser.value.set_files(settings)
    else:
        page.get_by_label("LoRA rank").first.fill("24")
        page.locator("#memory-to-train").click()
        show_tab(page, "train")
    page.locator("#train-start").click()
    for each in let_go:
        each()
    expect(page.locator("#train-start")).not_to_have_attribute("aria-busy", "true")
    if from_file:
        expect(page.locator("#train-file-refused")).to_be_empty()
    expect(page.locator("#run-history tbody tr")).to_have_count(2 if from_file else 1)
    runs = (studio_server.home / "runs").glob("*/config.json")
    assert {json.loads(path.read_text())["lora_r"] for path in runs} == {24}


HASTY = """() => {
  const later = window.setTimeout;
  window.setTimeout = (done, ms, ...more) => ms === 50 ? queueMicrotask(done) : later(done, ms, ...more);
  window.requestIdleCallback = (done) => done();
}"""
"""The script that holds clicks back leaves the page no time to take in what came."""


def test_what_was_filled_while_a_click_waited_is_sent_before_the_page_has_taken_it_in(
    open_page: OpenPage,
) -> None:
    page = open_page()
    unfold(page, "More options")
    number = "(id) => gradio_config.components.find((one) => one.props.elem_id === id).id"
    start, rank = (page.evaluate(number, id) for id in ("train-start", "train-lora_r"))

    def is_start(text: str | None) -> bool:
        return f'"trigger_id":{start}' in (text or "")

    def lose_start(route: Route) -> None:
        route.abort() if is_start(route.request.post_data) else route.continue_()

    page.get_by_label("LoRA rank").first.fill("24")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--lora_r 24"))
    show_tab(page, "train")
    page.route("**/queue/join*", lose_start)
    page.evaluate(HASTY)
    with page.expect_request(lambda request: is_start(request.post_data)) as asked:
        page.evaluate(
            "[...document.querySelectorAll('#memory-to-train, #train-start')].forEach((one) => one.click())"
        )
    sent = json.loads(asked.value.post_data or "")
    inputs = "(id) => gradio_config.dependencies.find((one) => one.id === id).inputs"
    assert sent["data"][page.evaluate(inputs, sent["fn_index"]).index(rank)] == 24


def test_no_run_starts_with_the_old_settings_when_the_file_on_its_way_is_refused(
    open_page: OpenPage, studio_server: StudioProcess, tmp_path: Path
) -> None:
    settings = tmp_path / "broken.yaml"
    settings.write_text("lora_r: many\n", encoding="utf-8")
    page = open_page("train")
    runs = len(list((studio_server.home / "runs").glob("*/config.json")))
    unfold(page, "The same as a command or a file")
    let_go = held(page, "upload")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Load settings from a file").click()
    chooser.value.set_files(settings)
    page.locator("#train-start").click()
    expect(page.locator("#train-start")).to_have_attribute("aria-busy", "true")
    let_go()
    expect(page.locator("#train-start")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#train-file-refused")).to_contain_text("many")
    page.goto(page.url)  # a start that was sent has been answered by the time that the page is there again
    expect(page.locator("#memory-parts table")).to_be_visible()
    assert len(list((studio_server.home / "runs").glob("*/config.json"))) == runs


def test_what_an_answer_will_change_says_at_once_that_it_is_under_way(open_page: OpenPage) -> None:
    page = open_page("memory")
    verdict = page.locator("#memory-verdict")
    expect(verdict).to_contain_text("GiB")
    expect(verdict).not_to_have_attribute("aria-busy", "true")
    before = str(verdict.text_content())
    let_go = held(page, "run/predict")
    page.get_by_label("8 bits", exact=True).first.check()
    expect(verdict).to_have_attribute("aria-busy", "true")
    let_go()
    expect(verdict).not_to_have_attribute("aria-busy", "true")
    expect(verdict).not_to_have_text(before)


def test_a_precision_stays_that_was_chosen_before_the_list_of_them_arrived(open_page: OpenPage) -> None:
    page = open_page()
    let_go = held(page, "run/predict", saying="transcribe")
    page.get_by_label("Transcribe with it").check()
    page.get_by_label("fp16", exact=True).first.check()
    let_go()
    command = page.locator("#memory-command textarea")
    expect(command).to_have_value(re.compile("--use transcribe .*--precision fp16"))
    expect(page.get_by_label("faster-whisper", exact=True).first).to_be_visible()
    expect(page.get_by_label("fp16", exact=True).first).to_be_checked()
