"""OpenAI's endpoint, asked with OpenAI's own package."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import soundfile

from studio.dataset.audio import SAMPLING_RATE, read_audio
from studio.errors import ConfigError
from studio.serving.waiting import MOST_OF_A_VISITOR
from studio.settings import Settings
from studio.transcription import captions
from studio.transcription.engine import TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache
from tests.unit.serving.served import PATIENCE_SECONDS, HeldEngines, ServedEndpoint, served_endpoint
from tests.unit.transcription.small_models import save_adapter

KEY = "a key of programs".replace(" ", "-")
AS_ASKED = TranscribeOptions(timestamps="word")
"""What a request without options asks for."""


@pytest.fixture(scope="module")
def endpoint(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedEndpoint]:
    """Over the demo model, an adapter and an export of it, a torn model, and one for another program."""
    home = tmp_path_factory.mktemp("home")
    save_adapter(demo_model, home / "models" / "garbling", seed=2, strength=3.0)
    card = {"kind": "foreign", "format": "ggml", "weights": "ggml-model.bin", "weights_bytes": 7}
    for name, told in (("torn", '{"model_type": "whi'), ("for-whisper-cpp", json.dumps(card))):
        folder = home / "models" / name
        folder.mkdir()
        (folder / ("config.json" if name == "torn" else "model.json")).write_text(told, "utf-8")
        (folder / "ggml-model.bin").write_bytes(b"weights")
    with served_endpoint(Settings(home=home, hf_cache=home / "hf", max_upload_mb=2)) as served:
        served.services.exporter.ensure("demo")
        yield served


@pytest.fixture(scope="module")
def client(endpoint: ServedEndpoint) -> openai.OpenAI:
    return endpoint.client()


def held(goes_on: Callable[[Callable[[], bool]], bool]) -> Callable[[ModelCache], HeldEngines]:
    return lambda engines: HeldEngines(engines, goes_on)


@pytest.fixture(scope="session")
def clip(demo_speech: Path) -> Path:
    """Two sentences in 4.5 s."""
    return demo_speech / "samples" / "kitchen-light.flac"


@pytest.fixture(scope="module")
def heard(endpoint: ServedEndpoint, clip: Path) -> Transcript:
    """What the engine itself hears in it."""
    return endpoint.services.engines.transcribe("demo", clip, AS_ASKED)


@pytest.fixture(scope="module")
def long_recording(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences for 91 seconds."""
    sounds = [read_audio(path) for path in (clip.with_name("long.ogg"), clip, clip)]
    path = tmp_path_factory.mktemp("long") / "long.flac"
    soundfile.write(path, np.concatenate(sounds), SAMPLING_RATE)
    return path


# ---------------------------------------------------------------------- formats


def test_text_and_captions_are_those_of_the_studio(
    client: openai.OpenAI, clip: Path, heard: Transcript
) -> None:
    def asked(response_format: Any) -> Any:
        return client.audio.transcriptions.create(model="demo", file=clip, response_format=response_format)

    assert heard.text
    assert asked("json").text == heard.text
    assert asked("text") == f"{heard.text}\n"
    assert asked("srt") == captions.render(heard, "srt")
    assert asked("vtt") == captions.render(heard, "vtt")


@pytest.mark.parametrize("granularities", [["word", "segment"], ["word"], None])
def test_verbose_json_has_the_times_that_were_asked_for(
    client: openai.OpenAI, clip: Path, heard: Transcript, granularities: Any
) -> None:
    asked: dict[str, Any] = {"timestamp_granularities": granularities} if granularities else {}
    told = client.audio.transcriptions.create(
        model="demo", file=clip, response_format="verbose_json", language="en", **asked
    )
    assert (told.text, told.language) == (heard.text, "english")
    assert told.duration == pytest.approx(heard.duration_seconds)
    segments = [(one.start, one.end, one.text) for one in told.segments or ()]
    words = [(one.start, one.end, one.word) for one in told.words or ()]
    is_all = granularities is None or "segment" in granularities
    own = [(one.start_seconds, one.end_seconds, one.text) for one in heard.segments]
    assert segments == (own if is_all else [])
    assert all(-1 < one.avg_logprob < 0 < one.compression_ratio for one in told.segments or ())
    spoken = [
        (word.start_seconds, word.end_seconds, word.text) for one in heard.segments for word in one.words
    ]
    assert len(spoken) == 11 and words == (spoken if granularities else [])


def test_a_translation_is_english_and_streamed_if_asked_for(
    endpoint: ServedEndpoint, client: openai.OpenAI, clip: Path
) -> None:
    told = client.audio.translations.create(model="demo", file=clip, response_format="verbose_json")
    assert told.language == "english" and told.text and told.segments
    text = client.audio.translations.create(model="demo", file=clip, response_format="text")
    asked = {"model": "demo", "stream": "true"}
    place = f"{endpoint.url}/v1/audio/translations"
    answer = httpx.post(place, data=asked, files={"file": clip.read_bytes()}, timeout=PATIENCE_SECONDS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *deltas, last = (json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line)
    assert last == {"type": "transcript.text.done", "text": str(text).strip()}
    assert deltas and "".join(event["delta"] for event in deltas) == last["text"]


# ---------------------------------------------------------------------- models


def test_each_model_of_the_studio_is_listed_and_served(
    endpoint: ServedEndpoint, client: openai.OpenAI, clip: Path, heard: Transcript
) -> None:
    listed = [row.id for row in client.models.list()]
    known = [spec.id for spec in endpoint.services.registry.all()]
    assert listed == [name for name in known if name not in ("torn", "for-whisper-cpp")] != known
    assert client.models.retrieve("openai/whisper-tiny").id == "openai/whisper-tiny"
    assert client.models.retrieve("tiny").id == "openai/whisper-tiny"
    assert client.models.retrieve("whisper-1").id == "demo"
    texts = {
        model: client.audio.transcriptions.create(model=model, file=clip, temperature=0.9).text
        for model in ("garbling", "demo-ct2", "whisper-1")
    }
    assert texts["demo-ct2"] == texts["whisper-1"] == heard.text != texts["garbling"]
    made = client.models.retrieve("demo-ct2").created
    assert abs(made - time.time()) < 3600


def test_the_folder_it_was_started_with_is_served_and_no_other(
    tmp_path: Path, mute_model: Path, demo_model: Path, clip: Path
) -> None:
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    with served_endpoint(settings, model=str(mute_model)) as served:
        client = served.client()
        assert str(mute_model) in [row.id for row in client.models.list()]
        for model in ("whisper-1", str(mute_model)):
            assert client.models.retrieve(model).id == str(mute_model)
            assert client.audio.transcriptions.create(model=model, file=clip).text == ""
        with pytest.raises(openai.NotFoundError):
            client.audio.transcriptions.create(model=str(demo_model.parent), file=clip)


# ---------------------------------------------------------------------- streams


def test_the_text_comes_as_it_is_heard_and_the_first_of_it_before_the_last_window(
    tmp_path: Path, long_recording: Path
) -> None:
    told_first = threading.Event()
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    with served_endpoint(settings, held(lambda _should_stop: told_first.is_set())) as served:
        stream = served.client().audio.transcriptions.create(
            model="demo", file=long_recording, stream=True, language="en"
        )
        first = next(iter(stream))
        assert first.type == "transcript.text.delta" and first.delta
        assert 0 < served.services.engines.done_seconds < 60, "the engine is held behind its first windows"
        told_first.set()
        *rest, last = stream
    deltas = [first.delta, *(event.delta for event in rest)]
    assert last.type == "transcript.text.done" and "kitchen light" in last.text
    assert "".join(deltas) == last.text and len(deltas) > 20


@pytest.mark.parametrize("is_stream", [True, False])
def test_the_work_ends_when_its_client_goes_away(
    tmp_path: Path, long_recording: Path, is_stream: bool
) -> None:
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    with served_endpoint(settings, held(lambda should_stop: should_stop())) as served:
        engines: Any = served.services.engines
        asked = httpx.Request(
            "POST",
            f"{served.url}/v1/audio/transcriptions",
            data={"model": "demo", "stream": str(is_stream).lower()},
            files={"file": long_recording.read_bytes()},
        )
        head = [f"{name}: {value}" for name, value in asked.headers.items()]
        line = socket.create_connection((asked.url.host, asked.url.port))
        with line:
            line.sendall("\r\n".join([f"POST {asked.url.path} HTTP/1.1", *head, "", ""]).encode())
            line.sendall(asked.read())
            wait_until(lambda: engines.done_seconds > 0)
        assert engines.stopped.wait(PATIENCE_SECONDS)
        assert engines.done_seconds < 90
        wait_until(lambda: not list(served.uploads.folder.glob("[0-9a-f]*")))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---------------------------------------------------------------------- options


def test_language_prompt_and_temperature_reach_the_engine(tmp_path: Path, clip: Path) -> None:
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    with served_endpoint(settings, held(lambda _should_stop: True)) as served:
        silence, client = clip.with_name("silence.flac"), served.client()
        asked: dict[str, Any] = {"language": "german", "prompt": "At home", "temperature": 0.5}
        client.audio.transcriptions.create(model="demo", file=silence, **asked)
        client.audio.translations.create(model="demo", file=silence, temperature=0)
        engines: Any = served.services.engines
    transcribed, translated = engines.begun
    assert (transcribed.language, transcribed.initial_prompt) == ("german", "At home")
    assert transcribed.truncate_prompt, "clients send all that was heard so far; OpenAI takes its end"
    assert transcribed.temperature == (0.5, 0.6, 0.8, 1.0)
    assert (translated.task, translated.language) == ("translate", "auto")
    assert translated.temperature == TranscribeOptions().temperature, "0 may be raised, as OpenAI says"


# ---------------------------------------------------------------------- many at once


def test_sixty_requests_at_once_are_served_in_the_order_in_which_they_came_and_no_more_of_one_visitor(
    tmp_path: Path, clip: Path
) -> None:
    go_on = threading.Event()
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    temperatures = [round(0.01 * number, 2) for number in range(MOST_OF_A_VISITOR)]
    silence = clip.with_name("silence.flac")
    with served_endpoint(settings, held(lambda _should_stop: go_on.is_set())) as served:
        engines: Any = served.services.engines
        client = served.client()

        def ask(temperature: float) -> str:
            return client.audio.transcriptions.create(
                model="demo", file=silence, temperature=temperature
            ).text

        with ThreadPoolExecutor(MOST_OF_A_VISITOR) as pool:
            answers = []
            for number, temperature in enumerate(temperatures):
                answers.append(pool.submit(ask, temperature))
                wait_until(lambda number=number: len(served.line) > number)
            wait_until(lambda: len(engines.begun) == 2)
            assert client.models.list().data, "what is quick does not wait; and the last one stands in line"
            with pytest.raises(openai.RateLimitError, match="60 requests waiting") as caught:
                ask(0.0)
            go_on.set()
            assert [answer.result() for answer in answers] == [""] * MOST_OF_A_VISITOR
        assert caught.value.code == "rate_limit_exceeded" and caught.value.type == "rate_limit_error"
        assert ask(0.0) == "", "who has waited may ask again"
    served_in = [options.temperature[0] for options in engines.begun[:MOST_OF_A_VISITOR]]
    # Two at a time: the one of a pair may be asked for its thread before the other.
    assert sorted(served_in) == temperatures
    assert all(abs(place - temperatures.index(one)) <= 1 for place, one in enumerate(served_in))


def test_of_all_visitors_only_so_many_wait(
    tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studio.serving.endpoint.MOST", 4)
    go_on = threading.Event()
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path)
    with served_endpoint(settings, held(lambda _should_stop: go_on.is_set())) as served:

        def asks(number: int) -> httpx.Response:
            """One visitor, whom a proxy names."""
            address, form = f"{served.url}/v1/audio/transcriptions", {"model": "demo"}
            who = {"x-forwarded-for": f"203.0.113.{number}"}
            with clip.open("rb") as sound:
                return httpx.post(address, files={"file": sound}, data=form, headers=who, timeout=60)

        with ThreadPoolExecutor(4) as pool:
            answers = []
            for number in range(4):
                answers.append(pool.submit(asks, number))
                wait_until(lambda number=number: len(served.line) > number)
            refused = asks(5)
            go_on.set()
            assert [answer.result().status_code for answer in answers] == [200] * 4
    assert refused.status_code == 429 and "busy: 4 requests of all visitors" in refused.text
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"


def saved(served: ServedEndpoint) -> int:
    return len(list(served.uploads.folder.glob("[0-9a-f]*")))


# ---------------------------------------------------------------------- what is refused

FORM = "multipart/form-data"
NO_SOUND = ("a.wav", b"no sound at all " * 100)
REFUSED: dict[str, tuple[dict[str, Any], int, str | None, str]] = {
    "an unknown model": ({"model": "gpt-4o"}, 404, "model", "There is no model 'gpt-4o' here"),
    "one of the Hub that nobody heard of": ({"model": "some/body"}, 404, "model", "There is no model"),
    "a folder": ({"model": "/etc"}, 404, "model", "There is no model"),
    "what nothing can be named": ({"model": "x" * 300}, 404, "model", "There is no model"),
    "a torn model": ({"model": "torn"}, 400, "model", "torn cannot be used"),
    "one for another program": ({"model": "for-whisper-cpp"}, 400, None, "for another program (ggml)"),
    "an unknown format": ({"response_format": "docx"}, 400, "response_format", "json, text, srt"),
    "a speaker's format": ({"response_format": "diarized_json"}, 400, "response_format", "must be one of"),
    "streamed captions": ({"response_format": "srt", "stream": True}, 400, "stream", "srt is not streamed"),
    "an unknown language": ({"language": "klingon"}, 400, "language", "no language of Whisper"),
    "a temperature of nothing": ({"temperature": float("nan")}, 400, "temperature", "from 0 to 2"),
    "several temperatures": ({"temperature": "0,5"}, 400, "temperature", "must be a number, got '0,5'"),
    "a temperature too high": ({"temperature": 7}, 400, "temperature", "from 0 to 2"),
    "an unknown time": (
        {"timestamp_granularities": ["syllable"]}, 400, "timestamp_granularities[]", "word, segment"
    ),
    "no sound": ({"file": NO_SOUND}, 400, "file", "a.wav is not a sound file"),
    "no sound, streamed": ({"file": NO_SOUND, "stream": True}, 400, "file", "a.wav is not a sound file"),
    "an empty file": ({"file": ("b.wav", b"")}, 400, "file", "b.wav is an empty file"),
    "too large a file": ({"file": ("c.wav", b"x" * 3 * 2**20)}, 413, "file", "larger than 2.00 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_is_refused_in_openais_own_shape(
    client: openai.OpenAI, endpoint: ServedEndpoint, clip: Path, name: str
) -> None:
    asked, status, param, told = REFUSED[name]
    with pytest.raises(openai.APIStatusError) as caught:
        client.audio.transcriptions.create(**{"model": "demo", "file": clip, **asked})
    assert caught.value.status_code == status
    error: Any = caught.value.body
    assert set(error) == {"message", "type", "param", "code"}
    assert told in error["message"] and error["param"] == param
    assert error["type"] == "invalid_request_error" and error["code"]
    assert str(endpoint.uploads.folder) not in error["message"]
    wait_until(lambda: saved(endpoint) == 0)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"data": {"model": "demo"}}, 400),
        ({"data": {"model": "demo", "file": "speech.wav"}}, 400),
        ({"files": {"sound": b"x"}}, 400),
        ({"json": {"model": "demo"}}, 400),
        ({"content": b"--x\r\nnonsense", "headers": {"content-type": f"{FORM}; boundary=x"}}, 400),
        ({"content": b"", "headers": {"content-type": FORM}}, 400),
        ({"files": [("file", b"x"), ("file", b"y")]}, 400),
        ({"data": {"prompt": "x" * 2**20}, "files": {"file": b"x"}}, 400),
        ({"method": "GET"}, 405),
        ({"path": "/v1/audio/speech", "json": {}}, 404),
        ({"method": "GET", "path": "/v1/models/%00"}, 404),
    ],
)  # fmt: skip
def test_a_form_without_a_file_and_a_place_that_is_not_there_are_told(
    endpoint: ServedEndpoint, asked: dict[str, Any], status: int
) -> None:
    given = {"method": "POST", "path": "/v1/audio/transcriptions", **asked}
    answer = httpx.request(given.pop("method"), endpoint.url + given.pop("path"), timeout=60, **given)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}, answer.text


def test_what_does_not_tell_its_length_is_given_up_as_soon_as_it_is_too_long(
    endpoint: ServedEndpoint,
) -> None:
    head = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(64):
            yield b"x" * 2**20

    answer = httpx.post(
        f"{endpoint.url}/v1/audio/transcriptions",
        content=body(),
        headers={"content-type": "multipart/form-data; boundary=x"},
        timeout=60,
    )
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "file_too_large"
    assert saved(endpoint) == 0


def test_the_refusal_is_in_the_language_that_is_asked_for(endpoint: ServedEndpoint) -> None:
    with httpx.Client(base_url=f"{endpoint.url}/v1/models/", timeout=PATIENCE_SECONDS) as http:
        assert http.get("").json()["object"] == "list"
        answer = http.get("nobody", headers={"accept-language": "zh-TW"})
    assert answer.status_code == 404 and "這裡沒有模型" in answer.json()["error"]["message"]


# ---------------------------------------------------------------------- who is let in


def test_programs_bring_the_key_where_there_is_one(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", hf_cache=tmp_path, api_key=KEY)
    assert KEY not in repr(settings)
    with served_endpoint(settings) as served:
        assert served.client(KEY).models.retrieve("demo").id == "demo"
        for wrong in ("wrong", KEY + "x", KEY[:-1], "é", ""):
            headers = {"authorization": f"Bearer {wrong}".encode()} if wrong else {}
            answer = httpx.get(f"{served.url}/v1/models", headers=headers, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 401, wrong
            assert answer.json()["error"]["code"] == "invalid_api_key" and KEY not in answer.text
        with pytest.raises(openai.AuthenticationError, match="STUDIO_API_KEY"):
            served.client("wrong").models.list()
        headers = {"host": "evil.example"}
        answer = httpx.get(f"{served.url}/v1/models", headers=headers, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 403 and answer.json()["error"]["type"] == "permission_error"


def test_a_space_whose_visitors_are_strangers_answers_only_if_it_is_told_to(
    tmp_path: Path, clip: Path
) -> None:
    told = {"STUDIO_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path), "SPACE_ID": "a/b"}
    own = Settings.from_env({**told, "STUDIO_ALLOW_TRAINING": "1"})
    assert own.has_endpoint and Settings.from_env({"STUDIO_HOME": str(tmp_path)}).has_endpoint
    public = Settings.from_env(told)
    with served_endpoint(public) as served:
        sent, place = {"file": clip.read_bytes()}, f"{served.url}/v1/audio/transcriptions"
        answer = httpx.post(place, files=sent, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 404 and "STUDIO_ENDPOINT" in answer.json()["error"]["message"]
    assert replace(public, has_endpoint=True) == Settings.from_env({**told, "STUDIO_ENDPOINT": "1"})
    hours = tmp_path / "hours.flac"
    soundfile.write(hours, np.zeros(3601 * 8000, np.int16), 8000)
    with (
        served_endpoint(replace(public, has_endpoint=True)) as served,
        pytest.raises(openai.BadRequestError, match=r"hours\.flac is too long"),
    ):
        served.client().audio.transcriptions.create(model="demo", file=hours)


@pytest.mark.parametrize("key", ["short", "with a space", "schlüssel-lang", "line\nbreak-in-it"])
def test_a_key_that_cannot_be_sent_is_refused_without_repeating_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="STUDIO_API_KEY is a word") as caught:
        Settings.from_env({"STUDIO_HOME": str(tmp_path), "STUDIO_API_KEY": key})
    assert key not in str(caught.value)
