"""Which language a visitor gets, and how it reaches the browser."""

import gzip
from typing import Any

import pytest

from studio.serving.asgi import choose_locale, locale_of, match_locale
from studio.translation import tr
from studio.ui.shared.i18n import (
    LocaleMiddleware,
    _,
    add_locale,
    page_translations,
)
from tests.event_loop import run_in_loop


@pytest.mark.parametrize(
    ("tag", "locale"),
    [
        *(("en", "en"), ("en-GB", "en"), ("zh", "zh-CN"), ("zh-Hans-SG", "zh-CN")),
        *(("zh-Hant", "zh-TW"), ("zh-HK", "zh-TW"), ("zh-TW", "zh-TW"), ("fr", None), ("", None)),
    ],
)
def test_a_language_tag_finds_the_nearest_locale(tag: str, locale: str | None) -> None:
    assert match_locale(tag) == locale


@pytest.mark.parametrize(
    ("chosen", "header", "locale"),
    [
        ("zh-TW", "en-US,en;q=0.9", "zh-TW"),
        (None, "fr, en;q=0.5, zh-CN;q=0.8", "zh-CN"),
        *(("klingon", header, "en") for header in ("", "fr", "*", "en;q=nonsense")),
    ],
)
def test_the_visitors_choice_comes_first_then_the_browsers_languages_by_weight_and_at_last_english(
    chosen: str | None, header: str, locale: str
) -> None:
    assert choose_locale(chosen, header) == locale


@pytest.mark.parametrize(
    ("of_page", "locale"),
    [("en", "en"), ("zh-TW", "zh-TW"), ("klingon", "zh-CN"), ("", "zh-CN"), (None, "zh-CN")],
)
def test_the_language_of_the_page_that_asks_comes_before_the_choice_that_all_tabs_share(
    of_page: str | None, locale: str
) -> None:
    headers = {"cookie": "studio_locale=zh-CN", "accept-language": "en"}
    assert locale_of(headers | ({} if of_page is None else {"x-studio-locale": of_page})) == locale


def test_fields_are_filled_in_after_translating() -> None:
    assert tr("Fits on {gpu}", "zh-TW", gpu="{T4}") == "{T4} 放得下"


def test_a_text_without_a_translation_stays_english() -> None:
    assert tr("No such text in the page", "zh-CN") == "No such text in the page"


def test_a_marked_text_reaches_the_browser_in_every_language() -> None:
    key = _("Learning rate").key
    tables = page_translations().translations_dict
    shown = [tables[locale][key] for locale in ("en", "zh-CN", "zh-TW")]
    assert shown == ["Learning rate", "学习率", "學習率"]


def test_the_page_tells_the_front_end_its_language() -> None:
    page = add_locale(b'<html lang="en"><head><title>x</title></head></html>', "zh-TW").decode()
    assert page.startswith('<html lang="zh-TW"><head><script>')
    assert page.index('"zh-TW"', 30) < page.index("<title>")


class Site:
    """A tiny page behind the middleware; it knows how often it was made."""

    def __init__(self, content_type: bytes = b"text/html; charset=utf-8", **headers: bytes) -> None:
        self.made = 0
        self.status = 200
        self._headers = [(b"content-type", content_type), *((k.encode(), v) for k, v in headers.items())]
        self._app = LocaleMiddleware(self._page)

    async def _page(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.made += 1
        await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
        await send({"type": "http.response.body", "body": b'<html lang="en"><he', "more_body": True})
        await send({"type": "http.response.body", "body": b"ad></head></html>"})

    def answer(
        self, path: str = "/", *headers: tuple[bytes, bytes], query: bytes = b""
    ) -> tuple[dict[bytes, bytes], bytes]:
        """What a visitor gets."""
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            sent.append({**message})
            message["headers"] = [(b"set-cookie", b"of this visitor")]  # as those who pass it on do

        asked = {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": list(headers),
            "query_string": query,
        }
        run_in_loop(self._app(asked, receive, send))
        return dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])


def test_the_middleware_rewrites_the_page_with_its_length() -> None:
    headers, body = Site().answer("/", (b"cookie", b"a=1; studio_locale=zh-CN"))
    assert b'lang="zh-CN"' in body and headers[b"content-length"] == str(len(body)).encode()


def test_the_page_is_packed_for_a_browser_that_takes_it_so() -> None:
    headers, body = Site(b"text/html").answer("/", (b"accept-encoding", b"br, gzip"))
    assert headers[b"content-encoding"] == b"gzip" and headers[b"content-length"] == str(len(body)).encode()
    assert b'lang="en"' in gzip.decompress(body)


def test_the_middleware_leaves_everything_else_alone() -> None:
    plain = b'<html lang="en"><head></head></html>'
    assert Site().answer("/config")[1] == Site(b"application/json").answer()[1] == plain


def test_the_page_is_made_once_for_all_who_come_to_an_address_in_a_language() -> None:
    site = Site()
    chinese, packed = (b"accept-language", b"zh-TW"), (b"accept-encoding", b"gzip")
    asked = [(), (chinese,), (packed,), (chinese, packed), ((b"host", b"there"),)]
    asked += [((b"x-forwarded-host", b"a.b"),), ((b"x-forwarded-proto", b"https"),)]
    first = [site.answer("/", *headers) for headers in asked]
    assert site.made == len(asked)
    assert [site.answer("/", *headers, query=b"__theme=dark") for headers in asked] == first
    assert site.made == len(asked)


def test_what_is_not_the_page_of_all_is_made_anew() -> None:
    own, broken, site = Site(**{"set-cookie": b"who=me"}), Site(), Site()
    broken.status = 500
    for _time in range(2):
        own.answer()
        broken.answer()
        site.answer("/", query=b"x=1&deep_link=mine")
        site.answer("/", query=b"%64eep_link=mine")
    assert (own.made, broken.made, site.made) == (2, 2, 4)
    site.answer()
    site.answer("/", query=b"deep_link=mine")
    assert site.made == 6, "nor is the page of all given in its place"
    for number in range(100):
        site.answer("/", (b"x-forwarded-host", b"%d" % number))
    assert site.made == 106 and len(site._app._pages) <= 12, "nobody fills the memory with addresses"
