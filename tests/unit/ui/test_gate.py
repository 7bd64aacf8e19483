"""The gate: which names, which pages, which visitors are let in."""

import base64
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from studio.errors import ConfigError
from studio.services import Services
from studio.serving.gate import Names, is_this_machine, require_key, require_login
from studio.serving.login import COOKIE, Login, login_key
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.settings import DEMO_SPEECH, Settings
from studio.ui.build import build_app, launch_options

HERE = "127.0.0.1:7860"
STARTS = "/gradio_api/startup-events"
EVERYWHERE = ("/nowhere", "/gradio_api/mcp/")
"""Beside the routes there are: one that leads nowhere, and one that is there for assistants alone."""
KEY = "key-of-programs"
USERS = {"ada": "difference engine", "成": "一二三四五六七八"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@dataclass(frozen=True)
class Served:
    """A page and who asks it."""

    routes: Any
    client: httpx.Client
    here: str


@contextmanager
def served(settings: Settings) -> Iterator[Served]:
    """The whole application behind its gate."""
    services = Services.open(settings)
    app = build_app(services, Line(AT_ONCE))
    uploads = Uploads(settings)
    options = launch_options(services, Names(settings, "127.0.0.1"), uploads, Line(AT_ONCE))
    app.launch(server_name="127.0.0.1", quiet=True, prevent_thread_lock=True, **options)
    try:
        with httpx.Client(base_url=app.local_url, timeout=30) as client:
            yield Served(app.server_app.routes, client, urlsplit(app.local_url).netloc)
    finally:
        app.close(verbose=False)
        services.close()
        uploads.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Settings(home=tmp_path_factory.mktemp("home"))) as made:
        yield made


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same with a login, and a key for programs."""
    home = tmp_path_factory.mktemp("home")
    with served(Settings(home=home, auth=USERS, api_key=KEY)) as made:
        yield made


def paths_of(routes: Any) -> set[str]:
    """A path of every route of an application, those within others included."""
    found = set()
    for route in routes:
        inner = getattr(route, "routes", None) or getattr(
            getattr(route, "original_router", None), "routes", ()
        )
        before = str(getattr(route, "path", ""))
        found |= {before + path for path in paths_of(inner)} | ({before} if before else set())
    return {re.sub(r"{(\w+)(:path)?}", r"\1", path) for path in found}


FOREIGN = (
    {"host": "evil.example"},
    {"host": "evil.example:7860", "origin": "http://evil.example:7860"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "8.8.8.8"},
    {"host": "[::2]:7860"},
    {"host": "127.0.0.1:x"},
    {"host": "localhost/evil.example"},
    {"host": "localhost?evil.example"},
    {"host": "evil@127.0.0.1:7860"},
    {"host": "[::1%lo].evil.example"},
    {"host": ""},
    {"host": HERE, "origin": "https://evil.example"},
    {"host": HERE, "origin": "http://127.0.0.1:3000"},
    {"host": HERE, "origin": "http://localhost:7860"},
    {"host": HERE, "origin": "null"},
    {"host": HERE, "origin": ""},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_nothing_answers_to_a_foreign_name_or_a_foreign_page(page: Served, headers: dict[str, str]) -> None:
    paths = paths_of(page.routes)
    assert len(paths) > 30 and {"/config", "/gradio_api/upload", "/v1/audio/transcriptions"} <= paths
    headers = {name: value.replace(HERE, page.here) for name, value in headers.items()}
    for path in (*paths, *EVERYWHERE):
        for method in ("GET", "POST"):
            answer = page.client.request(method, path, headers=headers)
            assert answer.status_code == 403, (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:7860", "origin": "http://localhost:7860"},
        {"host": "LOCALHOST:1", "origin": "http://localhost:1"},
        {"host": "[::1]:7860"},
        {"host": "127.0.0.2"},
        {"host": HERE, "origin": f"http://{HERE}"},
    ],
)
def test_the_page_and_programs_of_this_machine_come_in(page: Served, headers: dict[str, str]) -> None:
    headers = {name: value.replace(HERE, page.here) for name, value in headers.items()}
    answer = page.client.get("/", headers=headers)
    assert answer.status_code == 200 and "<html" in answer.text


def test_no_page_of_somebody_else_shows_the_studio_within_its_own(page: Served) -> None:
    for path in ("/", "/config", "/nowhere"):
        assert page.client.get(path).headers["content-security-policy"] == "frame-ancestors 'self'"
    refused = page.client.get("/", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == "frame-ancestors 'self'"


@pytest.mark.parametrize("locale", ["zh-CN", "zh-TW"])
def test_the_refusal_is_in_the_visitors_language(page: Served, locale: str) -> None:
    answer = page.client.get("/", headers={"host": "evil.example", "accept-language": locale})
    assert "evil.example" in answer.text and "does not answer" not in answer.text


def test_names_that_were_given_and_those_of_a_space_are_ours(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, hosts=("studio.lab", "proxy.lab:8443"))
    names = Names(settings, "127.0.0.1")
    assert names.refusal("studio.lab", "https://studio.lab") is None
    assert names.refusal("127.0.0.1:7860", "https://studio.lab") is None, "a proxy may put in its own name"
    assert names.refusal("proxy.lab:8443", None) is None and names.refusal("proxy.lab:1", None) is not None
    hosts = "ada-studio.hf.space,studio.example"
    space = Names(replace(settings, on_spaces=True, space_host=hosts), "0.0.0.0")
    for host in ("ada-studio.hf.space", "studio.example"):
        assert space.refusal(host, "https://huggingface.co") is None
        assert space.refusal(host, f"https://{host}") is None
        assert space.refusal(host, "https://mallory-page.hf.space") is not None, "anybody has a Space"
    assert space.refusal("10.1.2.3:7860", None) is None and space.refusal("evil.example", None) is not None
    assert names.refusal("ada-studio.hf.space", None) is not None
    names.trust("abc.gradio.live")
    assert names.refusal("abc.gradio.live", "https://abc.gradio.live") is None


def test_who_listens_to_all_is_reached_by_every_number_and_the_machines_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Analytical")
    names = Names(Settings(home=tmp_path), "0.0.0.0")
    for host in ("192.168.1.7:7860", "analytical", "analytical.local:7860", "[fe80::1]"):
        assert names.refusal(host, None) is None, host
    assert names.refusal("analytical.evil.example", None) is not None
    assert is_this_machine("localhost") and is_this_machine("::1") and not is_this_machine("analytical")


# ---------------------------------------------------------------------- login


def test_without_a_login_nothing_but_its_page_answers(closed: Served) -> None:
    for path in (*paths_of(closed.routes), *EVERYWHERE):
        for method in ("GET", "POST"):
            answer = closed.client.request(method, path, headers=basic("ada", "wrong password"))
            if path == "/" and method == "GET":
                assert (answer.status_code, answer.headers["location"]) == (303, "/login")
            elif path.rstrip("/") in ("/login", "/logout", STARTS):
                assert "difference" not in answer.text and "components" not in answer.text
            else:
                assert answer.status_code == 401, (method, path)


@pytest.mark.parametrize(("name", "password"), list(USERS.items()))
def test_who_logs_in_comes_in_until_the_login_ends(closed: Served, name: str, password: str) -> None:
    asked = closed.client.get("/?section=fit&memory_gib=7.5").headers["location"]
    assert asked == "/login?section=fit&memory_gib=7.5"
    form = {"username": name, "password": password}
    done = closed.client.post(
        "/login", data=form, headers={"accept": "text/html", "origin": f"http://{closed.here}"}
    )
    assert (done.status_code, done.headers["location"]) == (303, "/")
    linked = closed.client.post(asked, data=form, headers={"accept": "text/html"})
    assert linked.headers["location"] == "/?section=fit&memory_gib=7.5", "a link is not lost by logging in"
    told = done.headers["set-cookie"]
    assert "HttpOnly" in told and "SameSite=lax" in told and password not in told
    assert closed.client.get("/config").status_code == 200
    assert closed.client.get("/logout").headers["location"] == "/"
    assert closed.client.get("/config").status_code == 401


def test_who_logs_in_on_a_space_keeps_a_cookie_within_the_page_of_hugging_face(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, auth=USERS, on_spaces=True)
    form, https = {"username": "ada", "password": USERS["ada"]}, {"x-forwarded-proto": "https"}
    with served(settings) as space:
        done = space.client.post("/login", data=form, headers=https)
    told, framing = done.headers["set-cookie"], done.headers["content-security-policy"]
    assert framing == "frame-ancestors 'self' https://huggingface.co https://*.hf.space"
    assert done.status_code == 200 and told.endswith("SameSite=none; Secure; Partitioned")


def test_programs_bring_name_and_password_with_each_request_or_log_in_once(closed: Served) -> None:
    assert closed.client.get("/config", headers=basic("ada", USERS["ada"])).status_code == 200
    assert closed.client.post("/login", data={"username": "ada", "password": USERS["ada"]}).json() == {
        "success": True
    }
    closed.client.cookies.clear()


def test_the_key_of_programs_opens_the_endpoint_and_nothing_else(closed: Served) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    form = {"files": {"file": (DEMO_SPEECH / "samples" / "silence.flac").read_bytes()}}
    assert closed.client.get("/v1/models", headers=key).json()["data"][0]["id"] == "demo"
    assert closed.client.get("/v1/models", headers=basic("ada", USERS["ada"])).status_code == 200
    heard = closed.client.post("/v1/audio/transcriptions", headers=key, data={"stream": "true"}, **form)
    assert heard.text == 'data: {"type": "transcript.text.done", "text": ""}\n\n'
    refused = closed.client.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
    for path in paths_of(closed.routes):
        if not path.startswith("/v1") and path.rstrip("/") not in ("", "/login", "/logout", STARTS):
            assert closed.client.get(path, headers=key).status_code == 401, path


def test_a_wrong_password_is_told_after_a_while_and_no_cookie_is_made(closed: Served) -> None:
    begun = time.monotonic()
    form = {"username": "ada", "password": "<script>alert(1)</script>"}
    answer = closed.client.post(
        "/login", data=form, headers={"accept": "text/html", "accept-language": "zh-TW"}
    )
    assert answer.status_code == 401 and time.monotonic() - begun >= 1.0
    assert "set-cookie" not in answer.headers and "<script>" not in answer.text and "密碼" in answer.text


@pytest.mark.parametrize("body", [b"x" * 10**7, b"username=%ED%A0%80&password=%00", b"\xff\xfe&&==", b""])
def test_what_is_no_login_is_refused_without_being_read_to_its_end(closed: Served, body: bytes) -> None:
    for kind in (
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
    ):
        answer = closed.client.post("/login", content=body, headers={"content-type": kind})
        assert answer.status_code == (413 if len(body) > 4096 else 401)


def test_cookies_are_believed_only_as_they_were_signed() -> None:
    ada = Login({"ada": USERS["ada"], "bob": "another password"}, b"k" * 32, is_framed=False)
    cookie = ada._signed("ada", time.time() + 60)
    text, signature = cookie.split(".")
    assert ada._has_signed(cookie)
    forged = base64.urlsafe_b64encode(f"{time.time() + 60:.0f}:bob".encode()).decode().rstrip("=")
    wrong = [f"{forged}.{signature}", f"{text}.", text, "", ".", f"{text}.é", "%%%.a", f"{signature}.{text}"]
    assert not any(map(ada._has_signed, wrong))
    assert not ada._has_signed(ada._signed("ada", time.time() - 1)), "it has ended"
    assert not Login({"ada": "new password"}, b"k" * 32, is_framed=False)._has_signed(cookie)
    assert not Login({"ada": USERS["ada"]}, b"x" * 32, is_framed=False)._has_signed(cookie)
    assert f"{COOKIE}" == "studio_login"


def test_logins_outlive_the_studio_and_their_key_is_the_owners_alone(tmp_path: Path) -> None:
    key = login_key(tmp_path / "home")
    assert len(key) == 32 and login_key(tmp_path / "home") == key
    (file,) = (tmp_path / "home").iterdir()
    assert file.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------------- what may be opened


def test_nobody_opens_the_studio_to_others_by_accident(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    require_login(settings, "127.0.0.1")
    for wide, host in ((settings, "0.0.0.0"), (settings, "::"), (replace(settings, share=True), "127.0.0.1")):
        with pytest.raises(ConfigError, match=r"STUDIO_AUTH=name:password.*STUDIO_PUBLIC=1"):
            require_login(wide, host)
    for allowed in ({"auth": USERS}, {"is_open": True}, {"on_spaces": True}):
        require_login(replace(settings, **allowed), "0.0.0.0")  # type: ignore[arg-type]
        require_key(replace(settings, **allowed), "0.0.0.0")  # type: ignore[arg-type]


def test_a_key_lets_the_endpoint_be_opened_but_not_the_page(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    require_key(replace(settings, share=True), "localhost")
    with pytest.raises(ConfigError, match=r"STUDIO_API_KEY.*STUDIO_PUBLIC=1"):
        require_key(settings, "0.0.0.0")
    with_key = replace(settings, api_key=KEY)
    require_key(with_key, "0.0.0.0")
    with pytest.raises(ConfigError, match="STUDIO_AUTH"):
        require_login(with_key, "0.0.0.0")


@pytest.mark.parametrize("text", ["ada", "ada:", "ada:short", ":long enough", "ada:long enough,bob"])
def test_logins_that_cannot_be_meant_are_refused_without_repeating_them(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="STUDIO_AUTH is name:password") as caught:
        Settings.from_env({"STUDIO_HOME": str(tmp_path), "STUDIO_AUTH": text})
    assert text not in str(caught.value)


def test_passwords_are_not_shown_with_the_settings(tmp_path: Path) -> None:
    text = "ada:difference engine,bob:a:colon in it"
    settings = Settings.from_env({"STUDIO_HOME": str(tmp_path), "STUDIO_AUTH": text})
    assert settings.auth == {"ada": "difference engine", "bob": "a:colon in it"}
    assert "difference" not in repr(settings)


def test_what_others_ask_and_how_often_is_told_to_nobody(page: Served) -> None:
    for path in ("/monitoring", "/monitoring/summary", "/monitoring/any-key"):
        assert page.client.get(path).status_code == 403
