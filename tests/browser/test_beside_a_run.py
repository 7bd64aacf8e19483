"""While a run trains, whoever transcribes is told: on the page, through the API and on the command line."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from playwright.sync_api import expect

from studio.cli import evaluate, transcribe
from studio.settings import Settings
from tests.browser.conftest import OpenPage
from tests.studio_process import StudioProcess, processes_that_name

TOLD = "trains on this machine: both share its processor, so transcribing takes longer."


@pytest.fixture
def client(studio_server: StudioProcess) -> Client:
    return Client(studio_server.url, verbose=False)


@pytest.fixture
def run_id(client: Client, micro_model: Path, tones: Path, studio_server: StudioProcess) -> Iterator[str]:
    """A run at work for as long as the test lasts, in which the machine does not let it do a step more."""
    config = {
        "base_model": str(micro_model),
        "train_data": str(tones),
        "max_steps": 10**6,
        "eval_strategy": "no",
        "logging_steps": 1,
        "replay_share": 0.0,
        "save_steps": 10**5,
    }
    run_id: str = client.predict(config=config, api_name="/start_run")
    while not (status := client.predict(run_id=run_id, api_name="/run_status"))["step"]:
        assert status["state"] in ("queued", "starting", "running"), status["error"]
        time.sleep(0.2)
    (worker,) = processes_that_name(str(studio_server.home / "runs" / run_id))
    worker.suspend()
    yield run_id
    worker.resume()
    client.predict(run_id=run_id, api_name="/stop_run")


def test_whoever_transcribes_beside_a_run_is_told(
    client: Client,
    run_id: str,
    open_page: OpenPage,
    studio_server: StudioProcess,
    capsys: pytest.CaptureFixture[str],
    demo_speech: Path,
) -> None:
    clip = demo_speech / "samples" / "kitchen-light.flac"
    sentence = f"Run {run_id} {TOLD}"
    heard = client.predict(audio=handle_file(clip), model="demo", api_name="/transcribe")
    assert "kitchen" in heard["text"] and heard["notes"] == [sentence]
    compared = client.predict(models="demo", test_data="demo:test", max_samples=1, api_name="/evaluate")
    assert compared["models"][0]["n"] == 1 and compared["notes"] == [sentence]

    settings = Settings(home=studio_server.home, threads=1)
    assert transcribe.run([str(clip)], settings) == 0
    assert capsys.readouterr().err.startswith(sentence)
    assert evaluate.run(["--data", "demo:test", "--max_samples", "1"], settings) == 0
    assert capsys.readouterr().err.startswith(sentence)

    page = open_page("playground")
    expect(page.locator("#transcribe-model input")).to_have_value("Demo model")
    page.get_by_role("button", name="Long", exact=True).click()
    expect(page.locator("#transcribe-audio")).to_contain_text("1:2")
    page.locator("#transcribe-start").click()
    expect(page.locator("#transcribe-status")).to_contain_text(sentence)
    page.locator("#transcribe-cancel").click()
    expect(page.locator("#transcribe-status")).to_contain_text("this is the text so far")
