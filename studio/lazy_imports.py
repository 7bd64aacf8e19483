"""transformers, for threads that need it at the same moment."""

import importlib
import sys
import threading
from typing import Any

_LOCK = threading.Lock()


def transformers_library() -> Any:
    """The module `transformers`, imported by one thread while the others wait.

    At the end of its import, transformers puts another object in its place in `sys.modules`. A thread that
    says `import transformers` meanwhile waits for the end and then gets the first one, which has no classes.
    """
    with _LOCK:
        importlib.import_module("transformers")
        return sys.modules["transformers"]
