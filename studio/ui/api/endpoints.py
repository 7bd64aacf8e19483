"""The interface for programs: plain values in, JSON out, under the names of the command line.

Each function asks what a tab asks; `gradio_client` and plain HTTP see them as `/models`, `/estimate`, ….
"""

import functools
from collections.abc import Callable
from typing import Any

from gradio.events import api

from studio.services import Services
from studio.ui.api.arguments import checked
from studio.ui.api.mcp import documented
from studio.ui.api.memory import MemoryEndpoints
from studio.ui.api.runs import RunEndpoints
from studio.ui.api.transcribe import transcribe_endpoint
from studio.ui.shared.access import without_places
from studio.ui.shared.errors import shows_errors


def build_api(services: Services) -> None:
    """Adds the public endpoints to the page that is being built."""
    for endpoint in (*MemoryEndpoints(services).all(), *RunEndpoints(services).all()):
        answered = _for_strangers(endpoint) if services.settings.is_public else endpoint
        api(documented(shows_errors(checked(answered))), api_name=endpoint.__name__, concurrency_limit=4)
    transcribe_endpoint(services)


def _for_strangers(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    def answered(*args: Any, **kwargs: Any) -> Any:
        return without_places(endpoint(*args, **kwargs))

    return answered
