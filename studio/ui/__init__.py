"""The page. Gradio is imported only here, and first of all by this file."""

import inspect
from typing import Any

from studio.lazy_imports import patched

_FILE_OF = inspect.getfile


def _no_file_of_components(what: Any) -> str:
    """At its import, Gradio parses the source of each of its components, a third of its time, to write an
    interface for editors; it passes over what has no file."""
    if isinstance(what, type) and what.__module__.startswith("gradio."):
        raise OSError
    return _FILE_OF(what)


with patched(inspect, getfile=_no_file_of_components):
    import gradio as gradio
