"""From the studio's errors to what the visitor sees: the only place where that happens."""

import functools
import html
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import gradio as gr

from studio.errors import StudioError
from studio.settings import Settings
from studio.translation import said, tr
from studio.ui.shared.access import without_places
from studio.ui.shared.i18n import request_locale


def shows_errors(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose `StudioError` becomes a message on the page (or the API's answer), translated.

    Works for functions, generators and asynchronous generators. The language is that of the handler's
    `gr.Request` argument. The first value of a generator's steps says what is under way: whatever error ends
    it, also one that is a bug, the page must not go on saying so.
    """
    if inspect.isasyncgenfunction(handler):

        @functools.wraps(handler)
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            """The handler's steps; an error among them in the visitor's language."""
            steps, step = handler(*args, **kwargs), None
            try:
                async for step in steps:
                    yield step
            except Exception as error:
                if step is not None:
                    yield _cleared(step)
                raise _message(error, args, kwargs) from error
            finally:
                # A visitor who leaves closes this one; what it stands for must end then, not some time later.
                await steps.aclose()

        return stream

    if inspect.isgeneratorfunction(handler):

        @functools.wraps(handler)
        def generator(*args: Any, **kwargs: Any) -> Iterator[Any]:
            step = None
            try:
                for step in handler(*args, **kwargs):
                    yield step
            except Exception as error:
                if step is not None:
                    yield _cleared(step)
                raise _message(error, args, kwargs) from error

        return generator

    @functools.wraps(handler)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return handler(*args, **kwargs)
        except StudioError as error:
            raise _message(error, args, kwargs) from error

    return function


def _cleared(step: Any) -> Any:
    """After a step like this one: nothing is under way; what else is on the page stays."""
    return ["", *[gr.skip()] * (len(step) - 1)] if isinstance(step, (list, tuple)) else ""


def _message(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
    if not isinstance(error, StudioError):
        return error
    request = next((value for value in (*args, *kwargs.values()) if isinstance(value, gr.Request)), None)
    locale = request_locale(request)
    text = said(error, locale)
    return gr.Error(
        html.escape(without_places(text) if Settings.from_env().is_public else text, quote=False),
        title=tr("This did not work", locale),
        print_exception=False,
    )
