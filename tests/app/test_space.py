"""The repository as a Hugging Face Space: an ordinary user, a read-only checkout, no training."""

import hashlib
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from studio.ui.shared.i18n import _
from tests.app.test_owner import BROWSER
from tests.reading import read_manifest
from tests.studio_process import ROOT, StudioProcess, copy_checkout

NOBODY = 65534
DISK_BYTES = 128 * 1024 * 1024
READS_ALL = "+dac_read_search"


@pytest.fixture(scope="module")
def space(environ: dict[str, str]) -> Iterator[StudioProcess]:
    """The page of a Space, served by a user who owns nothing but a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="space-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        checkout, own = folder / "app", folder / "tmp"
        copy_checkout(checkout, is_compiled=True)
        make_read_only(checkout)
        own.mkdir()
        has_disk = is_root() and mount_disk(own)
        command = [sys.executable, "app.py"]
        if is_root():
            os.chown(own, NOBODY, NOBODY)
            command = [*as_ordinary_user(), *command]
        on_space = {
            **environ,
            "SPACE_ID": "somebody/whisper-studio",
            "HOME": str(own),
            "TMPDIR": str(own),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        before = fingerprint(checkout)
        process = StudioProcess(
            own / "whisper-studio", on_space, command=command, checkout=checkout, names_home=False
        )
        try:
            with process:
                yield process
            assert fingerprint(checkout) == before, "the checkout was written to"
        finally:
            make_writable(checkout)
            if has_disk:
                subprocess.run(["umount", "--lazy", own], check=True)


def mount_disk(folder: Path) -> bool:
    """A small disk of its own for a folder, where this machine's root may mount one."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder]
    return subprocess.run(words, capture_output=True).returncode == 0


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def as_ordinary_user() -> list[str]:
    """What to put before a command so that root's test runs it without root's rights.

    The interpreter may lie in a folder that only root can enter; then the user is given the right to read
    everything, or else root loses the right to write what its permissions forbid.
    """
    setpriv = shutil.which("setpriv")
    assert setpriv, "root needs setpriv (util-linux) to start the studio as an ordinary user"
    nobody = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    ways = (
        nobody,
        [*nobody, f"--inh-caps={READS_ALL}", f"--ambient-caps={READS_ALL}"],
        [setpriv, "--inh-caps=-dac_override", "--bounding-set=-dac_override"],
    )
    for way in ways:
        done = subprocess.run([*way, sys.executable, "-c", "import numpy"], capture_output=True)
        if done.returncode == 0:
            return way
    raise AssertionError("this machine's root cannot give up its rights")


def make_read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def make_writable(folder: Path) -> None:
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        path.chmod(0o755)


def fingerprint(folder: Path) -> str:
    """Names and contents of every file."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(path.relative_to(folder).as_posix().encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def client(space: StudioProcess) -> Client:
    return Client(space.url, verbose=False)


def page_texts(client: Client) -> str:
    """Everything the page is built of, as the browser gets it."""
    return json.dumps(client.config, ensure_ascii=False)


def test_the_demo_model_is_ready_at_once(client: Client, demo_speech: Path) -> None:
    example = read_manifest("demo:test", max_rows=1).examples[0]
    answer = client.predict(audio=handle_file(example.audio_path), model="demo", api_name="/transcribe")
    assert answer["model"] == "demo" and answer["duration_seconds"] > 0


def test_the_train_tab_is_there_and_says_why_it_is_off(client: Client) -> None:
    texts = page_texts(client)
    assert "Duplicate this Space" in texts and "STUDIO_ALLOW_TRAINING" in texts
    assert "upload-files" not in texts


def test_a_button_duplicates_the_space(client: Client) -> None:
    """Gradio's button for that is a plain one in the page."""
    buttons = [one["props"] for one in client.config["components"] if one["type"] == "button"]
    key = _("Duplicate this Space").key
    assert [key in str(one["value"]) for one in buttons].count(True) == 1


def test_a_run_cannot_be_started_past_the_tab_either(client: Client, space: StudioProcess) -> None:
    with pytest.raises(AppError, match="STUDIO_ALLOW_TRAINING"):
        client.predict(config={"base_model": "demo"}, api_name="/start_run")
    with pytest.raises(AppError, match=r"^Training, exporting and measuring are switched off"):
        client.predict(model="demo", api_name="/export")
    assert list((space.home / "runs").iterdir()) == []


def asked(space: StudioProcess, handler: int, data: Sequence[object], visitor: str) -> str:
    """What a handler, named or not, says to somebody who calls it without the page."""
    question = {"data": data, "fn_index": handler, "session_hash": visitor}
    joined = BROWSER.post(f"{space.url}/gradio_api/queue/join", json=question)
    if joined.status_code != 200:
        return joined.text
    answer = BROWSER.get(f"{space.url}/gradio_api/queue/data", params={"session_hash": visitor})
    return answer.text


def pressed(space: StudioProcess, client: Client, button: str, *data: object) -> str:
    """What the handlers behind a button say."""
    ids = [one["id"] for one in client.config["components"] if one["props"].get("elem_id") == button]
    handlers = [
        one["id"]
        for one in client.config["dependencies"]
        if one["backend_fn"] and any(at in ids for at, _ in one["targets"])
    ]
    said = "".join(asked(space, handler, data, f"{button}{handler}") for handler in handlers)
    assert handlers and "process_completed" in said
    return said


def kept(space: StudioProcess) -> dict[str, bytes]:
    """Everything of the owner: models, runs, recordings, and what else lies in the home but what can be made
    again."""
    return {
        path.relative_to(space.home).as_posix(): path.read_bytes()
        for path in sorted(space.home.rglob("*"))
        if path.is_file() and path.relative_to(space.home).parts[0] != "cache"
    }


def takes_any(component: dict[str, Any]) -> bool:
    """Whether a component may hold any text."""
    is_list = component["type"] == "dropdown" and component["props"].get("allow_custom_value")
    return bool(is_list) or component["type"] in ("textbox", "state")


def test_no_function_of_the_page_changes_what_is_the_owners(
    space: StudioProcess, client: Client, demo_model: Path
) -> None:
    shutil.copytree(demo_model, space.home / "models" / "mine", dirs_exist_ok=True)
    before = kept(space)
    components = {one["id"]: one for one in client.config["components"]}
    handlers = [one for one in client.config["dependencies"] if one["backend_fn"]]
    for handler in handlers:
        inputs = [components[number] for number in handler["inputs"]]
        if not any(map(takes_any, inputs)):  # pressed while another visitor waits
            continue
        data = ["mine" if takes_any(one) else one["props"].get("value") for one in inputs]
        assert "process_completed" in asked(space, handler["id"], data, "stranger"), handler
    assert len(handlers) > 100 and kept(space) == before


def test_whatever_a_stranger_sends_is_answered_or_refused_with_a_sentence(
    space: StudioProcess, client: Client
) -> None:
    file = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
    odd: list[object] = [file, {"a": []}, 10**30, None]
    handlers = [one for one in client.config["dependencies"] if one["backend_fn"]]
    for number, handler in enumerate(handlers):
        for value in odd[number % 2 :: 2] if handler["inputs"] else ():
            said = asked(space, handler["id"], [value] * len(handler["inputs"]), f"odd{number}")
            assert "process_completed" in said and '"error":null' not in said, (handler, value)
    (live,) = [one["id"] for one in client.config["components"] if one["props"].get("elem_id") == "live"]
    for name, usual in (
        ("wait_for", {"session": "a", "shown": ""}),
        ("feed", {"session": "a", "rate": 16_000, "sound": "", "ends": False}),
    ):
        for data in (None, [], {}, "x", *({**usual, key: value} for key in usual for value in odd)):
            question = {"data": data, "component_id": live, "fn_name": name, "session_hash": "odd"}
            answer = BROWSER.post(f"{space.url}/gradio_api/component_server/", json=question)
            assert answer.status_code == 200 and answer.json()["error"], (name, data)


def test_nothing_of_one_visitor_reaches_another_or_is_stopped_by_them(
    space: StudioProcess, client: Client, demo_speech: Path
) -> None:
    recording = demo_speech / "samples" / "long.ogg"
    with recording.open("rb") as file:
        files = {"files": ("secret 4711.ogg", file)}
        sent = BROWSER.post(f"{space.url}/gradio_api/upload", files=files)
    components = {one["id"]: one for one in client.config["components"]}
    handlers = [one for one in client.config["dependencies"] if one["backend_fn"]]
    start = next(one for one in handlers if "transcribe-start" in pressed_by(one, components))
    inputs = [components[number]["props"] for number in start["inputs"]]
    is_audio = [one.get("elem_id") == "transcribe-audio" for one in inputs]
    upload = {"path": sent.json()[0], "meta": {"_type": "gradio.FileData"}}
    data = [upload if sound else one.get("value") for sound, one in zip(is_audio, inputs, strict=True)]
    question = {"data": data, "fn_index": start["id"], "session_hash": "first"}
    assert BROWSER.post(f"{space.url}/gradio_api/queue/join", json=question).status_code == 200
    said: list[str] = []
    before = kept(space)
    address, wanted = f"{space.url}/gradio_api/queue/data", {"session_hash": "first"}
    with httpx.stream("GET", address, params=wanted, timeout=300) as answer:
        told = answer.iter_lines()
        next(line for line in told if "process_generating" in line)
        # While the first waits, the second presses everything, what stops something first.
        for handler in sorted(handlers, key=lambda one: "cancel" not in pressed_by(one, components)):
            values = [
                "first" if takes_any(one) else one["props"].get("value")
                for one in (components[number] for number in handler["inputs"])
            ]
            said.append(asked(space, handler["id"], values, "second"))
            assert "process_completed" in said[-1], handler
        heard = "".join(told)
    assert all(words in heard for words in ("process_completed", "seven red apples", "i am late"))
    assert kept(space) == before
    assert len(said) > 100 and not any("secret 4711" in one or "seven red apples" in one for one in said)


def pressed_by(handler: dict[str, Any], components: dict[int, dict[str, Any]]) -> str:
    """Names of the buttons and fields that call a function of the page."""
    return " ".join(components[at]["props"].get("elem_id") or "" for at, _ in handler["targets"] if at)


@pytest.mark.parametrize(
    ("button", "data"),
    [
        ("models-rename", ("mine", "yours")),
        ("models-delete", ("mine",)),
        ("models-publish-show", ("mine", "somebody/mine", False, False, "", False)),
        ("models-publish", ("mine", "somebody/mine", False, False, "", True, "hf_a_token")),
    ],
)
def test_models_of_the_owner_are_not_changed_behind_the_page(
    space: StudioProcess, client: Client, demo_model: Path, button: str, data: tuple[str, ...]
) -> None:
    shutil.copytree(demo_model, space.home / "models" / "mine", dirs_exist_ok=True)
    assert "its owner's" in html.unescape(pressed(space, client, button, *data))
    assert [path.name for path in (space.home / "models").iterdir()] == ["mine"]


def test_models_are_those_of_the_list_and_of_the_hub(client: Client, space: StudioProcess) -> None:
    told = set()
    for name in (str(ROOT / "assets" / "demo-whisper"), "/", "/etc/passwd", "/nothing/there"):
        with pytest.raises(AppError, match="There is no model") as caught:
            client.predict(base_model=name, api_name="/estimate")
        told.add(str(caught.value).replace(f"'{name}'", "…").replace(f"'{Path(name).name}'", "…"))
    assert len(told) == 1, "which of them are there is not told"


def test_the_limits_of_strangers_are_said_before_they_bite(client: Client, tmp_path: Path) -> None:
    texts = page_texts(client)
    assert "60 min and 50 MB" in texts and "500 rows" in texts
    hours = tmp_path / "hours.flac"
    silence = np.zeros(16_000 * 60, np.float32)
    with soundfile.SoundFile(hours, "w", 16_000, 1) as file:
        for _minute in range(61):
            file.write(silence)
    with pytest.raises(AppError, match=r"hours\.flac is too long: here a recording may last 1 h 00 min"):
        client.predict(audio=handle_file(hours), model="demo", api_name="/transcribe")


def test_nobody_is_told_where_on_the_server_something_lies(client: Client, space: StudioProcess) -> None:
    place = str(space.home.parent)
    recording = handle_file(read_manifest("demo:test", max_rows=1).examples[0].audio_path)
    answers = [
        client.predict(audio=recording, model="demo", api_name="/transcribe"),
        client.predict(api_name="/models"),
        client.predict(api_name="/doctor"),
        client.predict(train_data="demo:validation", api_name="/check_data"),
    ]
    assert answers[0]["audio_path"] == Path(recording["path"]).name and answers[-1]["rows"] > 0
    for answer in answers:
        assert place not in json.dumps(answer), answer
    with pytest.raises(AppError) as caught:
        client.predict(audio=handle_file(ROOT / "pyproject.toml"), model="demo", api_name="/transcribe")
    assert "pyproject.toml" in str(caught.value) and place not in str(caught.value)


def test_data_goes_to_the_temporary_folder(space: StudioProcess) -> None:
    assert {"cache", "models", "runs"} <= {path.name for path in space.home.iterdir()}


def test_files_of_the_server_are_not_given_out(space: StudioProcess) -> None:
    for path in ("/etc/passwd", space.home / "runs", ROOT / "pyproject.toml"):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{space.url}/gradio_api/file={path}", timeout=30)


def test_a_file_that_is_too_large_is_refused(space: StudioProcess, tmp_path: Path) -> None:
    large = tmp_path / "large.wav"
    with large.open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    with large.open("rb") as file:
        answer = BROWSER.post(f"{space.url}/gradio_api/upload", files={"files": file})
    assert answer.status_code == 413


def test_no_file_is_fetched_from_an_address(space: StudioProcess) -> None:
    """Gradio takes one in place of every file, and of every value that may hold one."""
    for address in ("https://huggingface.co/robots.txt", "http://big.example/a.wav"):
        named = {"path": address, "meta": {"_type": "gradio.FileData"}}
        plain = Client(space.url, verbose=False, download_files=False)
        with pytest.raises(AppError, match=f"{address} is an address, and this studio fetches none"):
            plain.predict(named, "demo", api_name="/transcribe")
        with pytest.raises(AppError, match="is an address"):
            plain.predict(named, api_name="/estimate")


def test_what_finds_no_room_on_the_disk_is_refused_and_the_page_goes_on(
    space: StudioProcess, client: Client, demo_speech: Path, tmp_path: Path
) -> None:
    if shutil.disk_usage(space.home).total != DISK_BYTES:
        pytest.skip("needs a disk of its own, which only root can mount")
    recording = tmp_path / "noise.wav"
    soundfile.write(recording, np.random.default_rng(1).normal(0, 0.1, 16_000 * 60), 16_000)
    filler = space.home.parent / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(space.home).free - 2**20))
    with recording.open("rb") as file:
        answer = BROWSER.post(f"{space.url}/gradio_api/upload", files={"files": file})
    assert answer.status_code == 413 and "no room for more uploads" in answer.text
    speech = handle_file(demo_speech / "samples" / "kitchen-light.flac")
    assert "kitchen" in client.predict(audio=speech, model="demo", api_name="/transcribe")["text"]
    filler.write_bytes(bytes(shutil.disk_usage(space.home).free + filler.stat().st_size))
    with pytest.raises(httpx.HTTPStatusError, match="413"):
        client.predict(audio=speech, model="demo", api_name="/transcribe")
    assert client.predict(base_model="demo", api_name="/estimate")
    filler.unlink()
    assert "kitchen" in client.predict(audio=speech, model="demo", api_name="/transcribe")["text"]
