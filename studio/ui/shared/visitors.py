"""Who asks: on a Space its owner, or one of many visitors, each with their own runs, data and recordings.

The owner is whoever has logged in at Hugging Face under the name that the Space belongs to. A browser is
known again by a cookie, a program by its session. Of either a hash is kept, with which nobody can ask.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import gradio as gr
from starlette.requests import HTTPConnection, cookie_parser
from starlette.responses import RedirectResponse, Response

from studio.registry.spec import ModelSpec
from studio.registry.store import ModelRegistry
from studio.services import Services
from studio.serving.asgi import AsgiApp, AsgiMessage, Receive, Send
from studio.serving.cookies import set_cookie
from studio.settings import Settings

COOKIE = "studio_visitor"
_KEPT_SECONDS = 365 * 24 * 3600
_KEY_BYTES = 24
_MARK_LETTERS = 32


def services_for(services: Services, request: gr.Request | None) -> Services:
    """The services as this visitor may use them, with the runs that there are for them."""
    settings = settings_for(services.settings, request)
    if settings is services.settings:
        return services
    return replace(services, settings=settings, jobs=services.jobs.seen_with(settings))


def settings_for(settings: Settings, request: gr.Request | None) -> Settings:
    """The settings that hold for this visitor: on a Space the owner may train, all others are kept apart."""
    if not settings.on_spaces or settings.auth:
        return settings
    if is_owner(settings, request):
        return replace(settings, allow_training=True)
    return replace(settings, visitor=_mark_of(request))


def models_for(registry: ModelRegistry, asked: gr.Request | Settings) -> list[ModelSpec]:
    """The models that there are for who asks, or who has these settings: not those that other visitors of a
    Space have made."""
    own = asked if isinstance(asked, Settings) else settings_for(Settings.from_env(), asked)
    visitor = own.visitor
    return [spec for spec in registry.all() if not visitor or spec.card.get("visitor", visitor) == visitor]


def can_log_in(settings: Settings) -> bool:
    """Whether visitors of this Space can log in at Hugging Face: its own images have what Gradio needs."""
    return bool(settings.owner) and all(map(find_spec, ("authlib", "itsdangerous")))


def back_from_login(settings: Settings) -> dict[type[Exception], Callable[..., Response]]:
    """What answers where a login at Hugging Face was cancelled or refused there: the page, as it was."""
    if not can_log_in(settings):
        return {}
    from authlib.integrations.base_client.errors import OAuthError

    return {OAuthError: lambda _request, _error: RedirectResponse("/", 303)}


def is_owner(settings: Settings, request: gr.Request | None) -> bool:
    """Whether a request comes from the owner of this Space, logged in at Hugging Face.

    Gradio keeps that login in a signed cookie and gives it with each request.
    """
    scope: dict[str, Any] = getattr(getattr(request, "request", None), "scope", {})
    login = scope.get("session", {}).get("oauth_info") or {}
    if not settings.owner or login.get("expires_at", 0) < time.time():
        return False
    return bool(login["userinfo"]["preferred_username"] == settings.owner)


def _mark_of(request: gr.Request | None) -> str:
    """What a visitor is told apart by. Who brings nothing is somebody else each time."""
    key = ""
    if request is not None:
        key = cookie_parser(request.headers.get("cookie", "")).get(COOKIE, "")
        # All assistants share the one session in which the studio asks itself for them.
        if not key and request.headers.get("x-gradio-user") != "mcp":
            key = request.session_hash or ""
    return hashlib.sha256((key or secrets.token_hex()).encode()).hexdigest()[:_MARK_LETTERS]


class VisitorCookie:
    """The middleware that gives each browser a key of its own with the page."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Adds it to the answer to `GET /` if the browser brought none; everything else passes through."""
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path not in ("", "/"):
            await self._app(scope, receive, send)
            return
        asked = HTTPConnection(scope)

        async def answer(message: AsgiMessage) -> None:
            """Adds the cookie to the head of the answer."""
            if message["type"] == "http.response.start" and COOKIE not in asked.cookies:
                made = Response()
                key = secrets.token_urlsafe(_KEY_BYTES)
                set_cookie(made, COOKIE, key, _KEPT_SECONDS, asked, is_framed=True)
                message = {**message, "headers": [*message["headers"], made.raw_headers[-1]]}
            await send(message)

        await self._app(scope, receive, answer)
