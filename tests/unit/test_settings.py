"""What the environment says."""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from studio.settings import Settings, ask_directly

SPACE = {"SPACE_ID": "ada/studio", "SYSTEM": "spaces"}
LOGIN = {
    "OAUTH_CLIENT_ID": "id",
    "OAUTH_CLIENT_SECRET": "secret",
    "OAUTH_SCOPES": "openid profile",
    "OPENID_PROVIDER_URL": "https://huggingface.co",
}


def test_a_space_with_a_login_at_hugging_face_has_an_owner() -> None:
    assert Settings.from_env({**SPACE, **LOGIN}).owner == "ada"
    assert Settings.from_env({**SPACE, **LOGIN, "SPACE_AUTHOR_NAME": "Ada"}).owner == "Ada"


@pytest.mark.parametrize("missing", [*SPACE, *LOGIN])
def test_where_gradio_would_play_the_login_nobody_is_the_owner(missing: str) -> None:
    environ = {name: value for name, value in {**SPACE, **LOGIN}.items() if name != missing}
    for without in (environ, {**environ, missing: ""}):
        assert Settings.from_env(without).owner == ""


def test_a_login_of_our_own_takes_the_place_of_that_at_hugging_face() -> None:
    assert Settings.from_env({**SPACE, **LOGIN, "STUDIO_AUTH": "ada:difference engine"}).owner == ""


def test_folders_of_the_hub_may_begin_at_home() -> None:
    found = {Settings.from_env(named).hf_cache for named in ({"HF_HUB_CACHE": "~/hub"}, {"HF_HOME": "~"})}
    assert found == {Path.home() / "hub"}


def test_what_a_visitor_brings_lies_apart() -> None:
    settings = Settings.from_env({**SPACE, "STUDIO_HOME": "/home"})
    assert settings.own == settings.home and settings.datasets.parent == settings.home


def test_a_proxy_that_the_environment_names_does_not_stand_between_the_studio_and_its_own_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "hub.example")
    monkeypatch.setenv("no_proxy", "")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(httpx.ConnectError):
            httpx.get(page)
        ask_directly("localhost", "127.0.0.1")
        assert httpx.get(page).status_code == 501, "asked itself, which only says that it has no GET"
        server.shutdown()
    assert os.environ["no_proxy"].startswith("hub.example,")
