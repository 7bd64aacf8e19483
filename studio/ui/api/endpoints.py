"""The interface for programs: plain values in, JSON out, under the names of the command line.

Each function asks what a tab asks; `gradio_client` and plain HTTP see them as `/models`, `/estimate`, ….
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.events import api

from studio.services import Services
from studio.ui.api.arguments import checked, endpoints_of
from studio.ui.api.mcp import documented
from studio.ui.api.memory import MemoryEndpoints
from studio.ui.api.runs import RunEndpoints
from studio.ui.api.transcribe import transcribe_endpoint
from studio.ui.shared.access import without_places
from studio.ui.shared.errors import shows_errors
from studio.ui.shared.visitors import services_for


def build_api(services: Services) -> None:
    """Adds the public endpoints to the page that is being built."""
    kinds: tuple[Callable[[Services], MemoryEndpoints | RunEndpoints], ...] = (MemoryEndpoints, RunEndpoints)
    for kind in kinds:
        for endpoint in endpoints_of(kind(services)):
            answered = documented(shows_errors(_for_visitor(services, kind, endpoint)))
            api(answered, api_name=endpoint.__name__, concurrency_limit=4)
    transcribe_endpoint(services)


def _for_visitor(
    services: Services,
    kind: Callable[[Services], MemoryEndpoints | RunEndpoints],
    endpoint: Callable[..., Any],
) -> Callable[..., Any]:
    """The endpoint over the services as whoever asks may use them; Gradio says behind its arguments who."""

    @functools.wraps(endpoint)
    def answered(*args: Any) -> Any:
        """What the endpoint answers this visitor."""
        *values, request = args
        own = services_for(services, request)
        answer = checked(getattr(kind(own), endpoint.__name__))(*values)
        return without_places(answer) if own.settings.is_public else answer

    asks = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)
    plain = inspect.signature(endpoint)
    if plain.parameters:
        asks = asks.replace(default=None)
    answered.__signature__ = plain.replace(parameters=[*plain.parameters.values(), asks])  # type: ignore[attr-defined]
    answered.__annotations__ = {**endpoint.__annotations__, "request": gr.Request}
    return answered
