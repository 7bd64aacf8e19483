"""`app`: opens the page, as `python app.py` does."""

import dataclasses
from collections.abc import Sequence

from studio.cli.parsing import Parser
from studio.serving.ports import require_free_port
from studio.settings import Settings


def parser() -> Parser:
    """Where to listen; everything else is steered by STUDIO_* and Gradio's GRADIO_* variables."""
    made = Parser("app", "Open the page. The GRADIO_* variables of Gradio are honoured, too.")
    made.option("host", "Address to listen on (GRADIO_SERVER_NAME).", aliases=("server_name",))
    made.option("port", "Port to listen on (GRADIO_SERVER_PORT).", aliases=("server_port",), kind=int)
    made.flag("open_browser", "Show the page in the browser once it is up.", aliases=("inbrowser",))
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Serves the page until Ctrl-C; 2 if the port is taken."""
    given = parser().read(arguments)
    asked = dataclasses.replace(
        settings,
        server_name=given.host or settings.server_name,
        server_port=settings.server_port if given.port is None else given.port,
    )
    if asked.server_port is not None:
        require_free_port(asked.host, asked.server_port)
    from studio.ui.serve import serve  # brings Gradio, which no other command needs

    return serve(asked, open_browser=given.open_browser)
