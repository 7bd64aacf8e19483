"""Starts the page and keeps it up until it is told to end."""

import signal
import threading
from urllib.parse import urlsplit

from studio.lazy_imports import collect_as_usual
from studio.runs.manager import MOST_LISTED
from studio.services import Services
from studio.serving.gate import Names, require_login
from studio.serving.server import load_heavy_libraries, return_freed_memory
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.serving.work import end_process
from studio.settings import Settings, ask_directly
from studio.ui.api.mcp import (
    answer_for_addresses,
    answer_in_json,
    keep_files_in,
    log_in,
    name_arguments,
    require_mcp,
)
from studio.ui.build import build_app, launch_options
from studio.ui.fair_queue import make_fair
from studio.ui.light_sessions import make_light
from studio.ui.zero_gpu import open_services

_WARM_UP_DELAY_SECONDS = 3.0
_TIDIES_EVERY_SECONDS = 20.0
_LAST_SECONDS = 1.0
"""Whoever is answered when the studio is told to end has so long; what is computed then, so long again."""


def serve(settings: Settings, *, open_browser: bool = False) -> int:
    """Serves the page until SIGINT or SIGTERM, then leaves; runs in progress go on without it.

    Raises:
        ConfigError: if MCP is asked for without its package, or others could come in without a login and
            nobody has said that they may.
        StorageError: if the studio's folder cannot be written.
    """
    host = settings.host
    require_login(settings, host)
    ask_directly("localhost", "127.0.0.1", host)
    if settings.mcp:
        require_mcp()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    services, uploads = open_services(settings), Uploads(settings)
    line = Line(AT_ONCE)
    app, names = build_app(services, line), Names(settings, host)
    make_fair(app)
    make_light(app)
    answer_for_addresses(are_fetched=not (settings.on_spaces or settings.is_open))
    services.jobs.start()
    try:
        app.launch(
            server_name=host,
            server_port=settings.server_port,
            inbrowser=open_browser,
            prevent_thread_lock=True,
            **launch_options(services, names, uploads, line),
        )
        if app.share_url:
            names.trust(str(urlsplit(app.share_url).hostname))
        if app.mcp_server_obj is not None:
            answer_in_json(app.mcp_server_obj)
            keep_files_in(uploads.folder)
            name_arguments(app.mcp_server_obj)
            if settings.auth:
                log_in(app.mcp_server_obj, settings.auth)
        collect_as_usual()
        warm_up = threading.Timer(_WARM_UP_DELAY_SECONDS, _warm_up, (services,))
        warm_up.daemon = True
        warm_up.start()
        while not stop.wait(_TIDIES_EVERY_SECONDS):
            return_freed_memory()
            uploads.sweep()
        warm_up.cancel()
    finally:
        line.close(_LAST_SECONDS)
        app.close(verbose=False)
        services.close()
        uploads.close()
    return end_process(0, _LAST_SECONDS)


def _warm_up(services: Services) -> None:
    """What the first visitor would wait for: thousands of runs and models are listed, libraries loaded."""
    services.jobs.runs(MOST_LISTED)
    services.registry.all()
    load_heavy_libraries()
