"""`python -m studio serve` as people start it, and the endpoint of the page that runs."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import soundfile

from studio.settings import DEMO_SPEECH
from tests.conftest import RunStudio
from tests.forking import Popen, forked_server
from tests.studio_process import StudioProcess, command, free_port

CLIP = DEMO_SPEECH / "samples" / "kitchen-light.flac"
TEXT = "turn on the kitchen light set a timer for ten minutes"


def heard_at(url: str, key: str) -> list[str]:
    """The text of a clip, whole and in pieces."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=120)
    whole = client.audio.transcriptions.create(model="whisper-1", file=CLIP)
    stream = client.audio.transcriptions.create(model="demo", file=CLIP, stream=True)
    pieces = [event.delta for event in stream if event.type == "transcript.text.delta"]
    return [whole.text, "".join(pieces)]


def test_the_endpoint_alone_serves_until_ctrl_c(
    environ: dict[str, str], studio_home: Path, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["serve", "--port", str(port)]
    with command(words, environ, studio_home, tmp_path) as serving:
        wait_for_endpoint(url, serving, 200)
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0
    assert (tmp_path / "stderr").read_text().splitlines()[0] == f"Serving demo at {url}/v1"


@pytest.mark.parametrize("with_page", [False, True], ids=["alone", "with the page"])
def test_who_is_not_answered_before_it_ends_is_told_to_come_again(
    with_page: bool,
    environ: dict[str, str],
    studio_home: Path,
    start_studio: Callable[..., StudioProcess],
    popen: Popen,
    tmp_path: Path,
) -> None:
    key, port = "key-of-programs", free_port()
    url, long = f"http://127.0.0.1:{port}", tmp_path / "long.flac"
    clip, rate = soundfile.read(DEMO_SPEECH / "samples" / "long.ogg")
    soundfile.write(long, np.tile(clip, int(400 * rate / len(clip))), rate)

    def asks(stream: str) -> tuple[int, str]:
        """Status and body of a request whose recording takes longer than the server has."""
        with (
            httpx.Client(timeout=120, headers={"Authorization": f"Bearer {key}"}) as client,
            long.open("rb") as sound,
        ):
            form = {"model": "demo", "stream": stream}
            with client.stream(
                "POST", f"{url}/v1/audio/transcriptions", files={"file": sound}, data=form
            ) as told:
                pieces = []
                for piece in told.iter_text():
                    pieces.append(piece)
                    is_heard.set()
                return told.status_code, "".join(pieces)

    is_heard, sent = threading.Event(), tmp_path / "tmp"
    extra = {"GRADIO_TEMP_DIR": str(sent), "STUDIO_API_KEY": key}
    with ExitStack() as stack:
        if with_page:
            page = start_studio(extra=extra)
            url, ends, said = page.url, page.interrupt, page.log
        else:
            words = ["serve", "--port", str(port)]
            started = command(words, {**environ, **extra}, studio_home, tmp_path, **forked_server(popen))
            serving = stack.enter_context(started)
            said = (tmp_path / "stderr").read_text

            def ends() -> int:
                serving.terminate()
                return serving.wait(60)

            wait_for_endpoint(url, serving, 401)
            assert heard_at(url, key) == [TEXT, TEXT]
        with ThreadPoolExecutor(4) as programs:
            streamed = programs.submit(asks, "true")
            assert is_heard.wait(120)
            others = [programs.submit(asks, "false") for _ in range(3)]
            deadline = time.monotonic() + 60
            while len(list(sent.rglob("*/" + "[0-9a-f]" * 32))) < 4 and time.monotonic() < deadline:
                time.sleep(0.05)  # two of them wait in line then
            assert ends() == 0
            answers = [each.result() for each in others]
            status, events = streamed.result()
    assert [status for status, _body in answers] == [503] * 3
    assert {json.loads(body)["error"]["code"] for _status, body in answers} == {"server_stopping"}
    assert status == 200 and '"transcript.text.delta"' in events
    assert json.loads(events.rsplit("data: ", 1)[1])["error"]["code"] == "server_stopping"
    assert "Traceback" not in (told := said()) and "terminate" not in told


def wait_for_endpoint(url: str, serving: subprocess.Popen[str], status: int) -> None:
    """Returns once the models are asked for and that is answered."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and serving.poll() is None:
        with suppress(httpx.TransportError):
            assert httpx.get(f"{url}/v1/models").status_code == status
            return
        time.sleep(0.05)
    raise AssertionError(f"no answer from {url}")


def test_the_page_that_runs_answers_programs_too(studio_server: StudioProcess) -> None:
    assert heard_at(studio_server.url, "any") == [TEXT, TEXT]


def test_what_cannot_be_served_is_told_in_a_sentence(run_studio: RunStudio) -> None:
    opened = run_studio("serve", "--host", "0.0.0.0", "--port", str(free_port()))
    assert opened.returncode == 2 and "STUDIO_API_KEY" in opened.stderr
    elsewhere = run_studio("serve", "--host", "192.0.2.1", extra={"STUDIO_PUBLIC": "1"})
    assert elsewhere.returncode == 2 and "--port" in elsewhere.stderr
    beyond = run_studio("serve", "--port", "99999")
    assert beyond.returncode == 2 and "ports are 1 to 65535" in beyond.stderr
    assert beyond.stderr.count("\n") == 1
    unknown = run_studio("serve", "--model", "nobody", "--port", str(free_port()))
    assert unknown.returncode == 2 and "nobody" in unknown.stderr


@pytest.mark.parametrize("words", [(), ("--print",)], ids=["served", "printed"])
def test_a_model_that_nobody_could_be_answered_with_is_not_served(
    run_studio: RunStudio, studio_home: Path, words: tuple[str, ...]
) -> None:
    models = studio_home / "models"
    for name, content in (
        ("orphan", {"adapter_config.json": {"base_model_name_or_path": "gone", "peft_type": "LORA"}}),
        ("ggml", {"model.json": {"kind": "foreign", "form": "whisper.cpp", "base_model": "demo"}}),
    ):
        (models / name).mkdir(parents=True)
        for file, told in content.items():
            (models / name / file).write_text(json.dumps(told), "utf-8")
        refused = run_studio("serve", "--model", name, "--port", str(free_port()), *words)
        assert refused.returncode == 2 and refused.stderr.startswith("Error: ") and name in refused.stderr
        assert refused.stdout == "" and "Serving" not in refused.stderr


def test_the_commands_that_serve_a_model_are_printed(run_studio: RunStudio) -> None:
    printed = run_studio("serve", "--model", "demo", "--print").stdout
    assert "python -m studio serve --model demo" in printed and "vllm serve" in printed
    assert printed in run_studio("models", "show", "demo").stdout
