"""Arguments of the interface for programs, as many and of the kinds that its functions are written for.

Programs send any JSON. What is of another kind is refused with a sentence, before a function meets it.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from types import UnionType
from typing import Any, get_args, get_origin

import gradio as gr
from gradio.block_function import BlockFunction

from studio.errors import StudioError
from studio.options.values import of_kind
from studio.serving.asgi import locale_of
from studio.ui.shared.errors import as_gradios

_OTHER_KIND = (
    "A value is of a kind that is not taken here: give texts, numbers, true or false, as the schema says."
)
log = logging.getLogger(__name__)


class AppForPrograms(gr.Blocks):
    """An app whose named functions take fewer values than they have arguments: the last ones are null then.

    Gradio would answer `null` for an error to too few of them, and leave out what is too much without a word.
    """

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], *others: Any, **named: Any
    ) -> list[Any]:
        """The values as the function takes them."""
        if block_fn.api_visibility == "public":
            count = len(block_fn.inputs)
            if len(inputs) > count:
                raise gr.Error(
                    f"/{block_fn.api_name} takes at most {count} values, and {len(inputs)} were given: leave "
                    f"out the last {len(inputs) - count}.",
                    print_exception=False,
                )
            inputs = [*inputs, *[None] * (count - len(inputs))]
        try:
            taken: list[Any] = await super().preprocess_data(block_fn, inputs, *others, **named)
        except (gr.Error, StudioError):
            raise
        except Exception as error:
            # Whatever a component makes of what its page never sends: Gradio would answer `null`.
            log.warning("/%s was sent what no field sends: %s", block_fn.api_name, type(error).__name__)
            raise gr.Error(_OTHER_KIND, print_exception=False) from error
        return taken

    async def process_api(self, *values: Any, **named: Any) -> dict[str, Any]:
        """What Gradio does with a question; an error that is none of ours has a sentence, too."""
        try:
            return await super().process_api(*values, **named)
        except gr.Error:
            raise
        except Exception as error:
            if not isinstance(error, StudioError):
                log.exception("A question could not be answered")
            raise as_gradios(error, locale_of(getattr(named.get("request"), "headers", {}))) from error


def endpoints_of(owner: object) -> tuple[Callable[..., Any], ...]:
    """Its public methods, each an endpoint under its own name."""
    return tuple(getattr(owner, name) for name in vars(type(owner)) if not name.startswith("_"))


def checked(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments brought to the kinds of its annotations; null stands for the default.

    It raises ConfigError for an argument that is of another kind.
    """
    signature = inspect.signature(endpoint)

    @functools.wraps(endpoint)
    def answered(*args: Any, **kwargs: Any) -> Any:
        """What the function answers to arguments of its kinds."""
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            parameter = signature.parameters[name]
            if value is None and parameter.default is not inspect.Parameter.empty:
                given.arguments[name] = parameter.default
            else:
                given.arguments[name] = of_kind(_plain_kind(parameter.annotation), name, value)
        return endpoint(*given.args, **given.kwargs)

    return answered


def asks(question: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the values of a dataclass the arguments of an endpoint, which is given the dataclass."""
    asked = inspect.signature(question).parameters

    def made(endpoint: Callable[..., Any]) -> Callable[..., Any]:
        """The endpoint with the values of the dataclass as its arguments."""

        @functools.wraps(endpoint)
        def answered(self: Any, *args: Any, **kwargs: Any) -> Any:
            return endpoint(self, question(*args, **kwargs))

        plain = inspect.signature(endpoint)
        own = next(iter(plain.parameters.values()))
        answered.__signature__ = plain.replace(parameters=[own, *asked.values()])  # type: ignore[attr-defined]
        kinds = {name: parameter.annotation for name, parameter in asked.items()}
        answered.__annotations__ = {**kinds, "return": endpoint.__annotations__["return"]}
        return answered

    return made


def _plain_kind(annotation: Any) -> Any:
    """`dict` of `dict[str, Any] | None`."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kind = next(kind for kind in kinds if kind is not type(None))
    return get_origin(kind) or kind
