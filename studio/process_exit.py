"""How a process of ours ends."""

import atexit
import os
import sys
import threading
from typing import NoReturn


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
