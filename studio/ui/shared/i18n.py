"""The page in the visitor's language; see `studio.translation`.

Two ways a text reaches the visitor:

- text that stands on the page from the start (labels, buttons, hints) is marked with `_`; its translation is
  put in as the page is sent (`light_page.py`), because Gradio makes the same one for all visitors,
- text that depends on what happened (errors, tables, charts) is translated on the server with `tr`,
  in the language of the request.

Both sides agree because `LocaleMiddleware` tells the page which language the server has decided on, and the
page says it again with whatever it asks.
"""

import gzip
import hashlib
import json
from http import HTTPStatus
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.i18n import I18nData
from starlette.datastructures import Headers, QueryParams

from studio.messages import Message
from studio.serving.asgi import OF_PAGE, AsgiApp, AsgiMessage, Receive, Send, locale_of
from studio.translation import DEFAULT_LOCALE, LOCALES, N_, tr
from studio.ui.shared.light_page import lightened

GRADIO_NAMES = (
    N_("Adjust playback speed to {number}x"),
    N_("Adjust volume"),
    N_("Choose a file"),
    N_("Clear"),
    N_("Click to upload or drop files"),
    N_("Collapse"),
    N_("Copy"),
    N_("Download"),
    N_("Empty value"),
    N_("File upload"),
    N_("Gradio footer navigation"),
    N_("Line number {number}"),
    N_("More tabs"),
    N_("Record audio"),
    N_("Remove this file"),
    N_("Reset audio"),
    N_("Select input device"),
    N_("Skip backwards by {number} seconds"),
    N_("Skip forward by {number} seconds"),
    N_("Stop Recording"),
    N_("Trim audio to selection"),
    N_("Upload file"),
    N_("Uploaded files"),
    N_("undo"),
)
"""What Gradio calls its own buttons and fields, in English alone."""

_marked: dict[str, tuple[str, dict[str, Any]]] = {}
"""Key → English text, and what goes into its braces."""


def _(text: str, **values: Any) -> I18nData:
    """Marks an English text that stands on the page from the start, to be translated in the browser."""
    of_values = json.dumps(values) if values else ""
    key = "s_" + hashlib.sha1((text + of_values).encode(), usedforsecurity=False).hexdigest()[:10]
    _marked[key] = text, values
    return I18nData(key)


def label_of(field: Block) -> Message | str:
    """What stands over a field of the page."""
    label = getattr(field, "label", "")
    if not isinstance(label, I18nData):
        return str(label)
    text, values = _marked[label.key]
    return Message(text, **values)


def page_translations() -> gr.I18n:
    """What the browser needs to translate every text marked so far; call it once the page is built."""
    tables = {
        locale: {key: tr(text, locale, **values) for key, (text, values) in _marked.items()}
        for locale in LOCALES
    }
    return gr.I18n(**tables)


def request_locale(request: gr.Request | None) -> str:
    """Language of a request; English for a call that came without one."""
    if request is None or not hasattr(request, "headers"):
        return DEFAULT_LOCALE
    return locale_of(request.headers)


class LocaleMiddleware:
    """Puts the language decided on into the page, before Gradio's scripts ask the browser for it.

    Gradio makes the page anew for each visitor, a quarter of a second of the processor, though it is the same
    for all who came to the same address: what was sent once is kept.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._pages: dict[tuple[object, ...], list[AsgiMessage]] = {}

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Changes the answer to `GET /`; everything else passes through."""
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) not in ("", "/"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        packs, locale = "gzip" in headers.get("accept-encoding", ""), locale_of(headers)
        address = tuple(pair for pair in headers.items() if pair[0].startswith(_ADDRESS))
        wanted = (*(str(scope.get(name)) for name in _DECIDES), *address, locale, packs)
        is_for_all = _OTHER_PAGES.isdisjoint(QueryParams(scope.get("query_string", b"")))
        page = self._pages.get(wanted) if is_for_all else None
        if page:
            for message in page:
                await send({**message})  # who passes it on adds headers to it
            return
        # The page has to arrive as text to be changed.
        others = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
        rewriter = _PageRewriter(send, locale, packs=packs)
        await self._app({**scope, "headers": others}, receive, rewriter.send)
        if rewriter.page and is_for_all:
            if len(self._pages) >= _MOST_PAGES:
                self._pages.clear()
            self._pages[wanted] = rewriter.page


_DECIDES = ("method", "scheme", "server", "path", "root_path")
_ADDRESS = ("host", "x-forwarded-", "x-gradio-server")
"""Headers of which Gradio makes the address that the page asks."""
_OTHER_PAGES = {"page", "deep_link"}
"""Gradio's names, in a query, of what is not the page that everybody sees."""
_MOST_PAGES = 12


class _PageRewriter:
    """Holds back an HTML answer until it is whole, then sends it in its language and, if asked, packed."""

    def __init__(self, send: Send, locale: str, *, packs: bool) -> None:
        self.page: list[AsgiMessage] = []
        """What was sent, if others may see it, too."""
        self._send = send
        self._locale = locale
        self._packs = packs
        self._start: AsgiMessage | None = None
        self._body = b""

    async def send(self, message: AsgiMessage) -> None:
        """Takes the place of the server's `send`."""
        if message["type"] == "http.response.start" and _is_html(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_page(self._start)

    async def _send_page(self, start: AsgiMessage) -> None:
        body = add_locale(lightened(self._body, self._locale), self._locale)
        headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        if self._packs:
            body = gzip.compress(body)
            headers.append((b"content-encoding", b"gzip"))
        headers += [
            (b"content-length", str(len(body)).encode()),
            (b"vary", f"Cookie, Accept-Language, Accept-Encoding, {OF_PAGE}".encode()),
        ]
        sent: list[AsgiMessage] = [
            {**start, "headers": headers},
            {"type": "http.response.body", "body": body},
        ]
        for message in sent:
            await self._send({**message})
        is_for_all = all(name.lower() != b"set-cookie" for name, _value in headers)
        self.page = sent if start["status"] == HTTPStatus.OK and is_for_all else []


def _is_html(start: AsgiMessage) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in start["headers"]
    )


def add_locale(page: bytes, locale: str) -> bytes:
    """The page with its `lang` set and a script that tells Gradio's front end the language."""
    names = {name: tr(name, locale) for name in GRADIO_NAMES}
    names["common.upload"] = names["Upload file"]  # Gradio shows this key: it has no text for it
    script = (
        "<script>for (const [name, value] of Object.entries("
        f"{{language: {json.dumps(locale)}, languages: [{json.dumps(locale)}]}}))"
        "Object.defineProperty(navigator, name, {get: () => value, configurable: true});"
        f"window.gradioNames = {json.dumps(names)};"
        "addEventListener('beforeunload', () => window.comeBack?.leave());"  # before Gradio's own
        "</script>"
    )
    page = page.replace(b'lang="en"', f'lang="{locale}"'.encode(), 1)
    return page.replace(b"<head>", b"<head>" + script.encode(), 1)
