"""What the environment says."""

import pytest

from studio.settings import Settings

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


def test_what_a_visitor_brings_lies_apart() -> None:
    settings = Settings.from_env({**SPACE, "STUDIO_HOME": "/home"})
    assert settings.own == settings.home and settings.datasets.parent == settings.home
