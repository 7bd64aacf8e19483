"""`serve`: OpenAI's endpoint for speech, without the page."""

from collections.abc import Sequence
from pathlib import Path

from studio.cli.output import say, show
from studio.cli.parsing import Parser
from studio.registry.spec import ModelSpec
from studio.registry.store import DEMO_ID
from studio.services import Services
from studio.serving.commands import ways_to_serve
from studio.settings import Settings


def parser() -> Parser:
    """Where to listen, and with which model; everything else is steered by STUDIO_* variables."""
    made = Parser(
        "serve",
        "Answer OpenAI's /v1/audio/transcriptions, /v1/audio/translations and /v1/models. Each request may "
        "name any model; STUDIO_API_KEY is the key that is asked for.",
    )
    made.option("host", "Address to listen on (GRADIO_SERVER_NAME; default: this machine only).")
    made.option("port", "Port to listen on (GRADIO_SERVER_PORT; default: 8000).", kind=int)
    made.option(
        "model",
        "Registry id: what is served as whisper-1, and to whoever names no model.",
        aliases=("model_path",),
        default=DEMO_ID,
    )
    made.flag("print", "Print the commands that serve the model, here and with vLLM and speaches, and end.")
    return made


def run(arguments: Sequence[str], settings: Settings) -> int:
    """Serves until Ctrl-C; 2 if the port is taken."""
    from studio.serving.server import (  # brings a server, which no other command needs
        PORT,
        require_served,
        serve_endpoint,
    )

    given = parser().read(arguments)
    if given.print:
        with Services.open(settings) as services:
            spec = require_served(services, given.model)
            show(serving_script(spec, services.registry.models, settings))
        return 0
    host = given.host or settings.host
    port = settings.server_port or PORT if given.port is None else given.port
    return serve_endpoint(settings, host, port, given.model, on_ready=say)


def serving_script(spec: ModelSpec, models: Path, settings: Settings) -> str:
    """How a model is served, as a script: a server and which form it takes, then its commands."""
    ways = ways_to_serve(spec, models, has_key=bool(settings.api_key))
    return "\n".join("\n".join((f"# {way.server}: {way.note}", *way.commands)) for way in ways)
