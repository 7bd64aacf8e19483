"""The login of a studio that is open to others: the page that asks for it, and the cookie that it leaves.

The cookie says who it is and until when, and is signed; programs may send name and password with each request
instead, as `curl -u name:password` does.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from studio.files import storage_errors, write_text
from studio.reports.markup import Html, tag
from studio.serving.cookies import set_cookie
from studio.translation import tr

LOGIN, LOGOUT = "/login", "/logout"
COOKIE = "studio_login"
KEY_FILE = "login.key"
"""In the home: what logins are signed with, so that they outlive a restarted studio."""
_KEY_BYTES = 32
_LOGIN_SECONDS = 30 * 24 * 3600.0
_MOST_BYTES = 4096
"""Of a form with name and password."""
_WRONG_SECONDS = 1.0
"""Whoever gives a wrong password waits so long for the answer."""


class Login:
    """Who may come in, and their cookies; a cookie says who it is and until when, and is signed."""

    def __init__(self, users: Mapping[str, str], key: bytes, is_framed: bool) -> None:
        """`users`: name → password; `is_framed`: whether the page is shown within one of another site."""
        self._users = users
        self._key = key
        self._is_framed = is_framed

    def admits(self, headers: Headers) -> bool:
        """Whether a request brings a login: the page's cookie, or HTTP's own (`curl -u name:password`)."""
        kind, _space, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            return self._knows(*_unpacked(given))
        return self._has_signed(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""))

    async def answer(self, request: Request, path: str, locale: str) -> Response | None:
        """The page that asks for name and password, what follows from them, or the end of a login."""
        away = f"{request.scope.get('root_path', '')}/"
        if path == LOGOUT:
            out = RedirectResponse(away, 303)
            out.delete_cookie(COOKIE)
            return out
        theme = request.query_params.get("__theme", "")
        if request.method != "POST":
            return HTMLResponse(login_page(locale, theme))
        body = b""
        # Whoever asks is not let in yet: a little of what they send is read, and no more.
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BYTES:
                return PlainTextResponse(tr("Name or password is wrong.", locale), 413)
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        name, password = form.get("username", ""), form.get("password", "")
        wants_page = "text/html" in request.headers.get("accept", "")
        if not self._knows(name, password):
            await asyncio.sleep(_WRONG_SECONDS)
            told = tr("Name or password is wrong.", locale)
            again = login_page(locale, theme, told, name)
            return HTMLResponse(again, 401) if wants_page else PlainTextResponse(told, 401)
        if request.url.query:  # what a link filled in
            away += f"?{request.url.query}"
        made: Response = RedirectResponse(away, 303) if wants_page else JSONResponse({"success": True})
        signed = self._signed(name, time.time() + _LOGIN_SECONDS)
        set_cookie(made, COOKIE, signed, _LOGIN_SECONDS, request, is_framed=self._is_framed)
        return made

    def _knows(self, name: str, password: str) -> bool:
        known = self._users.get(name, "")
        return hmac.compare_digest(known.encode(), password.encode()) and bool(known)

    def _signed(self, name: str, until: float) -> str:
        text = base64.urlsafe_b64encode(f"{until:.0f}:{name}".encode()).decode().rstrip("=")
        return f"{text}.{self._signature(text, name)}"

    def _has_signed(self, cookie: str) -> bool:
        text, _dot, signature = cookie.partition(".")
        until, name = _unpacked(text)
        if name not in self._users or not until.isdecimal() or float(until) < time.time():
            return False
        return hmac.compare_digest(self._signature(text, name).encode(), signature.encode())

    def _signature(self, text: str, name: str) -> str:
        """With the password in it: who changes one ends its logins."""
        signed = f"{text}\n{self._users[name]}".encode()
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest()


def _unpacked(text: str) -> tuple[str, str]:
    """What stands before and after the first colon of base64; empty where it is none."""
    try:
        padded = text + "=" * (-len(text) % 4)
        before, _colon, after = base64.b64decode(padded, altchars=b"-_").decode().partition(":")
    except ValueError:
        return "", ""
    return before, after


def login_key(home: Path) -> bytes:
    """What logins are signed with: made once, and readable by the owner of the home alone.

    Raises:
        StorageError: if it cannot be written.
    """
    path = home / KEY_FILE
    with storage_errors(home):
        home.mkdir(parents=True, exist_ok=True)
        if not path.is_file():
            write_text(path, secrets.token_hex(_KEY_BYTES))
        return bytes.fromhex(path.read_text("ascii"))


_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { display: grid; place-items: center; min-height: 90vh; margin: 0; }
form { display: grid; gap: 0.75rem; width: min(20rem, 90vw); }
input, button { font: inherit; padding: 0.6rem; width: 100%; box-sizing: border-box; border-radius: 6px; }
input { border: 1px solid GrayText; margin-top: 0.25rem; }
button { border: 0; background: #0f7e70; color: white; cursor: pointer; }
h1 { font-size: 1.4rem; margin: 0; }
[role="alert"] { border-left: 4px solid #c2413b; padding-left: 0.6rem; }
"""


def login_page(locale: str, theme: str = "", wrong: str = "", name: str = "") -> str:
    """Asks for name and password; `wrong` says why it asks again, with the name that was given.

    `theme` is that of the page which follows, `light` or `dark`; otherwise the browser's.
    """

    def field(label: str, called: str, kind: str, **more: object) -> Html:
        """A labelled input."""
        kept = _AUTOCOMPLETE[called]
        typed = tag("input", name_=called, type=kind, required=True, autocomplete=kept, **more)
        return tag("label", label, typed)

    form = tag(
        "form",
        tag("h1", "Whisper Studio"),
        tag("div", wrong, role="alert") if wrong else None,
        field(tr("Name", locale), "username", "text", value=name),
        field(tr("Password", locale), "password", "password", autofocus=bool(name)),
        tag("button", tr("Log in", locale), type="submit"),
        method="post",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width"),
        tag("title", tr("Log in", locale)),
        tag("style", Html(_STYLE)),
    )
    style = f"color-scheme: {theme}" if theme in ("light", "dark") else None
    return "<!doctype html>" + tag("html", head, tag("body", tag("main", form)), lang=locale, style=style)


_AUTOCOMPLETE = {"username": "username", "password": "current-password"}
