"""What is not answered, and why: as one sentence, in OpenAI's own shape where its endpoint was asked."""

from starlette.responses import JSONResponse, PlainTextResponse, Response

from studio.translation import N_

ENDPOINT = "/v1"
"""Where OpenAI's routes begin."""
BUG = N_("Something went wrong that should not: the log of the studio says what.")
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def is_endpoint(path: str) -> bool:
    """Whether OpenAI's endpoint was asked."""
    return path == ENDPOINT or path.startswith(f"{ENDPOINT}/")


def refusal(
    path: str, message: str, status: int, *, param: str | None = None, code: str | None = None
) -> Response:
    """Refuses a request for `path`."""
    if is_endpoint(path):
        return openai_error(message, status, param=param, code=code)
    return PlainTextResponse(message, status)


def openai_error(
    message: str, status: int, *, param: str | None = None, code: str | None = None
) -> JSONResponse:
    """An error as clients of OpenAI read it; `param` is the field of the form that it is about."""
    return JSONResponse(error_body(message, status, param=param, code=code), status)


def error_body(
    message: str, status: int, *, param: str | None = None, code: str | None = None
) -> dict[str, dict[str, str | None]]:
    """The JSON of such an error."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
