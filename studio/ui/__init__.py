"""The page. Gradio is imported only here, and first of all by this file."""

import inspect
from typing import Any

_file_of = inspect.getfile


def _no_file_of_a_component(what: Any) -> str:
    """At its import, Gradio parses the source of each of its components, a third of its time, to
    write an interface for editors; it passes over what has no file."""
    if type(what).__name__ == "ComponentMeta":
        raise OSError
    return _file_of(what)


inspect.getfile = _no_file_of_a_component
try:
    import gradio as gradio
finally:
    inspect.getfile = _file_of
