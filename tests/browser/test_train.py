"""The Train tab as somebody uses it: settings, data, a run that is stopped, resumed and compared."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gradio_client import Client
from playwright.sync_api import expect

from studio.evaluation.capabilities import Capability, CapabilityReport
from studio.files import write_json
from studio.options.arguments import config_to_dict, write_yaml
from studio.options.training import TrainingConfig
from studio.training.events import EventLog
from studio.training.run_dir import RunDir
from tests.browser.conftest import OpenPage, at_rest, held, show_tab, unfold
from tests.studio_process import StudioProcess

TRAINING_MILLISECONDS = 300_000


def many_steps(model: Path, data: Path) -> TrainingConfig:
    return TrainingConfig(
        base_model=str(model),
        train_data=str(data),
        lora_r=4,
        max_steps=5000,
        logging_steps=1,
        eval_strategy="no",
        per_device_train_batch_size=2,
        capability_check=False,
        replay_share=0.0,
        run_name="unwatched",
    )


LET_ANSWERS_CROSS = """() => {
  const fetched = window.fetch.bind(window);
  let [event, late] = [null, null];
  const isOf = (elem, {fn_index, trigger_id}) => {
    const {components, dependencies} = window.gradio_config;
    const names = Object.fromEntries(components.map(({id, type, props}) => [id, props.elem_id ?? type]));
    const shows = dependencies.find(({id}) => id === fn_index).outputs.map((id) => names[id]);
    return shows.includes('run-status') && names[trigger_id] === elem;
  };
  const deliver = (out) => {
    out.enqueue(late);
    [event, late] = [null, null];
  };
  const pass = async (message, out) => {
    const cross = window.cross;
    if (event && !late && message.includes('process_completed') && message.includes(await event)) {
      late = message;
      cross.isLate = true;
      return;
    }
    out.enqueue(message);
    if (late && cross.until && message.includes(cross.until)) deliver(out);
  };
  window.fetch = async (resource, options) => {
    const url = (resource.url ?? resource).toString();
    const asked = fetched(resource, options);
    const cross = window.cross;
    if (cross && !cross.event && url.includes('/queue/join') && isOf(cross.of, JSON.parse(options.body))) {
      event = cross.event = asked.then((it) => it.clone().json()).then((it) => it.event_id);
    }
    const answer = await asked;
    if (!url.includes('/queue/data')) return answer;
    let rest = '';
    const start = (out) => { if (late && cross.isReleased) deliver(out); };
    const transform = async (text, out) => {
      const messages = (rest + text).split(/(?<=\\n\\n)/);
      rest = messages.at(-1).endsWith('\\n\\n') ? '' : messages.pop();
      for (const message of messages) await pass(message, out);
    };
    const read = answer.body.pipeThrough(new TextDecoderStream());
    const crossing = read.pipeThrough(new TransformStream({start, transform}));
    return new Response(crossing.pipeThrough(new TextEncoderStream()), answer);
  };
}"""
"""The answer to what `cross.of` asks next `isLate`: it comes after one with the text `cross.until`, or first
of all once it `isReleased`.
"""


def test_check_data_train_stop_resume_compare_two_runs_and_go_on_with_the_model_of_one(
    open_page: OpenPage, studio_server: StudioProcess, micro_model: Path, tones: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in tones.read_text("utf-8").splitlines()]
    listed = [{**row, "audio": str(tones.parent / row["audio"])} for row in rows]
    nowhere = {"audio": "nowhere.wav", "text": "it cannot be heard"}
    (own := tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, [*listed, nowhere])), "utf-8")
    config = replace(
        many_steps(micro_model, own),
        test_data=str(tones),
        language="English",
        max_steps=240,
        save_steps=120,
        generation_max_length=6,
        run_name="mine",
    )
    (tmp_path / "mine.yaml").write_text(write_yaml(config), encoding="utf-8")
    page = open_page("train")
    page.evaluate(LET_ANSWERS_CROSS)
    with page.expect_file_chooser() as chooser:
        unfold(page, "The same as a command or a file")
        page.get_by_role("button", name="Load settings from a file").click()
    chooser.value.set_files(tmp_path / "mine.yaml")
    expect(page.get_by_label("Name of the run")).to_have_value("mine")
    expect(page.locator("#train-command textarea")).to_have_value(re.compile("--run_name mine"))
    page.get_by_role("button", name="Preview and check the data").click()
    expect(page.locator("#data-preview")).to_contain_text("Rows that can be read: 12, unusable: 1")

    page.locator("#train-start").click()
    with at_rest(studio_server.home, "mine"):
        expect(page.locator("#run-status")).to_contain_text("step")
        unused = page.locator("#run-status details")
        unused.locator("summary").click()
        page.evaluate("window.cross = {of: 'run-stop', until: '>Stopped<'}")
        page.locator("#run-stop").click()
    page.wait_for_function("window.cross.isLate")
    expect(page.locator("#run-status .badge")).to_have_text("Stopped")
    assert "Stopped" in page.title(), "the title tells somebody who looks elsewhere"
    expect(unused).to_have_attribute("open", "")
    page.locator("#run-resume").click()
    expect(page.locator("#run-status .badge")).to_have_text("Finished")
    expect(unused).to_have_attribute("open", "")
    unused.locator("summary").click()
    expect(unused).not_to_have_attribute("open", "")
    expect(page.locator("#run-prune")).to_be_visible()
    page.locator("#run-prune").click()
    asked = re.compile(r"frees [\d.]+ [KM]iB\. .*nothing to resume")
    expect(page.locator("#run-prune-question")).to_contain_text(asked)
    page.locator("#run-prune-keep").click()
    expect(page.locator("#run-prune-question")).to_be_hidden()
    assert list(studio_server.home.glob("runs/mine-*/checkpoints/checkpoint-*")), "nobody said yes"
    page.locator("#run-prune").click()
    page.locator("#run-prune-delete").click()
    expect(page.locator("#run-prune")).to_be_hidden()

    other = {**config_to_dict(config), "run_name": "other", "max_steps": 3, "lora_r": 8, "test_data": ""}
    Client(studio_server.url, verbose=False).predict(config=other, api_name="/start_run")
    expect(page.locator("#run-history")).to_contain_text("other")
    with at_rest(studio_server.home, "other"):
        page.evaluate("window.cross = {of: 'timer'}")
        page.wait_for_function("window.cross.isLate")
        page.locator("#run-history").get_by_role("button", name="other").click()
        expect(page.locator("#run-status h2")).to_have_text("other")
    while not list(studio_server.home.glob("runs/other-*/result.json")):
        time.sleep(0.05)
    page.evaluate("window.cross.isReleased = true")
    page.locator("#run-reuse").click()
    expect(page.get_by_label("Name of the run")).to_have_value("other")
    expect(page.locator("#run-status")).to_contain_text("Created other")
    expect(page.locator("#run-transcribe")).to_be_visible()
    page.locator("#run-compare").click()
    expect(page.locator("#evaluate-data input")).to_have_value("")  # not the demo's: nobody taught it that
    show_tab(page, "train")

    page.locator("#run-comparison button").first.click()
    runs = page.get_by_label("Runs to compare")
    for name in ("mine", "other"):
        runs.click()
        page.get_by_role("option", name=name).click()
    page.locator("#runs-compare-start").click()
    expect(page.locator("#compare-options")).to_contain_text("lora_r")
    expect(page.locator("#compare-options")).not_to_contain_text("lora_alpha")
    expect(page.locator("#compare-chart .js-plotly-plot")).to_be_visible()

    let_go = held(page, "queue/join")
    for name in ("other", "mine"):
        page.locator("#run-history").get_by_role("button", name=name).click()
    let_go()
    expect(page.locator("#run-status")).to_contain_text("Created mine")
    page.locator("#run-transcribe").click()
    expect(page.locator("#transcribe-model input")).to_have_value(re.compile("mine"))
    show_tab(page, "train")
    page.locator("#run-compare").click()
    both = [re.compile(micro_model.name), re.compile("mine")]
    expect(page.locator("#evaluate-models .token")).to_have_text(both)
    expect(page.locator("#evaluate-data input")).to_have_value(str(tones))
    expect(page.get_by_label("Language", exact=True).filter(visible=True)).to_have_value(
        re.compile("English")
    )
    show_tab(page, "train")
    page.locator("#run-export").click()
    expect(page.locator("#models-choice input")).to_have_value(re.compile("mine"))
    expect(page.locator("#models-details")).to_contain_text("mine")
    page.get_by_label("New name").fill("my-voice")
    page.locator("#models-rename").click()
    expect(page.locator("#models-details h2")).to_have_text("my-voice")
    show_tab(page, "playground")
    expect(page.locator("#transcribe-model input")).to_have_value(re.compile("^my-voice"))
    show_tab(page, "evaluate")
    expect(page.locator("#evaluate-models .token").last).to_have_text(re.compile("^my-voice"))
    show_tab(page, "train")
    expect(page.locator("#run-status")).to_contain_text("Created my-voice")
    page.locator("#run-export").click()
    expect(page.locator("#models-choice input")).to_have_value(re.compile("my-voice"))
    page.locator("#models-delete").or_(page.get_by_role("button", name="Delete …")).first.click()
    page.locator("#models-delete").click()
    show_tab(page, "train")
    page.locator("#run-export").click()
    expect(page.locator("#run-refused")).to_contain_text("There is no model")


WATCH_NOTIFICATIONS = """() => {
  const Real = Notification;
  window.told = [];
  window.Notification = class extends Real {
    constructor(text) { super(text); window.told.push(text); }
  };
  Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});
}"""
"""Notes what the browser is told to show; the visitor looks at another window."""


def test_a_run_goes_on_while_nobody_looks_and_its_end_is_notified(
    open_page: OpenPage, studio_server: StudioProcess, micro_model: Path, tones: Path
) -> None:
    config = many_steps(micro_model, tones)
    api = Client(studio_server.url, verbose=False)
    run_id = api.predict(config=config_to_dict(config), api_name="/start_run")
    with at_rest(studio_server.home, "unwatched"):
        page = open_page("train")
        expect(page.locator("#run-status")).to_contain_text("unwatched")
        api.predict(config={**config_to_dict(config), "run_name": "in line"}, api_name="/start_run")
        page.locator("#run-history").get_by_role("button", name="in line").click()
        expect(page.locator("#run-stop")).to_have_text("Remove from the queue")
        page.locator("#run-stop").click()
        expect(page.locator("#run-status")).to_contain_text("nothing was trained")
        page.context.close()

    (log,) = studio_server.home.glob("runs/unwatched-*/events.jsonl")
    before = log.stat().st_size
    while log.stat().st_size == before:
        time.sleep(0.05)
    with at_rest(studio_server.home, "unwatched"):
        page = open_page("train", notified=True)
        expect(page.locator("#run-status")).to_contain_text("unwatched")
        expect(page.locator("#run-status")).to_contain_text("step")
        expect(page.get_by_role("button", name="Tell me when it ends")).to_be_visible()
        page.context.grant_permissions(["notifications"], origin=studio_server.url)
        page.evaluate(WATCH_NOTIFICATIONS)
        api.predict(run_id=run_id, api_name="/stop_run")
    page.wait_for_function("window.told.length > 0", timeout=TRAINING_MILLISECONDS)
    assert page.evaluate("window.told") == ["Stopped · unwatched"] and page.title() == "Stopped · unwatched"
    expect(page.locator("#run-status .badge")).to_have_text("Stopped")


@pytest.fixture
def broken_run(studio_server: StudioProcess) -> RunDir:
    """The folder of a run whose model reads long recordings no more."""
    run = RunDir(studio_server.home / "runs" / "too-strong")
    run.path.mkdir(parents=True)
    config = TrainingConfig(base_model="demo", train_data="demo", replay_share=0.0, run_name="too strong")
    write_json(run.config, config_to_dict(config))
    write_json(run.record, {"schema_version": 1, "created": "2026-01-02T03:04:05+00:00"})
    EventLog(run.events).write("plan", max_steps=9, learning_rate=1e-3, metric="wer")
    rows = [
        Capability("timestamps", 0.9, 0.4, 40, -0.65, -0.35),
        Capability("long_form", 0.95, 0.1, 12, -0.9, -0.8),
        Capability("silence", 1.0, 1.0, 8, 0.0, 0.0),
        Capability("language", 0.9, 0.85, 6, -0.3, 0.2),
    ]
    found = CapabilityReport("too-strong", "demo", tuple(rows)).to_json()
    write_json(
        run.result, {"state": "finished", "error": "", "model_id": "too-strong", "capabilities": found}
    )
    return run


def test_the_plan_follows_the_form_which_a_preset_fills_in_or_a_press_where_a_run_has_lost_something(
    open_page: OpenPage, broken_run: RunDir
) -> None:
    page = open_page("train")
    plan = page.locator("#train-plan")
    expect(plan).to_contain_text(re.compile("Clips.*112.*Steps.*56.*434,176 of 2,185,344"))
    expect(plan).to_contain_text("in about two minutes")
    page.locator("#train-per_device_train_batch_size input").fill("16")
    expect(plan).to_contain_text(re.compile("Steps.*28"))
    page.locator("#train-train_data input").fill("demo:train")
    expect(plan).to_contain_text("How long it takes is known after the first similar run")
    expect(plan).to_contain_text("Base model transcribes the clips → Evaluating → Training")
    page.locator("#train-train_data input").fill("no such list.csv")
    expect(plan).not_to_contain_text("Clips")
    expect(plan).to_contain_text("434,176")

    page.locator("#train-train_data input").fill("my clips.csv")
    page.get_by_label("Begin with a preset").click()
    let_go = held(page, "queue/join")
    page.get_by_role("option", name="A card with 8 GB", exact=True).click()
    page.get_by_label("Begin with a preset").click()
    page.get_by_role("option", name="Minimal: turbo in 4 GiB").click()
    let_go()
    expect(page.get_by_role("combobox", name="Base model")).to_have_value("Whisper large-v3-turbo (download)")
    expect(page.locator("#train-train_data input")).to_have_value("my clips.csv")

    page.get_by_role("button", name="too strong").click()
    shown = page.locator("#run-status")
    expect(shown.locator(".note").first).to_contain_text("The base is better at: Long recordings, Timestamps")
    verdicts = {"Silence": "kept", "Language detection": "too few clips to tell", "Other": "not checked"}
    for check, verdict in verdicts.items():
        expect(page.locator("#run-findings tr", has_text=check)).to_contain_text(verdict)
    unfold(page, "The same as a command or a file")
    page.locator("#run-gentler").click()
    expect(page.locator("#train-learning_rate input")).to_have_value("0.0003")
    expect(page.locator("#train-command textarea")).to_have_value(re.compile("--learning_rate 0.0003"))
    expect(page.locator("#train-command textarea")).not_to_have_value(re.compile("--replay_share"))
