"""transformers and PEFT, for threads that need them at the same moment, and no later than need be."""

import gc
import importlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

_LOCK = threading.RLock()
_USUAL = gc.get_threshold()
_SELDOM = 100_000
"""New objects until Python looks for cycles among them; usually 700."""


def collect_seldom() -> None:
    """For a process that is about to load libraries: until they are there, cycles are looked for seldom.

    The libraries make a million objects that all stay, and Python would go through them again and again: a
    fifth of the time that PEFT's import takes.
    """
    gc.set_threshold(_SELDOM)


def collect_as_usual() -> None:
    """After the imports: what they made is never looked through again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)


def transformers_library() -> Any:
    """The module `transformers`, imported by one thread while the others wait.

    At the end of its import, transformers puts another object in its place in `sys.modules`. A thread that
    says `import transformers` meanwhile waits for the end and then gets the first one, which has no classes.
    """
    with _loading("transformers"):
        importlib.import_module("transformers")
        _import_less()
        return sys.modules["transformers"]


@cache
def _import_less() -> None:
    """Patches transformers, which takes a twelfth of PEFT's import to read the source of its four hundred
    models twice, once by the folder and once by a file in it, and to import scipy for finding objects
    in pictures.
    """
    utils: Any = sys.modules["transformers.utils"]
    files = utils.import_utils
    known = files.create_import_structure_from_path

    def structure_of(place: Path | str) -> Any:
        return known(Path(place).parent if str(place).endswith(".py") else place)

    files.create_import_structure_from_path = structure_of
    utils.is_scipy_available = lambda: False


def peft_library() -> Any:
    """The module `peft`, and bitsandbytes where it is installed; call it before any of the two is imported.

    bitsandbytes, which PEFT imports, has `torch.compile` make functions for it, for which torch imports its
    compiler: two seconds of the processor and 40 MB. Here they are made when they are first called.
    """
    transformers_library()
    with _loading("peft"):
        if "bitsandbytes" not in sys.modules:
            # It says in one line that a kernel nobody needs here is not installed.
            logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
            with _compiled_when_called(), suppress(ImportError):  # without it, PEFT does without it
                importlib.import_module("bitsandbytes")
        return importlib.import_module("peft")


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """For one thread at a time; who comes later finds the module there."""
    with _LOCK:
        if name in sys.modules:
            yield
            return
        collect_seldom()
        try:
            yield
        finally:
            collect_as_usual()


@contextmanager
def _compiled_when_called() -> Iterator[None]:
    """Meanwhile `torch.compile` waits with each function until somebody calls it."""
    import torch

    compiler: Any = torch.compile

    def waiting(function: Callable[..., Any] | None = None, **how: Any) -> Callable[..., Any]:
        """Takes what `torch.compile` takes."""
        if function is None:
            return partial(waiting, **how)
        compiled = cache(partial(compiler, function, **how))
        return wraps(function)(lambda *given, **named: compiled()(*given, **named))

    with patched(torch, compile=waiting):
        yield


@contextmanager
def patched(library: Any, **values: Any) -> Iterator[None]:
    """Within it, these names of a module stand for something else."""
    before = {name: getattr(library, name) for name in values}
    vars(library).update(values)
    try:
        yield
    finally:
        vars(library).update(before)
