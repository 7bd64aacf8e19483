"""Who is quicker than the studio: what was clicked or typed last counts, however late its answer is."""

import json
import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from studio.options.arguments import write_yaml
from studio.options.training import TrainingConfig
from studio.ui.shared.following import LAST_OF_MANY
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


def test_what_is_asked_last_is_answered_says_so_at_once_and_waits_unless_it_is_cancelled_or_fails(
    open_page: OpenPage,
) -> None:
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

    let_go = held(page, "run/predict", saying="transcribe")
    page.get_by_label("Transcribe with it").check()
    page.get_by_label("fp16", exact=True).first.check()
    let_go()
    command = page.locator("#memory-command textarea")
    expect(command).to_have_value(re.compile("--use transcribe .*--precision fp16"))
    expect(page.get_by_label("faster-whisper", exact=True).first).to_be_visible()
    expect(page.get_by_label("fp16", exact=True).first).to_be_checked()

    # Of changes that come together, the last alone is answered.
    show_tab(page, "train")
    expect(page.locator("#train-plan")).to_contain_text("Clips")
    changes = f"const changed = {LAST_OF_MANY}; const all = [changed(), changed(), changed()]"
    outcomes = "(await Promise.allSettled(all)).map(({status}) => status)"
    ended = page.evaluate(
        f"async () => {{ {changes}; return [...{outcomes}, (await changed()) ?? 'alone']; }}"
    )
    assert ended == ["rejected", "rejected", "fulfilled", "alone"]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#train-per_device_train_batch_size input").fill("16")
    expect(page.locator("#train-plan")).to_contain_text(re.compile("Steps.*28"))
    assert any("/queue/join" in url for url in asked)

    # Transcribe waits for the sample that was clicked last.
    show_tab(page, "playground")
    # Busy for a while, so that what the first click asks for is asked, and fails, while the second one waits.
    page.evaluate("() => { window.requestIdleCallback = (done) => setTimeout(done, 1500); }")
    sample, start = (
        page.get_by_role("button", name="Kitchen light", exact=True),
        page.locator("#transcribe-start"),
    )
    cancel, sound = page.locator("#transcribe-cancel"), page.locator("#transcribe-audio")
    number = "id => gradio_config.components.find((one) => one.props.elem_id === id).id"
    pressed = page.evaluate(number, sample.get_attribute("id"))
    for is_cancelled in (True, False):
        let_go = held(page, "queue/join", f'"trigger_id":{pressed},')
        sample.evaluate("(one, next) => { one.click(); next.click(); }", start.element_handle())
        expect(start).to_have_attribute("aria-busy", "true")
        if is_cancelled:
            cancel.click()
        let_go(well=is_cancelled)
        expect(start).not_to_have_attribute("aria-busy", "true")
        expect(cancel).to_be_disabled()
        sample.click()  # whatever else was asked for has been sent by the time that this one is there
        expect(sound.locator("#waveform").first).to_be_visible()
        expect(page.locator("#transcribe-status")).to_contain_text("The transcript will appear here")
        sound.get_by_label("Clear").click()
        expect(sound.locator("#waveform")).to_have_count(0)

    let_go = held(page, "queue/join")
    sample.click()
    page.get_by_role("button", name="Silence", exact=True).click()
    start.click()
    let_go()
    expect(page.locator("#transcript-downloads a[download='silence.srt']")).to_be_attached()

    # What is asked while the server ends the stream of answers is answered.
    page.add_init_script(f"({LATE_END})()")
    page.reload()
    page.wait_for_function("window.held")
    with page.expect_response("**/queue/join*"):
        page.get_by_role("button", name="Kitchen light", exact=True).click()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")  # until Gradio has taken in its number
    page.evaluate("letGo()")
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcript textarea")).to_have_value(re.compile("kitchen"))


HASTY = """() => {
  const later = window.setTimeout;
  window.setTimeout = (done, ms, ...more) => ms === 50 ? queueMicrotask(done) : later(done, ms, ...more);
  window.requestIdleCallback = (done) => done();
}"""
"""The script that holds clicks back leaves the page no time to take in what came."""


def test_a_run_waits_for_a_number_just_typed_and_for_settings_on_their_way_unless_they_are_refused(
    open_page: OpenPage, studio_server: StudioProcess, tmp_path: Path
) -> None:
    good, broken = tmp_path / "mine.yaml", tmp_path / "broken.yaml"
    good.write_text(write_yaml(TrainingConfig(lora_r=12)), encoding="utf-8")
    broken.write_text("lora_r: many\n", encoding="utf-8")
    page = open_page("memory")
    start, refused = page.locator("#train-start"), page.locator("#train-file-refused")
    unfold(page, "More options")
    let_go = [held(page, what) for what in ("upload", "run/*", "queue/join")]
    page.get_by_label("LoRA rank").first.fill("24")
    page.locator("#memory-to-train").click()
    show_tab(page, "train")
    start.click()
    for each in let_go:
        each()
    stop_what_was_started(page, studio_server, [24])

    unfold(page, "The same as a command or a file")
    let_go = [held(page, what) for what in ("upload", "run/*", "queue/join")]
    load_settings(page, good)
    start.click()
    for each in let_go:
        each()
    stop_what_was_started(page, studio_server, [12, 24])
    expect(refused).to_be_empty()

    let_go_upload = held(page, "upload")
    load_settings(page, broken)
    start.click()
    expect(start).to_have_attribute("aria-busy", "true")
    let_go_upload()
    expect(start).not_to_have_attribute("aria-busy", "true")
    expect(refused).to_contain_text("many")
    page.goto(page.url)  # a start that was sent has been answered by the time that the page is there again
    expect(page.locator("#memory-parts table")).to_be_visible()
    assert ranks_of_runs(studio_server) == [12, 24]

    # What is filled while a click waits is sent before the page has taken it in.
    unfold(page, "More options")
    number = "(id) => gradio_config.components.find((one) => one.props.elem_id === id).id"
    pressed, rank = (page.evaluate(number, id) for id in ("train-start", "train-lora_r"))

    def is_start(text: str | None) -> bool:
        return f'"trigger_id":{pressed}' in (text or "")

    def lose_start(route: Route) -> None:
        route.abort() if is_start(route.request.post_data) else route.continue_()

    page.get_by_label("LoRA rank").first.fill("36")
    expect(page.locator("#memory-command textarea")).to_have_value(re.compile("--lora_r 36"))
    show_tab(page, "train")
    page.route("**/queue/join*", lose_start)
    page.evaluate(HASTY)
    with page.expect_request(lambda request: is_start(request.post_data)) as asked:
        page.evaluate(
            "[...document.querySelectorAll('#memory-to-train, #train-start')].forEach((one) => one.click())"
        )
    sent = json.loads(asked.value.post_data or "")
    inputs = "(id) => gradio_config.dependencies.find((one) => one.id === id).inputs"
    assert sent["data"][page.evaluate(inputs, sent["fn_index"]).index(rank)] == 36


def load_settings(page: Page, file: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Load settings from a file").click()
    chooser.value.set_files(file)


def stop_what_was_started(page: Page, server: StudioProcess, ranks: list[int]) -> None:
    """Waits for the answer to Start, and for the end of its run: its model cannot be had, which it may find
    out before it is stopped."""
    expect(page.locator("#train-start")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#run-history tbody tr")).to_have_count(len(ranks))
    assert ranks_of_runs(server) == ranks
    stop, remove = page.locator("#run-stop"), page.locator("#run-remove")
    expect(stop.or_(remove).first).to_be_visible()
    stop.evaluate_all("buttons => buttons.forEach(one => one.click())")
    expect(remove).to_be_visible()


def ranks_of_runs(server: StudioProcess) -> list[int]:
    configs = (server.home / "runs").glob("*/config.json")
    return sorted(json.loads(path.read_text())["lora_r"] for path in configs)
