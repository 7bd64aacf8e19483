"""Publishing to a hub played in this process: what arrives, what is refused, and a line that breaks."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from studio.dataset.audio import read_audio
from studio.errors import ConfigError, HubUnreachableError, StudioError
from studio.messages import Message
from studio.publishing import publish
from studio.publishing.publish import Publication, Publisher, PublishRequest, prepare
from studio.registry.hub import download
from studio.registry.store import ModelRegistry
from studio.settings import DEMO_SPEECH
from studio.transcription.engine import TranscribeOptions
from studio.transcription.model_cache import ModelCache
from tests.conftest import RunStudio
from tests.forking import Popen
from tests.studio_process import command, free_port, wait_for_page
from tests.unit.publishing.played_hub import OTHERS, OWNER, READS, WRITES, Hub, played_hub
from tests.unit.transcription.small_models import save_adapter

NAME = f"{OWNER}/mine"
BASE = f"{OWNER}/whisper-demo"
GOLDEN = Path(__file__).parents[2] / "golden" / "homes"
WEIGHTS = "model.safetensors"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with played_hub(tmp_path / "on-the-hub") as hub:
        yield hub


@pytest.fixture
def made(demo_model: Path, tmp_path: Path) -> ModelRegistry:
    """Of the demo model an adapter, an export and a merged model; and an adapter of a base of the Hub."""
    (golden,) = GOLDEN.iterdir()
    models, cached = tmp_path / "home" / "models", tmp_path / "hf" / f"models--{OWNER}--whisper-demo"
    shutil.copytree(golden / "models", models)
    shutil.copytree(demo_model, models / "merged")
    shutil.copytree(demo_model, cached / "snapshots" / ("c" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("c" * 40)
    shutil.copytree(models / "finished", models / "accent")
    cards = {"merged": {"kind": "merged", "base_model": "demo"}, "accent": {"base_model": BASE}}
    for model, card in cards.items():
        (models / model / "model.json").write_text(json.dumps({**card, "languages": ["en"]}), "utf-8")
    return ModelRegistry(models, demo=demo_model, hf_cache=tmp_path / "hf")


@pytest.fixture
def publication(made: ModelRegistry) -> Publication:
    return prepare(made, PublishRequest("merged", NAME))


def sent(hub: Hub, publication: Publication, token: str = WRITES, pauses: int = 0) -> str:
    return Publisher(hub.url, [0.0] * pauses).send(publication, token)


def uploads(hub: Hub) -> int:
    return sum(one.startswith("PUT ") for one in hub.asked)


def test_a_model_arrives_whole_private_and_in_one_commit(hub: Hub, publication: Publication) -> None:
    steps: list[tuple[str, float]] = []
    publisher = Publisher(hub.url)
    address = publisher.send(publication, WRITES, lambda doing, share: steps.append((str(doing), share)))
    assert address == f"{hub.url}/{NAME}" and hub.private == {NAME}
    assert hub.names(NAME) - {".gitattributes"} == {file.name for file in publication.files}
    path = publication.spec.path
    assert path is not None
    assert (hub.root / NAME / WEIGHTS).read_bytes() == (path / WEIGHTS).read_bytes()
    assert sum("/commit/" in one for one in hub.asked) == 1
    assert [share for _, share in steps] == sorted(share for _, share in steps) and steps[-1][1] == 1.0
    shares = [share for doing, share in steps if WEIGHTS in doing]
    assert len(set(shares)) > 1, "bytes are told, not files alone"


def test_nothing_of_this_machine_is_sent(hub: Hub, made: ModelRegistry) -> None:
    for model in ("merged", "finished-ct2-int8", "accent"):
        folder = made.get(model).path
        assert folder is not None
        config = folder / ("config.json" if model != "accent" else "adapter_config.json")
        known = json.loads(config.read_text("utf-8"))
        places = {"_name_or_path": "runs/for-Eve", "cache": "../Eve", "log": f"{folder}/log"}
        config.write_text(json.dumps({**known, **places}), "utf-8")
        card = json.loads((folder / "model.json").read_text("utf-8"))
        card |= {
            "config": {"train_data": f"{folder}/a.jsonl"},
            "command": f"train {folder}",
            "title": "Eve's",
        }
        (folder / "model.json").write_text(json.dumps(card), "utf-8")
        (folder / "notes.txt").write_text("what is not the model's stays here")
        publication = prepare(made, PublishRequest(model, f"{OWNER}/{model}", is_public=True))
        sent(hub, publication)
        names = hub.names(f"{OWNER}/{model}")
        assert "notes.txt" not in names and {"README.md", "model.json", config.name} <= names
        for file in (hub.root / OWNER / model).iterdir():
            content = file.read_bytes()
            assert str(folder.parent.parent).encode() not in content and b"Eve" not in content, file.name
        told = json.loads((hub.root / OWNER / model / "model.json").read_text("utf-8"))
        assert told["languages"] == ["en"] and told.get("parity") == card.get("parity")
    assert hub.private == set()


def test_a_file_for_whisper_cpp_is_sent_with_its_card_and_makes_no_space(
    hub: Hub, made: ModelRegistry
) -> None:
    folder = made.models / "for-whisper-cpp"
    folder.mkdir()
    (folder / "ggml-model.bin").write_bytes(b"weights")
    card = {"kind": "foreign", "format": "ggml", "weights": "ggml-model.bin", "weights_bytes": 7}
    card |= {"base_model": "demo", "languages": ["en"], "sizes": {"ggml-model.bin": 7}}
    (folder / "model.json").write_text(json.dumps(card), "utf-8")
    sent(hub, prepare(made, PublishRequest(folder.name, NAME)))
    assert hub.names(NAME) - {".gitattributes"} == {"ggml-model.bin", "model.json", "README.md"}
    assert (hub.root / NAME / "ggml-model.bin").read_bytes() == b"weights"
    told = (hub.root / NAME / "README.md").read_text("utf-8")
    assert "library_name: whisper.cpp" in told and "whisper-cli --model ggml-model.bin" in told
    assert "sizes" not in json.loads((hub.root / NAME / "model.json").read_text("utf-8"))
    with pytest.raises(ConfigError, match="Space"):
        prepare(made, PublishRequest(folder.name, NAME, is_space=True))


def test_a_line_that_breaks_is_gone_on_with_and_nothing_is_sent_twice(
    hub: Hub, publication: Publication
) -> None:
    hub.broken = {"/commit/": 1, "PUT /lfs/": 1}
    sent(hub, publication, pauses=1)
    assert {file.name for file in publication.files} < hub.names(NAME)
    large = [file for file in publication.files if file.size_bytes > 20_000]
    assert uploads(hub) == len(large) + 1, "the one that broke, once more"


def test_who_gives_up_finds_nothing_half_there_and_goes_on_later(hub: Hub, publication: Publication) -> None:
    hub.answers = {"/commit/": [500]}
    with pytest.raises(HubUnreachableError, match="trouble of its own"):
        sent(hub, publication)
    assert hub.names(NAME) == {".gitattributes"}
    before = uploads(hub)
    sent(hub, publication)
    assert uploads(hub) == before and WEIGHTS in hub.names(NAME)


def test_who_cancels_has_nothing_on_the_hub_even_while_it_is_silent(
    hub: Hub, publication: Publication
) -> None:
    hub.pause_seconds = 0.6

    class Cancelled(Exception):
        pass

    def cancel(doing: Message, share: float) -> None:
        if "Sending" in str(doing):
            raise Cancelled

    began = time.monotonic()
    with pytest.raises(Cancelled):
        Publisher(hub.url).send(publication, WRITES, cancel)
    assert time.monotonic() - began < 8
    for thread in threading.enumerate():
        if thread.name == "publish":
            thread.join(30)
    assert not any("/commit/" in one for one in hub.asked)


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("", "A token of the Hub is needed"),
        ("hf_\nunbelievable", "A token of the Hub is needed"),
        ("hf_nobodys", "does not know this token"),
        (READS, "may only read"),
        (OTHERS, "may not write"),
    ],
)
def test_a_token_that_will_not_do_is_refused_in_a_sentence_that_does_not_hold_it(
    hub: Hub, publication: Publication, token: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        sent(hub, publication, token)
    assert not token or token not in repr(caught.value) + repr(caught.value.__context__)
    assert not (hub.root / NAME).exists()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (401, "does not know this token"),
        (403, "may not write"),
        (409, "is taken"),
        (418, "did not take"),
        (429, "asked too often"),
        (500, "trouble of its own"),
    ],
)
def test_each_refusal_of_the_hub_is_a_sentence(
    hub: Hub, publication: Publication, code: int, sentence: str
) -> None:
    hub.answers = {"/api/repos/create": [code]}
    with pytest.raises(StudioError, match=sentence):
        sent(hub, publication)


@pytest.mark.parametrize(
    "said", [b"", b"null", b"[]", b"{}", b"<html>Log in</html>", b'{"id": 3, "siblings": 4}']
)
def test_what_is_no_hub_is_given_up(hub: Hub, publication: Publication, said: bytes) -> None:
    hub.rubbish = said
    with pytest.raises(HubUnreachableError, match="Something else answered"):
        sent(hub, publication)


def test_a_hub_that_nobody_runs_is_said_to_be_silent(publication: Publication) -> None:
    with pytest.raises(HubUnreachableError, match="did not answer"):
        Publisher("http://127.0.0.1:9").send(publication, WRITES)


def test_where_the_hub_is_not_to_be_asked_the_reason_is_told(
    publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set"):
        Publisher("http://127.0.0.1:9").send(publication, WRITES)


def test_a_name_that_is_taken_stays_as_it_is_unless_it_may_be_replaced(
    hub: Hub, publication: Publication
) -> None:
    folder = hub.make(NAME)
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"of another model")
    for others in ("picture.png", "model/config.json"):
        (folder / others).parent.mkdir(exist_ok=True)
        (folder / others).write_bytes(b"somebody's")
    with pytest.raises(ConfigError, match="is taken"):
        sent(hub, publication)
    assert WEIGHTS not in hub.names(NAME)
    sent(hub, replace(publication, request=replace(publication.request, replaces=True)))
    assert WEIGHTS in hub.names(NAME) and "picture.png" in hub.names(NAME)
    assert (folder / "model" / "config.json").read_bytes() == b"somebody's", (
        "only a Space has its model there"
    )
    assert "model-00001-of-00002.safetensors" not in hub.names(NAME)


def test_what_is_to_be_private_does_not_go_where_everybody_reads(hub: Hub, publication: Publication) -> None:
    hub.make(NAME, is_private=False)
    with pytest.raises(ConfigError, match="is public on the Hub"):
        sent(hub, publication)
    assert hub.names(NAME) == {".gitattributes"}


@pytest.mark.parametrize("is_space", [False, True])
def test_what_was_private_is_public_once_that_is_asked_for(
    hub: Hub, made: ModelRegistry, is_space: bool
) -> None:
    private = PublishRequest("merged", NAME, is_space=is_space)
    sent(hub, prepare(made, private))
    assert hub.private == {NAME}
    public = replace(private, is_public=True, replaces=True)
    sent(hub, prepare(made, public))
    assert hub.private == set()


def test_what_else_lies_in_a_private_repository_is_shown_to_nobody(
    hub: Hub, publication: Publication
) -> None:
    (hub.make(NAME) / "interviews.parquet").write_bytes(b"whose nobody else may read")
    public = replace(publication.request, is_public=True, replaces=True)
    with pytest.raises(ConfigError, match=r"is private on the Hub and holds interviews\.parquet, too"):
        sent(hub, replace(publication, request=public))
    assert hub.private == {NAME} and hub.names(NAME) == {".gitattributes", "interviews.parquet"}


def test_a_space_says_of_a_model_of_short_windows_that_it_reads_in_long_ones(made: ModelRegistry) -> None:
    folder = made.get("merged").path
    assert folder is not None
    card = {"kind": "merged", "base_model": "demo", "audio_context": "short", "clip_seconds": 2.0}
    (folder / "model.json").write_text(json.dumps(card), "utf-8")
    for is_space in (False, True):
        files = prepare(made, PublishRequest("merged", NAME, is_space=is_space)).files
        (readme,) = [file.content for file in files if file.name == "README.md"]
        assert b"for which it was not trained" in readme  # type: ignore[operator]


def test_what_is_not_to_be_published_is_refused_before_the_hub_is_asked(made: ModelRegistry) -> None:
    for model, name, license, sentence in (
        ("demo", NAME, "", "comes with the studio"),
        ("openai/whisper-tiny", NAME, "", "a model of others"),
        ("finished", NAME, "", "is an adapter of demo, which is not on the Hub"),
        ("merged", "accent", "", "give owner/name"),
        ("merged", "a/b/c", "", "give owner/name"),
        ("merged", "a/../b", "", "give owner/name"),
        ("merged", "ä/\0", "", "give owner/name"),
        ("merged", NAME, "Apache 2\n- x", "how the Hub spells a license"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            prepare(made, PublishRequest(model, name, license=license))


def test_an_adapter_is_downloaded_again_and_writes_the_same(
    hub: Hub, made: ModelRegistry, demo_model: Path, demo_speech: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_model, hub.root / BASE)
    save_adapter(demo_model, tmp_path / "strong", seed=2, strength=3.0)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        shutil.copy(tmp_path / "strong" / name, made.models / "accent" / name)
    sent(hub, prepare(made, PublishRequest("accent", NAME, is_public=True)))
    for name in (NAME, BASE):
        download(name, cache_dir=tmp_path / "fresh", endpoint=hub.url)
    elsewhere = ModelRegistry(tmp_path / "empty", demo=None, hf_cache=tmp_path / "fresh")
    sound = read_audio(demo_speech / "samples" / "kitchen-light.flac")
    options, texts = TranscribeOptions("en", temperature=(0.0,), max_new_tokens=30), []
    for registry, model in ((made, "accent"), (elsewhere, NAME), (elsewhere, BASE)):
        engines = ModelCache(registry, idle_seconds=60)
        with engines.lease(model) as engine:
            texts.append(engine.transcribe_samples([sound], len(sound) / 16_000, options).text)
        engines.close()
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("model", ["accent", "merged", "finished-ct2-int8"])
def test_a_space_of_a_model_arrives_starts_and_writes_what_the_model_writes(
    hub: Hub, made: ModelRegistry, environ: dict[str, str], popen: Popen, tmp_path: Path, model: str
) -> None:
    """That of the adapter, which is started truly, imports what the others do."""
    publication = prepare(made, PublishRequest(model, NAME, is_space=True))
    assert sent(hub, publication) == f"{hub.url}/spaces/{NAME}"
    space, port = hub.root / NAME, free_port()
    words, start = ["-c", "import runpy; runpy.run_path('app.py', run_name='__main__')"], popen
    own = {**environ, "GRADIO_SERVER_PORT": str(port)}
    if model == "accent":
        words, start = ["app.py"], subprocess.Popen
        own |= {"HF_HUB_CACHE": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    with (tmp_path / "log").open("wb") as log:
        process = start([sys.executable, *words], cwd=space, env=own, stdout=log, stderr=log)
    try:
        wait_for_page(f"http://127.0.0.1:{port}", process, timeout_seconds=120)
        client = Client(f"http://127.0.0.1:{port}", verbose=False)
        heard = client.predict(
            handle_file(DEMO_SPEECH / "samples" / "kitchen-light.flac"), api_name="/transcribe"
        )
        (no_sound := tmp_path / "no-sound.wav").write_text("words alone", encoding="utf-8")
        with pytest.raises(AppError, match="has no sound that can be read"):
            client.predict(handle_file(no_sound), api_name="/transcribe")
    finally:
        process.kill()
        process.wait()
    assert "on the kitchen light" in heard
    pinned = (space / "requirements.txt").read_text("utf-8").split()
    assert pinned and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in pinned)


def test_a_model_trained_here_is_published_from_the_terminal_and_heard_with_in_an_empty_home(
    hub: Hub, run_process: RunStudio, run_studio: RunStudio, studio_home: Path, tmp_path: Path
) -> None:
    (golden,) = GOLDEN.iterdir()
    shutil.copytree(golden, studio_home)
    name, sound = f"{OWNER}/finished", DEMO_SPEECH / "samples" / "kitchen-light.flac"
    elsewhere = {"STUDIO_HOME": str(tmp_path / "empty"), "HF_HOME": str(tmp_path / "hf")}
    extra = {"HF_ENDPOINT": hub.url, "HF_TOKEN": WRITES}
    done = run_process("publish", "finished-ct2-int8", name, extra=extra)
    assert done.stdout == f"{hub.url}/{name}\n", done.stderr
    assert f"{name}, private" in done.stderr and WRITES not in done.stderr
    here = run_studio("transcribe", sound, "--model", "finished-ct2-int8", "--json")
    there = run_process("transcribe", sound, "--model", name, "--json", extra={**extra, **elsewhere})
    texts = [json.loads(answer.stdout)[0]["text"] for answer in (here, there)]
    assert texts[0] == texts[1] and "kitchen" in texts[0], there.stderr
    kept = [path for path in studio_home.rglob("*") if path.is_file()]
    assert not any(WRITES.encode() in path.read_bytes() for path in kept), "the token is kept nowhere"


@pytest.mark.parametrize("place", ["whoami", "/lfs/", "/commit/"])
def test_a_hub_that_falls_silent_is_not_waited_for(
    hub: Hub, publication: Publication, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_SILENT_SECONDS", 0.3)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _seconds: None)
    hub.silent_at = place
    with pytest.raises(HubUnreachableError, match="did not answer"):
        sent(hub, publication)
    hub.over.set()


def test_a_dry_run_lists_every_file_shows_the_card_and_asks_nothing_of_the_hub(
    hub: Hub, made: ModelRegistry, publication: Publication, run_process: RunStudio, run_studio: RunStudio
) -> None:
    home = made.models.parent
    done = run_process("publish", "merged", NAME, "--dry_run", extra=terminal(hub, home))
    assert done.returncode == 0 and hub.asked == [], done.stderr
    listed, _, card = done.stdout.partition("\n\n")
    names = [line.split()[0] for line in listed.splitlines()]
    assert names == [f"{NAME},", *(file.name for file in publication.files), "all"]
    assert card == publication.card + "\n"
    assert "The base is better at" not in done.stderr
    folder = made.get("merged").path
    assert folder is not None
    told = json.loads((folder / "model.json").read_text("utf-8"))
    checks = {"checks": [], "lost": ["long_form"]}
    (folder / "model.json").write_text(json.dumps({**told, "capabilities": checks}), "utf-8")
    for more in ((), ("--space",)):
        broken = run_studio("publish", "merged", NAME, "--dry_run", *more, home=home)
        assert broken.stderr.startswith("Note: The base is better at: Long recordings"), broken.stderr
    (folder / "model.json").write_text(json.dumps(told), "utf-8")
    own = run_studio("models", "card", "merged", home=home)
    assert own.stdout == card.replace(NAME, "OWNER/NAME")
    told = json.loads(run_studio("models", "card", "merged", "--json", home=home).stdout)
    assert told["card"] + "\n" == own.stdout
    refused = run_studio("models", "card", "demo", home=home)
    assert refused.returncode == 2 and "demo was not made here" in refused.stderr


def test_the_terminal_shows_what_goes_takes_a_place_and_goes_on_after_a_line_that_broke(
    hub: Hub, made: ModelRegistry, run_process: RunStudio
) -> None:
    (hub.make(NAME, is_private=False) / "model-00001-of-00002.safetensors").write_bytes(b"of another model")
    hub.broken = {"PUT /lfs/": 1}
    words = ("merged", NAME, "--public", "--replace", "--license", "apache-2.0")
    done = run_process("publish", *words, extra=terminal(hub, made.models.parent))
    assert done.stdout == f"{hub.url}/{NAME}\n", done.stderr
    expected = prepare(made, PublishRequest("merged", NAME, True, True, "apache-2.0"))
    shown, _, progress = done.stderr.partition(expected.card)
    assert all(file.name in shown for file in expected.files) and f"{NAME}, public" in shown
    assert "Asking the Hub" in progress, "the card stands before anything is sent"
    assert "it/s" not in progress, "the library draws no bars of its own"
    assert uploads(hub) == sum(file.size_bytes > 20_000 for file in expected.files) + 1
    assert hub.names(NAME) == {".gitattributes", *(file.name for file in expected.files)}
    assert "license: apache-2.0" in (hub.root / NAME / "README.md").read_text("utf-8")


def test_the_terminal_says_in_a_sentence_that_the_hub_refuses(
    hub: Hub, made: ModelRegistry, run_process: RunStudio
) -> None:
    done = run_process("publish", "merged", NAME, extra=terminal(hub, made.models.parent, OTHERS))
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and done.stdout == ""
    assert last.startswith(f"Error: This token may not write {NAME}") and OTHERS not in done.stderr
    assert "Traceback" not in done.stderr and not (hub.root / NAME).exists()


def test_without_a_token_the_terminal_says_so_before_it_shows_the_card(
    hub: Hub, made: ModelRegistry, run_process: RunStudio
) -> None:
    done = run_process("publish", "merged", NAME, extra=terminal(hub, made.models.parent, ""))
    assert done.returncode == 2 and done.stderr.startswith("Error: A token of the Hub is needed")


def test_a_space_is_published_from_the_terminal_file_for_file(
    hub: Hub, made: ModelRegistry, run_process: RunStudio
) -> None:
    expected = prepare(made, PublishRequest("merged", NAME, is_space=True))
    done = run_process("publish", "merged", NAME, "--space", extra=terminal(hub, made.models.parent))
    assert done.returncode == 0 and done.stdout == f"{hub.url}/spaces/{NAME}\n", done.stderr
    assert "sdk: gradio" in done.stderr and hub.private == {NAME}
    space = hub.root / NAME
    arrived = {path.relative_to(space).as_posix() for path in space.rglob("*") if path.is_file()}
    assert arrived - {".gitattributes"} == {file.name for file in expected.files} >= {"app.py"}
    for file in expected.files:
        content = file.content if isinstance(file.content, bytes) else file.content.read_bytes()
        assert (space / file.name).read_bytes() == content, file.name
    assert WRITES not in done.stderr and not any("/api/models/" in one for one in hub.asked)


def test_who_cancels_in_the_terminal_while_the_hub_trickles_has_nothing_on_it(
    hub: Hub, made: ModelRegistry, environ: dict[str, str], tmp_path: Path
) -> None:
    hub.trickle_seconds = 5.0  # less than what counts as silence: the library alone would wait to the end
    home = made.models.parent
    words = ("publish", "merged", NAME)
    process = command(words, {**environ, **terminal(hub, home)}, home, tmp_path)
    with process:
        while not hub.said:
            assert process.poll() is None, (tmp_path / "stderr").read_text("utf-8")
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    took = time.monotonic() - began
    told = (tmp_path / "stderr").read_text("utf-8")
    hub.over.set()
    assert process.returncode == 130 and said == "" and took < 20
    assert told.splitlines()[-1] == "Interrupted." and "Traceback" not in told and WRITES not in told
    assert not (hub.root / NAME).exists()


def test_a_hub_that_trickles_gets_all_of_it_in_one_commit(hub: Hub, publication: Publication) -> None:
    hub.trickle_seconds = 0.002
    sent(hub, publication)
    assert {file.name for file in publication.files} < hub.names(NAME)
    assert sum("/commit/" in one for one in hub.asked) == 1


def terminal(hub: Hub, home: Path, token: str = WRITES) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "HF_TOKEN": token, "STUDIO_HOME": str(home)}
