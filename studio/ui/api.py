"""The interface for programs: plain values in, JSON out, under the names of the command line.

Each function asks what a tab asks; `gradio_client` and plain HTTP see them as `/models`, `/estimate`, ….
"""

from gradio.events import api

from studio.services import Services
from studio.ui.api_memory import MemoryEndpoints
from studio.ui.api_runs import RunEndpoints
from studio.ui.errors import shows_errors
from studio.ui.mcp import documented
from studio.ui.transcribe_api import transcribe_endpoint


def build_api(services: Services) -> None:
    """Adds the public endpoints to the page that is being built."""
    for endpoint in (*MemoryEndpoints(services).all(), *RunEndpoints(services).all()):
        api(documented(shows_errors(endpoint)), api_name=endpoint.__name__, concurrency_limit=4)
    transcribe_endpoint(services)
