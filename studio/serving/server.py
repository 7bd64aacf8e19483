"""Serves the endpoint alone, without the page; and what the processes of both do beside serving."""

import ctypes
import signal
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from studio.errors import ConfigError
from studio.lazy_imports import peft_library
from studio.registry.spec import ModelSpec, require_whole
from studio.services import Services
from studio.serving.endpoint import Endpoint
from studio.serving.gate import Gate, Names, require_key
from studio.serving.login import Login, login_key
from studio.serving.ports import why_taken
from studio.serving.uploads import UploadLimit, Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.serving.work import end_process
from studio.settings import Settings
from studio.transcription.engine import EngineChoice
from studio.transcription.loading import engine_of

PORT = 8000
"""Unless told: where other servers of models listen, too."""
_LAST_SECONDS = 1
"""What is being heard when the server is told to end may take so long; then it is refused."""
_REFUSED_SECONDS = 3
"""So long for the refusals to be sent."""
_WORK_SECONDS = 0.5
"""So long for what is being computed to see that nobody waits for it."""
_RETURNS_MEMORY_EVERY_SECONDS = 20.0


def serve_endpoint(
    settings: Settings, host: str, port: int, model: str, on_ready: Callable[[str], None]
) -> int:
    """Serves `/v1` until SIGINT or SIGTERM; `on_ready` is told where.

    Raises:
        ConfigError: if the port is taken, or others could come in without a key and nobody has said that they
            may.
        ModelError: if there is no such model, or it cannot be used.
        StorageError: if the studio's folder cannot be written.
    """
    require_key(settings, host)
    if (reason := why_taken(host, port)) is not None:
        raise ConfigError(
            "Port {port} on {host} cannot be used ({reason}): give a free one with --port.",
            port=port,
            host=host,
            reason=reason,
        )
    services = Services.open(settings)
    uploads = Uploads(settings)
    ended = threading.Event()
    try:
        served = require_served(services, model).id
        line = Line(AT_ONCE)
        app = endpoint_app(services, Names(settings, host), uploads, served, line)
        last = _LAST_SECONDS + _REFUSED_SECONDS
        config = uvicorn.Config(
            app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=last
        )
        server = _Server(config, line)
        for number in (signal.SIGINT, signal.SIGTERM):
            # The server has handlers of its own while it runs, and hands the signal on to these at its end.
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        for work in (load_heavy_libraries, lambda: _return_memory_until(ended)):
            threading.Thread(target=work, daemon=True).start()
        at = f"[{host}]" if ":" in host else host
        on_ready(f"Serving {served} at http://{at}:{port}/v1")
        server.run()
    finally:
        ended.set()
        services.close()
        uploads.close()
    return end_process(0, _WORK_SECONDS)


def require_served(services: Services, model: str) -> ModelSpec:
    """The model of that name, which can be served.

    Raises:
        ModelNotFoundError, ModelBrokenError: if there is no such model, or it cannot be used.
        ConfigError: if it is for another program.
    """
    spec = services.registry.get(model)
    require_whole(spec)
    engine_of(spec, EngineChoice())
    return spec


class _Server(uvicorn.Server):
    """Tells those who wait that it is being stopped, instead of breaking their connection."""

    def __init__(self, config: uvicorn.Config, line: Line) -> None:
        super().__init__(config)
        self._line = line

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._line.close(_LAST_SECONDS)
        await super().shutdown(sockets)


def endpoint_app(services: Services, names: Names, uploads: Uploads, model: str, line: Line) -> Starlette:
    """The endpoint behind its gate; requests come to one of `names` and wait in `line`."""
    settings = services.settings
    login = Login(settings.auth, login_key(settings.home), settings.on_spaces) if settings.auth else None
    return Starlette(
        routes=Endpoint(services, uploads, line, model).routes(),
        middleware=[Middleware(Gate, names, login, settings.api_key), Middleware(UploadLimit, uploads)],
    )


def _return_memory_until(ended: threading.Event) -> None:
    while not ended.wait(_RETURNS_MEMORY_EVERY_SECONDS):
        return_freed_memory()


def return_freed_memory() -> None:
    """Gives the system what is free: glibc keeps pieces between those in use, more of them with each request
    of many at once. Elsewhere nothing happens.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def load_heavy_libraries() -> None:
    """Imports what the first transcription needs, so that it does not wait for that."""
    peft_library()
    import torch  # noqa: F401
