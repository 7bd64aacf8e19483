"""Which language a visitor gets, and how it reaches the browser."""

import gzip
from typing import Any

import pytest

from studio.serving.asgi import choose_locale, match_locale
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


def answer(
    path: str, headers: list[tuple[bytes, bytes]], content_type: bytes
) -> tuple[dict[str, Any], bytes]:
    """What a visitor gets from a tiny page behind the middleware."""
    sent: list[Any] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        kind = [(b"content-type", content_type)]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b'<html lang="en"><he', "more_body": True})
        await send({"type": "http.response.body", "body": b"ad></head></html>"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "headers": headers}
    run_in_loop(LocaleMiddleware(page)(scope, receive, send))
    return dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])


def test_the_middleware_rewrites_the_page_with_its_length() -> None:
    headers, body = answer("/", [(b"cookie", b"a=1; studio_locale=zh-CN")], b"text/html; charset=utf-8")
    assert b'lang="zh-CN"' in body and headers[b"content-length"] == str(len(body)).encode()


def test_the_page_is_packed_for_a_browser_that_takes_it_so() -> None:
    headers, body = answer("/", [(b"accept-encoding", b"br, gzip")], b"text/html")
    assert headers[b"content-encoding"] == b"gzip" and headers[b"content-length"] == str(len(body)).encode()
    assert b'lang="en"' in gzip.decompress(body)


def test_the_middleware_leaves_everything_else_alone() -> None:
    for path, kind in (("/config", b"text/html"), ("/", b"application/json")):
        assert answer(path, [], kind)[1] == b'<html lang="en"><head></head></html>'
