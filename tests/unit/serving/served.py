"""The endpoint behind its gate, in a thread of the tests; and engines that wait to be let go on."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import openai
import uvicorn

from studio.services import Services
from studio.serving.gate import Names
from studio.serving.server import endpoint_app
from studio.serving.uploads import Uploads
from studio.serving.waiting import AT_ONCE, Line
from studio.settings import Settings
from studio.transcription.engine import Progress, TranscribeOptions, Transcript
from studio.transcription.model_cache import ModelCache

PATIENCE_SECONDS = 60.0


@dataclass
class HeldEngines:
    """Real engines, which after the first report go on only when a test says so."""

    engines: ModelCache
    goes_on: Callable[[Callable[[], bool]], bool]
    """Given what tells whether the work should stop: whether it may go on."""
    begun: list[TranscribeOptions] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    done_seconds: float = 0.0

    def transcribe(self, model: str, path: Path, options: TranscribeOptions, *told: Any) -> Transcript:
        """As the engines do."""
        report, should_stop = told
        self.begun.append(options)

        def held(progress: Progress) -> None:
            self.done_seconds = progress.done_seconds
            report(progress)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not self.goes_on(should_stop) and time.monotonic() < deadline:
                time.sleep(0.01)

        heard = self.engines.transcribe(model, path, options, held, should_stop)
        if should_stop():
            self.stopped.set()
        return heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engines, name)


@dataclass(frozen=True)
class ServedEndpoint:
    """Where it is, and what it is made of."""

    url: str
    services: Services
    uploads: Uploads
    line: Line

    def client(self, key: str = "any key") -> openai.OpenAI:
        """A client that asks once."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS)


@contextmanager
def served_endpoint(
    settings: Settings,
    engines: Callable[[ModelCache], Any] = lambda engines: engines,
    model: str = "demo",
) -> Iterator[ServedEndpoint]:
    """The endpoint over a home, on a free port; `engines` may put something before those that it has;
    `model` is what it was started with."""
    services, uploads = Services.open(settings), Uploads(settings)
    asked = replace(services, engines=engines(services.engines))
    # By its protocol's number asyncio knows that small answers may not wait for each other.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    app = endpoint_app(asked, Names(settings, "127.0.0.1"), uploads, model, line := Line(AT_ONCE))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield ServedEndpoint(f"http://127.0.0.1:{listener.getsockname()[1]}", asked, uploads, line)
    finally:
        server.should_exit = True
        thread.join()
        services.close()
        uploads.close()
