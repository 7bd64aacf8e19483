"""`python -m studio serve` as people start it, and the endpoint of the page that runs."""

import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx
import openai
import pytest

from studio.settings import DEMO_SPEECH
from tests.conftest import RunStudio
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


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_the_endpoint_alone_serves_until_it_is_told_to_end(
    environ: dict[str, str], studio_home: Path, tmp_path: Path, ends: signal.Signals
) -> None:
    key, port = "key-of-programs", free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["serve", "--port", str(port)]
    with command(words, {**environ, "STUDIO_API_KEY": key}, studio_home, tmp_path) as serving:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and serving.poll() is None:
            with suppress(httpx.TransportError):
                assert httpx.get(f"{url}/v1/models").status_code == 401
                break
            time.sleep(0.05)
        if ends is signal.SIGTERM:
            assert heard_at(url, key) == [TEXT, TEXT]
        serving.send_signal(ends)
        assert serving.wait(60) == 0
    assert (tmp_path / "stderr").read_text().splitlines()[0] == f"Serving demo at {url}/v1"


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


def test_the_commands_that_serve_a_model_are_printed(run_studio: RunStudio) -> None:
    printed = run_studio("serve", "--model", "demo", "--print").stdout
    assert "python -m studio serve --model demo" in printed and "vllm serve" in printed
    assert printed in run_studio("models", "show", "demo").stdout
