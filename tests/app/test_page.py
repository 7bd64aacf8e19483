"""The page's server: where it listens, how it ends, and what it answers programs."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from tests.conftest import RunStudio
from tests.forking import Popen, forked_server
from tests.studio_process import ROOT, StudioProcess

MOST_BYTES = 400_000
"""Of the page, which is read before anything is drawn."""


@pytest.fixture(scope="module")
def client(studio_server: StudioProcess) -> Client:
    return Client(studio_server.url, verbose=False)


def test_the_page_answers_on_the_port_that_was_asked_for(studio_server: StudioProcess) -> None:
    with urllib.request.urlopen(studio_server.url, timeout=30) as response:
        page = response.read()
    assert "Whisper Studio" in page.decode("utf-8")
    assert len(page) < MOST_BYTES, "tests/benchmarks/reports/page_weight.md tells what is in it"


@pytest.mark.parametrize(("command", "by_variable"), [(["app.py"], False), (["-m", "studio", "app"], True)])
def test_a_port_that_is_taken_is_refused_in_one_sentence(
    studio_server: StudioProcess,
    environ: dict[str, str],
    studio_home: Path,
    command: list[str],
    by_variable: bool,
) -> None:
    port = str(studio_server.port)
    named = {"GRADIO_SERVER_PORT": port} if by_variable else {}
    done = subprocess.run(
        [sys.executable, *command, *([] if by_variable else ["--port", port])],
        cwd=ROOT,
        env={**environ, "STUDIO_HOME": str(studio_home), **named},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=500,
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 and str(studio_server.port) in done.stderr


@pytest.fixture
def without_port(environ: dict[str, str], tmp_path: Path, popen: Popen) -> Iterator[Path]:
    """The output of a studio that was told no port."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = popen(
            forked_server(popen).get("command", [sys.executable, "app.py"]),
            cwd=ROOT,
            env={**environ, "STUDIO_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    yield log
    process.kill()
    process.wait()


def test_without_a_port_the_next_free_one_is_taken_and_printed(without_port: Path) -> None:
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", without_port.read_text(encoding="utf-8"))):
        time.sleep(0.2)
    with urllib.request.urlopen(found[0], timeout=30) as response:
        assert response.status == 200


def test_fifty_who_never_end_what_they_ask_keep_nobody_else_waiting(studio_server: StudioProcess) -> None:
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += b"Content-Type: multipart/form-data; boundary=x\r\n"
    stalled = [head, head + b"Content-Length: 5000\r\n\r\n--x\r\nContent-Disposition: form-data"]
    with ExitStack() as stack:
        for number in range(50):
            place = ("127.0.0.1", studio_server.port)
            stack.enter_context(socket.create_connection(place, 10)).sendall(stalled[number % 2])
        asker = Client(studio_server.url, verbose=False)
        assert asker.predict(api_name="/models")["models"]
        with httpx.Client(base_url=studio_server.url, timeout=10) as visitor:
            assert "Whisper Studio" in visitor.get("/").text
            assert visitor.post("/gradio_api/upload", files={"files": b"a small file"}).json()


def test_a_hundred_callers_at_once_are_each_told_what_they_asked(
    studio_server: StudioProcess, client: Client
) -> None:
    told = client.view_api(return_format="dict", print_info=False)["named_endpoints"]["/estimate"]
    values = {one["parameter_name"]: one["parameter_default"] for one in told["parameters"]}
    batches = [1 + number % 10 for number in range(100)]

    def ask(batch: int) -> object:
        """Each call is a visitor of its own."""
        asked = {**values, "base_model": "small", "per_device_train_batch_size": batch}
        with httpx.Client(base_url=f"{studio_server.url}/gradio_api/call/estimate", timeout=300) as http:
            event = http.post("", json={"data": [*asked.values()]}).raise_for_status().json()["event_id"]
            (answer,) = re.findall("^event: complete\ndata: (.*)$", http.get(f"/{event}").text, re.MULTILINE)
        return json.loads(answer)[0]["device_bytes"]

    with ThreadPoolExecutor(max_workers=100) as callers:
        found = list(callers.map(ask, batches))
    assert found == [ask(batch) for batch in range(1, 11)] * 10
    assert len(set(found)) == 10


def test_the_demo_model_is_listed(client: Client) -> None:
    rows = {row["id"]: row for row in client.predict(api_name="/models")["models"]}
    assert rows["demo"]["problem"] == "" and "openai/whisper-large-v3" in rows


def test_an_estimate_comes_in_parts_with_a_verdict(client: Client) -> None:
    answer = client.predict(base_model="small", gpu="GeForce RTX 4090", api_name="/estimate")
    assert answer["verdict"] == "fits"
    assert answer["weights_trainable_bytes"] > 0 and answer["peak_phase"]


def test_a_step_is_traced_over_its_phases(client: Client) -> None:
    trace = client.predict(config={"base_model": "demo", "train_data": "demo"}, api_name="/trace")
    assert sum(trace["parts"].values()) == trace["peak_bytes"]
    assert {moment[0] for moment in trace["timeline"]} == {
        "forward",
        "backward",
        "optimizer_step",
        "evaluation",
    }
    assert max(sum(moment[1:]) for moment in trace["timeline"]) == trace["peak_bytes"]


def test_a_run_is_found_for_a_card_and_its_config_can_be_started(client: Client) -> None:
    found = client.predict(gpu="RTX 3060", base_model="openai/whisper-large-v3", api_name="/fit")
    assert found["fits"] and found["config"]["gradient_checkpointing"] is True
    assert found["estimate"]["high_bytes"] <= found["budget_bytes"]
    with pytest.raises(AppError, match="between 0 and 100000"):
        client.predict(memory_gib=-1, api_name="/fit")


def test_an_error_is_explained_with_a_config_that_fits(client: Client) -> None:
    text = (
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already "
        "allocated; 1.00 GiB free; 6.20 GiB reserved in total by PyTorch)"
    )
    found = client.predict(
        text=text, config={"base_model": "small", "method": "full"}, api_name="/explain_oom"
    )
    assert found["asked_bytes"] == 2 * 2**30 and found["repaired"]["fits"]
    assert found["config"]["per_device_train_batch_size"] < 8
    assert client.predict(text="hello", api_name="/explain_oom")["kind"] == "unknown"


def test_the_doctor_and_the_claims_answer_programs(client: Client) -> None:
    assert {"Python", "Disk"} <= {row["name"] for row in client.predict(api_name="/doctor")["checks"]}
    assert len(client.predict(api_name="/memory_claims")["claims"]) == 9
    rows = client.predict(api_name="/presets")["presets"]
    assert all(row["fits"] and row["said"] and row["truth"] for row in rows) and len(rows) == 7


def test_an_error_of_the_user_is_a_sentence(client: Client) -> None:
    with pytest.raises(AppError, match="large-v3-turbo"):
        client.predict(base_model="large-v3-turbi", api_name="/estimate")
    with pytest.raises(AppError, match="lora_r"):
        client.predict(config={"lora_r": 0}, api_name="/start_run")


def test_what_a_program_leaves_out_at_the_end_has_its_usual_value(
    studio_server: StudioProcess, client: Client
) -> None:
    def ask(*values: object) -> tuple[str, object]:
        """How it ended, and what was answered."""
        with httpx.Client(base_url=f"{studio_server.url}/gradio_api/call/estimate", timeout=300) as http:
            event = http.post("", json={"data": values}).raise_for_status().json()["event_id"]
            answer = http.get(f"/{event}").text
        (how, data), *_ = re.findall("^event: (complete|error)\ndata: (.*)$", answer, re.MULTILINE)
        return how, json.loads(data)

    usual = client.predict(base_model="small", api_name="/estimate")
    assert ask("small") == ("complete", [usual])
    how, told = ask("small", *[None] * 40)
    assert how == "error" and "/estimate takes at most" in str(told)


def test_a_recording_that_cannot_be_used_is_a_sentence(client: Client, tmp_path: Path) -> None:
    text = tmp_path / "text.wav"
    text.write_text("This is not a recording.\n" * 100, encoding="utf-8")
    with pytest.raises(AppError, match=r"text\.wav"):
        client.predict(audio=handle_file(text), model="demo", api_name="/transcribe")
    for sent in (1, "no-file.wav", {"file": str(text)}, {"path": str(text)}, [handle_file(text)]):
        with pytest.raises(AppError, match="is no uploaded file"):
            client.predict(audio=sent, model="demo", api_name="/transcribe")


def test_a_run_started_through_the_api_makes_a_model_that_transcribes(
    client: Client, demo_speech: Path
) -> None:
    config = {"base_model": "demo", "max_steps": 1, "eval_strategy": "no", "max_eval_samples": 2}
    config |= {"run_name": "through-the-api", "replay_share": 0.0, "data_seed": 1}
    config |= {"per_device_train_batch_size": 2, "capability_check": False}
    run_id = client.predict(config=config, api_name="/start_run")
    while (status := client.predict(run_id=run_id, api_name="/run_status"))["state"] != "finished":
        assert status["state"] not in ("failed", "interrupted", "stopped"), status["error"]
        time.sleep(0.2)
    assert "--data_seed has no effect here: seed decides the order, too." in status["warnings"]
    rows = {row["id"]: row for row in client.predict(api_name="/models")["models"]}
    assert rows[status["model_id"]]["base_model"] == "demo"
    clip = demo_speech / "samples" / "kitchen-light.flac"
    asked = {"audio": handle_file(clip), "model": status["model_id"], "api_name": "/transcribe"}
    answer = client.predict(**asked)
    assert answer["model"] == status["model_id"] and answer["error"] is None and answer["notes"] == []
    [note] = client.predict(**asked, audio_context="short")["notes"]
    assert note.startswith("This model was trained on 30 seconds") or "not that of the training" in note


def test_models_are_compared_through_the_api(client: Client) -> None:
    asked = {"models": "demo", "test_data": "demo:test", "max_samples": 3, "non_speech": True}
    answer = client.predict(**asked, api_name="/evaluate")
    (model,) = answer["models"]
    assert model["n"] == 3 and len(answer["utterances"]) == 3
    assert model["non_speech"]["seconds"] == 180 and model["non_speech"]["words_per_hour"] >= 0
    with pytest.raises(AppError, match="float16"):
        client.predict(
            models="demo",
            test_data="demo:test",
            engine="transformers",
            precision="int9",
            api_name="/evaluate",
        )


WORDS = (
    "and so my fellow americans ask not what your country can do for you ask what you can do for your country"
)


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z]+", text.lower()))


def test_whisper_tiny_makes_no_word_error_on_jfk_through_the_api(
    client: Client, whisper_tiny: Path, real_speech: Path
) -> None:
    clip = real_speech / "jfk" / "jfk.flac"
    answer = client.predict(audio=handle_file(clip), model=str(whisper_tiny), api_name="/transcribe")
    assert plain(answer["text"]) == WORDS and answer["language"] == "en"


def test_whisper_tiny_makes_no_word_error_on_jfk_on_the_command_line(
    run_studio: RunStudio, whisper_tiny: Path, real_speech: Path
) -> None:
    clip = real_speech / "jfk" / "jfk.flac"
    done = run_studio("transcribe", "--model_path", whisper_tiny, "--audio_path", clip)
    assert done.returncode == 0, done.stderr
    assert plain(done.stdout) == WORDS
