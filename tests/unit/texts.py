"""Finds every text that the page may show, by reading the source."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from studio import errors
from studio.actions import fit
from studio.options.dialects import UNUSED
from studio.options.training import FIELDS, GROUPS
from studio.publishing.formats import FORMS
from studio.registry.catalog import RELEASED
from studio.transcription import engine

STUDIO = Path(errors.__file__).parent
MARKERS = {"_", "N_", "tr"}
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}


def page_texts() -> set[str]:
    """Texts marked in the code of page and reports, every `Message`, the help of every training option and
    what is said of released models."""
    shown = [STUDIO / "translation.py", *(STUDIO / "reports").rglob("*.py"), *(STUDIO / "ui").rglob("*.py")]
    shown += (STUDIO / "serving").rglob("*.py")
    marked = {text for path in shown for text in _first_arguments(path, MARKERS)}
    marked |= {text for path in STUDIO.rglob("*.py") for text in _first_arguments(path, {"Message"})}
    forms = {form.label for form in FORMS}
    return marked | option_texts() | forms | {model.note for model in RELEASED}


def option_texts() -> set[str]:
    """What forms show of the options of runs and transcriptions, and what is said of flags that are none."""
    # The page has no field for an option without a label.
    schemas = (FIELDS, fit.FIELDS, engine.FIELDS)
    shown = [f.metadata for schema in schemas for f in schema.values() if f.metadata["label"]]
    named = {each[text] for each in shown for text in ("label", "help", "automatic")} - {""}
    named |= {flag.reason for flag in UNUSED.values()}
    return named | set(GROUPS.values()) | {words for each in shown for words in _labels(each)}


def _labels(metadata: Mapping[str, Any]) -> set[str]:
    """Of its choices; what is called as it is spelt, such as fp16, is the same in every language."""
    return {label for value, label in metadata["choices"].items() if label != value}


def error_texts() -> set[str]:
    """Templates of every error, and of every problem of a row of data."""
    paths = [path for path in STUDIO.rglob("*.py") if "cli" not in path.parts]
    found = {text for path in paths for text in _first_arguments(path, ERRORS)}
    return found | {text for path in paths for text in _row_problems(path)}


@cache
def _calls(path: Path) -> list[tuple[str, ast.Call]]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [(ast.unparse(node.func), node) for node in nodes if isinstance(node, ast.Call)]


def _first_arguments(path: Path, names: set[str]) -> Iterator[str]:
    for name, call in _calls(path):
        if name.split(".")[-1] in names and call.args:
            yield from _texts(call.args[0])


def _row_problems(path: Path) -> Iterator[str]:
    for name, call in _calls(path):
        if name in ("RowProblem.of", "self._warn") and len(call.args) > 2:
            yield from _texts(call.args[2])
    if path.parent.name == "dataset":
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "template":
                yield from _texts(node.value)


def _texts(node: ast.expr) -> Iterator[str]:
    """A literal, or both sides of a choice between two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
