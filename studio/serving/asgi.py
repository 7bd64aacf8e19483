"""The types of ASGI, and what is read of a request wherever it comes: its language, and who asks."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.requests import cookie_parser

from studio.translation import DEFAULT_LOCALE, LOCALES

AsgiMessage = MutableMapping[str, Any]
Send = Callable[[AsgiMessage], Awaitable[None]]
Receive = Callable[[], Awaitable[AsgiMessage]]
AsgiApp = Callable[[AsgiMessage, Receive, Send], Awaitable[None]]

COOKIE = "studio_locale"
OF_PAGE = "x-studio-locale"
"""The header in which a page says what language it was drawn in (`assets/page_language.js`)."""

_TRADITIONAL = ("zh-tw", "zh-hk", "zh-mo", "zh-hant")


def match_locale(wanted: str) -> str | None:
    """`zh-Hant-HK` → `zh-TW`, `en-GB` → `en`; None for a language that the page does not speak."""
    tag = wanted.strip().lower()
    language = tag.split("-")[0]
    if language == "zh":
        return "zh-TW" if tag.startswith(_TRADITIONAL) else "zh-CN"
    return next((locale for locale in LOCALES if locale.lower().split("-")[0] == language), None)


def choose_locale(cookie: str | None, accept_language: str) -> str:
    """The language to answer in: the visitor's choice, else the first of the browser's that we have."""
    if cookie in LOCALES:
        return str(cookie)
    weighted = []
    for part in accept_language.split(","):
        tag, _semicolon, quality = part.partition(";q=")
        try:
            weighted.append((-float(quality or 1), match_locale(tag)))
        except ValueError:
            continue
    ordered = [locale for _weight, locale in sorted(weighted, key=lambda pair: pair[0]) if locale]
    return ordered[0] if ordered else DEFAULT_LOCALE


def locale_of(headers: Mapping[str, str]) -> str:
    """Language of a request with these headers, whose names are in small letters or found in any.

    That of the page that asks comes first: the cookie is of all tabs, and may have changed in another.
    """
    if (of_page := headers.get(OF_PAGE)) in LOCALES:
        return str(of_page)
    cookies = cookie_parser(headers.get("cookie", ""))
    return choose_locale(cookies.get(COOKIE), headers.get("accept-language", ""))


def visitor_of(request: Any, session: str | None) -> str:
    """Who asks: the address that a proxy names, or that of the connection; on this machine, the page."""
    forwarded = request.headers.get("x-forwarded-for", "").split(",")[0].strip() if request else ""
    address = forwarded or (request.client.host if request and request.client else "")
    return str(session) if address in ("", "127.0.0.1", "::1") else address
