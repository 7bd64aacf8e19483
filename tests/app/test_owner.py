"""A Space with a login at Hugging Face: its owner may train there, and visitors are kept apart."""

import base64
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import httpx
import itsdangerous
import pytest

from studio.dataset.recordings import begin_session
from tests.app.openid_provider import Provider, playing
from tests.golden.conftest import HOMES
from tests.studio_process import StudioProcess
from tests.unit.publishing.played_hub import OWNER as HUB_OWNER
from tests.unit.publishing.played_hub import WRITES, Hub, played_hub

BROWSER = httpx.Client(timeout=120)
"""One for all, without a memory: a new one each time takes longer than most answers."""
BROWSER.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
OWNER, SECRET = "ada", "a secret of this Space"
SPACE = {"SPACE_ID": f"{OWNER}/studio", "SYSTEM": "spaces"}
LOGIN = {"OAUTH_CLIENT_ID": "id", "OAUTH_CLIENT_SECRET": SECRET, "OAUTH_SCOPES": "openid profile"}
RUN = {"base_model": "demo", "train_data": "demo", "max_steps": 1000, "run_name": "private-name"}
RUN |= {"eval_strategy": "no", "replay_share": 0.0}
"""It is stopped before it is over."""


def logged_in(username: str, *, secret: str = SECRET, name: str = "", seconds: float = 600) -> dict[str, str]:
    """The cookie that Gradio leaves once Hugging Face has said who somebody is."""
    login = {
        "userinfo": {"preferred_username": username, "name": name, "profile": "", "picture": ""},
        "access_token": "token",
        "scope": "openid profile",
        "expires_at": int(time.time() + seconds),
    }
    key = hashlib.sha256(f"{secret}-v4".encode()).hexdigest()
    content = base64.b64encode(json.dumps({"oauth_info": login}).encode())
    return {"cookie": "session=" + itsdangerous.TimestampSigner(key).sign(content).decode()}


NOT_THE_OWNER = [
    {},
    logged_in("mallory"),
    logged_in("mallory", name=OWNER),
    logged_in(OWNER, secret="guessed"),
    logged_in(OWNER, secret=""),
    logged_in(OWNER, seconds=-1),
    logged_in(OWNER.upper()),
    {"cookie": f"studio_visitor={OWNER}", "x-gradio-user": OWNER, "x-forwarded-user": OWNER},
]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """Where one logs in."""
    with playing(Provider(LOGIN["OAUTH_CLIENT_ID"], SECRET)) as provider:
        yield provider


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Where models are published."""
    with played_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture(scope="module")
def space(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory, provider: Provider, hub: Hub
) -> Iterator[StudioProcess]:
    """A public Space whose owner can log in; Gradio and the Hub's library learn where when imported."""
    home = tmp_path_factory.mktemp("space") / "home"
    places = {"OPENID_PROVIDER_URL": provider.url, "HF_ENDPOINT": hub.url}
    with StudioProcess(home, {**environ, **SPACE, **LOGIN, **places}) as process:
        yield process


def asked(
    space: StudioProcess, handler: int | str, data: Sequence[Any], headers: dict[str, str], session: str = "s"
) -> str:
    """What a handler says to whoever brings these headers."""
    named = {"fn_index": handler} if isinstance(handler, int) else {"fn_index": number_of(space, handler)}
    question = {"data": list(data), "session_hash": session, **named}
    joined = BROWSER.post(f"{space.url}/gradio_api/queue/join", json=question, headers=headers)
    assert joined.status_code == 200, joined.text
    wanted = {"session_hash": session}
    answer = BROWSER.get(f"{space.url}/gradio_api/queue/data", params=wanted, headers=headers)
    assert "process_completed" in answer.text
    return answer.text


@lru_cache(maxsize=1)
def config_of(space: StudioProcess) -> dict[str, Any]:
    """What the page is made of, which does not change."""
    config: dict[str, Any] = BROWSER.get(f"{space.url}/config").json()
    return config


def number_of(space: StudioProcess, name: str) -> int:
    """Of a function for programs."""
    found = (one["id"] for one in config_of(space)["dependencies"] if one["api_name"] == name)
    return int(next(found))


def runs_of(space: StudioProcess, headers: dict[str, str], session: str = "s") -> list[str]:
    """Ids of the runs that somebody is told of."""
    return [row["run_id"] for row in answer_in(asked(space, "runs", [], headers, session))["runs"]]


def ids_of(told: str) -> list[str]:
    """Of the models in an answer."""
    return [row["id"] for row in answer_in(told)["models"]]


def answer_in(told: str) -> dict[str, Any]:
    """The answer in what the queue says."""
    ending = next(json.loads(line[6:]) for line in told.splitlines() if "process_completed" in line)
    answer: dict[str, Any] = ending["output"]["data"][0]
    return answer


@pytest.mark.parametrize("headers", NOT_THE_OWNER, ids=range(len(NOT_THE_OWNER)))
def test_nobody_but_the_owner_trains_on_a_public_space(space: StudioProcess, headers: dict[str, str]) -> None:
    before = sorted((space.home / "runs").iterdir())
    assert "STUDIO_ALLOW_TRAINING" in asked(space, "start_run", [RUN], headers)
    assert "STUDIO_ALLOW_TRAINING" in asked(space, "probe", [RUN, 10], headers)
    assert sorted((space.home / "runs").iterdir()) == before


def test_what_the_owner_trains_on_a_public_space_is_theirs_alone(space: StudioProcess) -> None:
    owner = logged_in(OWNER)
    asked(space, "start_run", [RUN], owner)
    (run,) = runs_of(space, owner)
    assert run.startswith("private-name")
    for stranger in ({}, logged_in("mallory")):
        assert runs_of(space, stranger) == []
        for does in ("run_status", "stop_run", "resume_run"):
            told = asked(space, does, [run], stranger)
            assert "There is no run" in told or "STUDIO_ALLOW_TRAINING" in told
    assert runs_of(space, owner, "another page") == [run]
    asked(space, "stop_run", [run], owner)
    # Everything there is, pressed by a stranger who knows the name, tells nothing of it.
    components = {one["id"]: one for one in config_of(space)["components"]}
    handlers = [one for one in config_of(space)["dependencies"] if one["backend_fn"]]
    for handler in handlers:
        inputs = [components[number] for number in handler["inputs"]]
        if not any(map(is_text, inputs)):
            continue
        data = [run if is_text(one) else one["props"].get("value") for one in inputs]
        told = asked(space, handler["id"], data, logged_in("mallory"), "stranger")
        assert "private-name" not in told.replace(run, ""), handler
    assert runs_of(space, owner) == [run] and len(handlers) > 100


def is_text(component: dict[str, Any]) -> bool:
    """Whether a component may hold any text."""
    is_list = component["type"] == "dropdown" and component["props"].get("allow_custom_value")
    return bool(is_list) or component["type"] in ("textbox", "state")


def form_is_open(space: StudioProcess, headers: dict[str, str]) -> bool:
    """Whether the page lets whoever brings these headers start a run."""
    config = config_of(space)
    named = {one["props"].get("elem_id"): one["id"] for one in config["components"]}
    opens = next(
        one
        for one in config["dependencies"]
        if named["train-start"] in one["outputs"] and named["distill-start"] in one["outputs"]
    )
    return '"interactive":true' in asked(space, opens["id"], [], headers).replace(" ", "")


def test_the_owner_publishes_from_the_page_to_the_end_and_sees_what_goes_first(
    space: StudioProcess, hub: Hub, demo_model: Path
) -> None:
    folder = shutil.copytree(demo_model, space.home / "models" / "mine")
    (folder / "model.json").write_text('{"languages": ["en"]}', "utf-8")
    name = f"{HUB_OWNER}/mine"
    (button,) = (
        one["id"] for one in config_of(space)["components"] if one["props"].get("elem_id") == "models-publish"
    )
    (handler,) = (
        one["id"]
        for one in config_of(space)["dependencies"]
        if one["backend_fn"] and any(at == button for at, _ in one["targets"])
    )
    given = ["mine", name, False, False, "mit", False, WRITES]
    told = asked(space, handler, given, logged_in(OWNER), "publishes")
    assert 'class=\\"note note-good\\"' in told and f"{hub.url}/{name}" in told, told[-2000:]
    card = told.index("pipeline_tag: automatic-speech-recognition")
    assert told.index(f"Asking the Hub for {name}") < card < told.index("Sending model.safetensors")
    assert hub.private == {name} and hub.names(name) >= {"model.safetensors", "README.md", "model.json"}
    assert (hub.root / name / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert "license: mit" in (hub.root / name / "README.md").read_text("utf-8")
    assert '},""],"is_generating":false' in told, "the field of the token is empty again"
    assert WRITES not in told and WRITES not in space.log()
    shutil.rmtree(folder)


def test_the_form_opens_to_the_owner_alone(space: StudioProcess) -> None:
    assert form_is_open(space, logged_in(OWNER))
    assert not form_is_open(space, logged_in("mallory"))


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    """The session that an answer leaves with the browser."""
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_who_is_the_owner_is_said_where_one_logs_in(space: StudioProcess, provider: Provider) -> None:
    for username in ("mallory", OWNER):
        provider.username = username
        left = BROWSER.get(f"{space.url}/login/huggingface")
        back = BROWSER.get(left.headers["location"])
        came = BROWSER.get(back.headers["location"], headers=cookie_of(left))
        assert came.status_code == 307 and came.headers["location"] == "/"
        assert form_is_open(space, cookie_of(came)) is (username == OWNER)
        for refused in (back.headers["location"], f"{space.url}/login/callback?error=access_denied"):
            again = BROWSER.get(refused, headers=cookie_of(left))  # a code is good for once
            assert (again.status_code, again.headers["location"]) == (303, "/")
            left_then = again.headers.get("set-cookie", "").partition(";")[0]
            assert not form_is_open(space, {"cookie": left_then})
    assert not form_is_open(space, cookie_of(BROWSER.get(f"{space.url}/logout", headers=cookie_of(came))))


def test_one_logs_in_at_hugging_face(space: StudioProcess) -> None:
    assert "Owner: log in" in BROWSER.get(f"{space.url}/").text
    left = BROWSER.get(f"{space.url}/login/callback?code=made-up&state=made-up").headers.get("set-cookie", "")
    assert runs_of(space, {"cookie": left.partition(";")[0]}) == []


def test_of_two_visitors_who_train_none_sees_or_stops_what_the_other_does_and_the_owner_may(
    start_studio: Callable[..., StudioProcess], demo_model: Path, provider: Provider
) -> None:
    login = {**LOGIN, "OPENID_PROVIDER_URL": provider.url}
    space = start_studio(extra={**SPACE, **login, "STUDIO_ALLOW_TRAINING": "1"})
    first, second = (visitor(space) for _ in range(2))
    asked(space, "start_run", [RUN], first, "first page")
    (run,) = runs_of(space, first, "later page")
    for headers in (second, {}, {"x-gradio-user": "mcp"}):
        assert runs_of(space, headers, "second page") == []
        for does in ("run_status", "stop_run", "resume_run", "explain_oom"):
            data = ["", None, 10, run] if does == "explain_oom" else [run]
            assert "There is no run" in asked(space, does, data, headers, "second page")
    assert "private-name" in asked(space, "stop_run", [run], first, "later page")
    asked(space, "start_run", [RUN], second, "second page")
    (other,) = runs_of(space, second, "second page")
    owner = logged_in(OWNER)
    assert set(runs_of(space, owner, "owner")) == {run, other}
    assert "private-name" in asked(space, "stop_run", [other], owner, "owner")
    state = "stopping"  # at once if it still waited for the first run to end, else when its worker has ended
    while state == "stopping":
        (row,) = answer_in(asked(space, "runs", [], second, "second page"))["runs"]
        state = row["state"]
        time.sleep(0.1)
    assert state == "stopped"

    # Nor is the model of one there for the other; the name that it is given cannot be guessed.
    assert len(run.rpartition("-")[2]) == 16
    made = space.home / "models" / "made"
    shutil.copytree(demo_model, made)
    mark = json.loads((space.home / "runs" / run / "run.json").read_text())["visitor"]
    (made / "model.json").write_text(json.dumps({"kind": "base", "visitor": mark}))
    assert "made" in ids_of(asked(space, "models", [], first)) and mark not in first["cookie"]
    for headers in (second, {}):
        assert ids_of(asked(space, "models", [], headers)) and "made" not in ids_of(
            asked(space, "models", [], headers)
        )
    # A program has no cookie: it is known by its session, but for assistants, who share one.
    asked(space, "start_run", [RUN], {}, "mine")
    assert len(runs_of(space, {}, "mine")) == 1 and runs_of(space, {}, "yours") == []
    mcp = {"x-gradio-user": "mcp"}
    asked(space, "start_run", [RUN], mcp, "of all assistants")
    assert runs_of(space, mcp, "of all assistants") == []


def test_no_function_of_the_page_changes_or_tells_what_is_of_another_visitor_or_of_the_owner(
    start_studio: Callable[..., StudioProcess], demo_model: Path
) -> None:
    played = {"SPACE_ID": SPACE["SPACE_ID"], **LOGIN, "OPENID_PROVIDER_URL": "http://127.0.0.1:9"}
    space = start_studio(extra={**played, "STUDIO_ALLOW_TRAINING": "1"})
    assert BROWSER.get(f"{space.url}/login/huggingface").status_code == 404, "one logs in at Hugging Face"
    config = config_of(space)
    assert "files of up to 50 MB" in json.dumps(config) and "60 requests" in json.dumps(config)
    first, second = (visitor(space) for _ in range(2))
    mark = mark_of(space, first)
    theirs = put_there(space.home, demo_model, mark)
    assert RUN_OF_FIRST in runs_of(space, first) and runs_of(space, second) == []
    assert "of-first" in ids_of(asked(space, "models", [], first))
    before = {place: kept(space.home / place) for place in theirs}
    components = {one["id"]: one for one in config["components"]}
    handlers = [one for one in config["dependencies"] if one["backend_fn"]]
    for handler in handlers:
        inputs = [components[number] for number in handler["inputs"]]
        # What takes no text can name nothing; to trace a model's memory takes long, and reads.
        if not any(map(is_text, inputs)) or "memory-trace" in pressed_by(handler, components):
            continue
        pressed = pressed_by(handler, components)
        names = ["of-first"] if "run-" not in pressed else [RUN_OF_FIRST]
        names += ["of-owner"] if "models-" in pressed else []
        for name in names:
            data = [name if is_text(one) else one["props"].get("value") for one in inputs]
            assert "private words" not in asked(space, handler["id"], data, second, "second"), handler
    assert len(handlers) > 100 and {place: kept(space.home / place) for place in theirs} == before


RUN_OF_FIRST = "of-first-20261123-040005"


def pressed_by(handler: dict[str, Any], components: dict[int, dict[str, Any]]) -> str:
    """Names of the buttons and fields that call a function of the page."""
    return " ".join(components[at]["props"].get("elem_id") or "" for at, _ in handler["targets"] if at)


def put_there(home: Path, model: Path, mark: str) -> list[str]:
    """A run, a model, a data set and a list of sentences of a visitor, and a run and a model of the owner."""
    (finished,) = HOMES.glob("*/runs/finished-*")
    for name, told in {"of-first": {"visitor": mark}, "of-owner": {}}.items():
        run = shutil.copytree(finished, home / "runs" / f"{name}-20261123-040005")
        record = json.loads((run / "run.json").read_text("utf-8"))
        (run / "run.json").write_text(json.dumps({**record, **told}), "utf-8")
        (run / "worker.log").write_text("private words", "utf-8")
        shutil.copytree(model, home / "models" / name)
        card = {"kind": "base", **told, **({"note": "private words"} if told else {})}
        (home / "models" / name / "model.json").write_text(json.dumps(card), "utf-8")
    own = home / "visitors" / mark
    begin_session(own / "recordings", "of-first", "private words")
    (own / "datasets" / "of-first").mkdir(parents=True)
    (own / "datasets" / "of-first" / "metadata.jsonl").write_text('{"text": "private words"}\n', "utf-8")
    runs = (f"runs/{name}-20261123-040005" for name in ("of-first", "of-owner"))
    return [*runs, "models", f"visitors/{mark}"]


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def mark_of(space: StudioProcess, headers: dict[str, str]) -> str:
    """What a visitor is called in files: it stands in the runs that they start."""
    asked(space, "start_run", [RUN], headers, "marks")
    (run,) = runs_of(space, headers, "marks")
    asked(space, "stop_run", [run], headers, "marks")
    return str(json.loads((space.home / "runs" / run / "run.json").read_text("utf-8"))["visitor"])


def visitor(space: StudioProcess) -> dict[str, str]:
    """A browser that has opened the page."""
    answer = BROWSER.get(f"{space.url}/", headers={"x-forwarded-proto": "https"})
    set_cookie = answer.headers["set-cookie"]
    assert all(word in set_cookie for word in ("HttpOnly", "Secure", "Partitioned"))
    return {"cookie": set_cookie.partition(";")[0]}
