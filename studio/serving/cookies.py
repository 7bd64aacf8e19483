"""Cookies of the page, which on a Space stands within a page of Hugging Face."""

from starlette.requests import HTTPConnection
from starlette.responses import Response


def set_cookie(
    response: Response, name: str, value: str, seconds: float, asked: HTTPConnection, *, is_framed: bool
) -> None:
    """Adds a cookie that scripts cannot read; `is_framed`: the page may be shown within one of another site.

    Browsers keep such a one for each site that shows the page, if it came by https and is partitioned; Python
    knows that word from 3.14 on.
    """
    is_https = "https" in (asked.url.scheme, asked.headers.get("x-forwarded-proto"))
    is_foreign = is_framed and is_https
    response.set_cookie(
        name,
        value,
        max_age=int(seconds),
        httponly=True,
        secure=is_https,
        samesite="none" if is_foreign else "lax",
    )
    if is_foreign:
        key, written = response.raw_headers[-1]
        response.raw_headers[-1] = key, written + b"; Partitioned"
