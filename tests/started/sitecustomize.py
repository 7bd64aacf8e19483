"""Read by every Python that a test starts: at SIGUSR2 its threads tell where they are, for `failures.py`."""

import faulthandler
import os
import signal
from pathlib import Path


def listen() -> None:
    folder = Path(os.environ.get("TEST_THREADS_FOLDER", ""))
    if folder.is_absolute() and folder.is_dir():
        faulthandler.register(signal.SIGUSR2, (folder / str(os.getpid())).open("a"))


if hasattr(faulthandler, "register"):
    listen()
    os.register_at_fork(after_in_child=listen)
