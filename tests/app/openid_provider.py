"""Hugging Face's side of a login (OpenID Connect), played on this machine."""

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from tests.studio_process import free_port


class Provider:
    """Lets everybody in as `username`, and tells that only to who has the secret and the code."""

    def __init__(self, client: str, secret: str) -> None:
        self.username = ""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._key = RSAKey.generate_key(2048, {"kid": "key", "use": "sig"})
        self._client = client
        self._basic = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
        self._asked: dict[str, dict[str, str]] = {}

    def app(self) -> Starlette:
        """What answers."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._about),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def _about(self, _: Request) -> JSONResponse:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return JSONResponse({"issuer": self.url, **{name: f"{self.url}/{to}" for name, to in places.items()}})

    def _keys(self, _: Request) -> JSONResponse:
        return JSONResponse({"keys": [self._key.as_dict(private=False)]})

    def _authorize(self, request: Request) -> RedirectResponse:
        question = dict(request.query_params)
        code = f"code-{len(self._asked)}"
        self._asked[code] = question
        back = question["redirect_uri"]
        answer = urlencode({"code": code, "state": question["state"]})
        return RedirectResponse(f"{back}{'&' if '?' in back else '?'}{answer}")

    async def _token(self, request: Request) -> JSONResponse:
        form = dict(parse_qsl((await request.body()).decode()))
        question: dict[str, str] = self._asked.pop(form.get("code", ""), {})
        is_right = question and form.get("redirect_uri") == question["redirect_uri"]
        if not is_right or request.headers.get("authorization") != self._basic:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        who = {
            "sub": self.username,
            "preferred_username": self.username,
            "name": "",
            "picture": "",
            "profile": "",
        }
        claims: dict[str, Any] = {**who, "iss": self.url, "aud": self._client, "iat": now, "exp": now + 600}
        signed = jwt.encode({"alg": "RS256", "kid": "key"}, {**claims, "nonce": question["nonce"]}, self._key)
        return JSONResponse(
            {"access_token": "token", "token_type": "bearer", "expires_in": 600, "id_token": signed}
        )


@contextmanager
def playing(provider: Provider) -> Iterator[Provider]:
    """It answers meanwhile."""
    server = uvicorn.Server(uvicorn.Config(provider.app(), port=provider.port, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.should_exit = True
        thread.join()
