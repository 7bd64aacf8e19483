"""Who is let in: the gate before everything that the server answers.

It stands before the page, the interface for programs, its queue and streams, files, uploads, and tools for
assistants; what is added later stands behind it, too. Three questions, each refused with one sentence:

1. Is the server meant by the name in `Host`? A page of somebody else whose own name leads to this machine
   would otherwise be taken for ours.
2. Does the request come from our page? A browser says so in `Origin`, which a page cannot change; programs
   send none.
3. Is the visitor logged in, where a login is asked for (`STUDIO_AUTH`)? Programs that ask the endpoint may
   bring a key instead (`STUDIO_API_KEY`), which lets them in nowhere else.
"""

import hmac
import ipaddress
import re
import socket
from dataclasses import replace

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from studio.errors import ConfigError
from studio.messages import Message
from studio.serving.asgi import AsgiApp, AsgiMessage, Receive, Send, locale_of
from studio.serving.login import LOGIN, LOGOUT, Login
from studio.serving.refusals import is_endpoint, refusal
from studio.settings import Settings
from studio.translation import N_, said, tr

_STARTS = "/gradio_api/startup-events"
"""Gradio asks this of itself before anybody is served; its answer tells nothing."""
_WRONG_KEY = N_("The key is wrong or missing: send STUDIO_API_KEY of this studio as bearer token.")
_HUGGING_FACE = "huggingface.co"
_SPACES = ".hf.space"
_PAGES_OF_SPACES = f" https://{_HUGGING_FACE} https://*{_SPACES}"
_PLACE = re.compile(r"(\[[0-9a-f:.]+\]|[^][/?#@%:\\\s]+)(:[0-9]{0,5})?")


class Gate:
    """The middleware that stands before all others of the server."""

    def __init__(self, app: AsgiApp, names: "Names", login: Login | None, api_key: str = "") -> None:
        self._app = app
        self._names = names
        self._login = login
        self._api_key = api_key.encode()

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Answers what may not pass; everything else goes on to the server."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = await self._answer(scope, receive)

        async def framed(message: AsgiMessage) -> None:
            """Sends it with the word of who may show it within a page: what is pressed there is ours."""
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("content-security-policy", self._names.framing)
            await send(message)

        if answer is None:
            await self._app(scope, receive, framed)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, framed)

    async def _answer(self, scope: AsgiMessage, receive: Receive) -> Response | None:
        headers = Headers(scope=scope)
        locale = locale_of(headers)
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        foreign = self._names.refusal(headers.get("host"), headers.get("origin"))
        if foreign is not None:
            return refusal(path, said(foreign, locale), 403)
        if self._api_key and is_endpoint(path):
            return self._answer_program(headers, path, locale)
        if self._login is None:
            return None
        if path in (LOGIN, LOGOUT) and scope["type"] == "http":
            return await self._login.answer(Request(scope, receive), path, locale)
        if path == _STARTS or self._login.admits(headers):
            return None
        if path == "" and scope.get("method") in ("GET", "HEAD"):
            asked = scope.get("query_string", b"").decode("latin-1")
            return RedirectResponse(f"{scope.get('root_path', '')}{LOGIN}{asked and '?'}{asked}", 303)
        return refusal(path, tr("Log in first, at {path}.", locale, path=LOGIN), 401)

    def _answer_program(self, headers: Headers, path: str, locale: str) -> Response | None:
        """Who asks the endpoint brings the key or, where there is a login, is logged in."""
        kind, _space, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            is_let_in = hmac.compare_digest(given.strip().encode(), self._api_key)
        else:
            is_let_in = self._login is not None and self._login.admits(headers)
        if is_let_in:
            return None
        return refusal(path, tr(_WRONG_KEY, locale), 401, code="invalid_api_key")


class Names:
    """Names that this server answers to."""

    def __init__(self, settings: Settings, host: str) -> None:
        """`host` is the address that it listens on."""
        self._is_open = not is_this_machine(host)
        of_space = map(str.strip, settings.space_host.split(","))
        self._trusted = {name.lower() for name in (*settings.hosts, *of_space) if name}
        self._origins = {_HUGGING_FACE} if settings.on_spaces else set()
        self._is_space = settings.on_spaces
        self.framing = "frame-ancestors 'self'" + (_PAGES_OF_SPACES if settings.on_spaces else "")
        """Whose pages may show this one within their own, as a content security policy."""
        machine = socket.gethostname().lower()
        self._local = {"localhost", host.lower(), *((machine, f"{machine}.local") if self._is_open else ())}

    def trust(self, name: str) -> None:
        """Adds a name that was not known when the server was started."""
        self._trusted.add(name.lower())

    def refusal(self, host: str | None, origin: str | None) -> Message | None:
        """Why a request with these headers may not pass; None if it may."""
        if not self._is_ours(host):
            return Message(
                "This studio does not answer to the name {host}. If the name is its own, start it with "
                "STUDIO_HOSTS={host}.",
                host=_shortened(host),
            )
        if origin is not None and not self._is_our_page(origin, host or ""):
            return Message(
                "The request comes from a page of {origin}, not from this studio: if that is its own "
                "address, start it with STUDIO_HOSTS set to the name in it.",
                origin=_shortened(origin),
            )
        return None

    def _is_ours(self, host: str | None) -> bool:
        name = _name_in(host or "")
        if name is None or host is None:
            return False
        if name in self._local or self._is_trusted(host.lower(), name):
            return True
        if self._is_space and name.endswith(_SPACES):
            return True
        try:
            number = ipaddress.ip_address(name)
        except ValueError:
            return False
        # Nobody can have a number lead elsewhere, as they can a name.
        return self._is_open or number.is_loopback

    def _is_trusted(self, host: str, name: str) -> bool:
        return name in self._trusted or host in self._trusted

    def _is_our_page(self, origin: str, host: str) -> bool:
        place = origin.lower().partition("://")[2]
        name = _name_in(place)
        if name is None:
            return False
        return place == host.lower() or self._is_trusted(place, name) or name in self._origins


def is_this_machine(host: str) -> bool:
    """Whether who listens on `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name_in(place: str) -> str | None:
    """The name in `name:port`, in small letters; None where there is anything else."""
    found = _PLACE.fullmatch(place.lower())
    return found[1].strip("[]") if found else None


def _shortened(text: str | None) -> str:
    return (text or "–")[:100]


def require_login(settings: Settings, host: str) -> None:
    """Refuses to open the studio to others without a login, unless somebody has said that it is meant so.

    Raises:
        ConfigError: with the ways out.
    """
    if settings.auth or _may_be_open(settings, host):
        return
    raise ConfigError(
        "Whoever reaches {place} could train and read files here: ask for a login with "
        "STUDIO_AUTH=name:password, or set STUDIO_PUBLIC=1 if everybody may.",
        place=Message("the public link") if settings.share else host,
    )


def require_key(settings: Settings, host: str) -> None:
    """The same for the endpoint without the page, for which a key does, too.

    Raises:
        ConfigError: with the ways out.
    """
    if settings.auth or settings.api_key or _may_be_open(replace(settings, share=False), host):
        return
    raise ConfigError(
        "Whoever reaches {place} could transcribe here: ask for a key with STUDIO_API_KEY, or set "
        "STUDIO_PUBLIC=1 if everybody may.",
        place=host,
    )


def _may_be_open(settings: Settings, host: str) -> bool:
    """Whether nobody else comes in, or somebody has said that all may."""
    return settings.on_spaces or settings.is_open or (is_this_machine(host) and not settings.share)
