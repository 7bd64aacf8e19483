"""How a process of ours ends."""

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def needs_packages() -> Iterator[None]:
    """Where a package is not there, the process ends with what to do, and without a traceback."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] == "studio":
            raise
        sys.exit(
            f"Error: {error.name} is not installed for {sys.executable}: activate the studio's environment "
            "(. .venv/bin/activate), or install what it needs (pip install -r requirements.txt)."
        )


def leave(code: int | None = 0) -> NoReturn:
    """Ends this process with an exit code; what is registered for its end is done.

    On its way out, the interpreter would take every library apart: with torch and transformers loaded, more
    than a second. Nobody needs that memory back one by one.
    """
    threading._shutdown()  # type: ignore[attr-defined] # what the interpreter does first: waits for threads
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        sys.exit(code)  # which tells it
    os._exit(code or 0)
