"""From the studio's errors to what the visitor sees: the only place where that happens.

On the page an error stands where what was asked for would have stood (`told_in`); programs get it as Gradio's
own error (`shows_errors`).
"""

import functools
import html
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.errors import StudioError
from studio.files import in_unicode
from studio.messages import Message
from studio.reports.markup import Html, join
from studio.reports.pieces import note
from studio.serving.refusals import BUG
from studio.settings import Settings
from studio.translation import N_, paragraph, said, tr
from studio.ui.shared.access import without_places
from studio.ui.shared.i18n import label_of, request_locale

FROM_BEFORE = N_("What is shown is from before.")


def shows_errors(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler for programs, whose `StudioError` becomes the answer, translated.

    The language is that of the handler's `gr.Request` argument.
    """

    @functools.wraps(handler)
    def function(*args: Any, **kwargs: Any) -> Any:
        """What the handler answers; an error of the studio's as Gradio's."""
        try:
            return handler(*args, **kwargs)
        except StudioError as error:
            raise as_gradios(error, _locale(args, kwargs)) from error

    return function


def as_gradios(error: Exception, locale: str) -> gr.Error:
    """What Gradio tells of an error: of the studio's its sentence, of any other that the log has it."""
    told = _public(error, locale) if isinstance(error, StudioError) else tr(BUG, locale)
    return gr.Error(
        html.escape(told, quote=False), title=tr("This did not work", locale), print_exception=False
    )


def told_in(
    place: Block,
    handler: Callable[..., Any],
    outputs: Sequence[Block] = (),
    form: Mapping[str, Block] | None = None,
) -> dict[str, Any]:
    """`fn` and `outputs` of an event whose errors stand in `place` until its next answer; everything else on
    the page stays as it is then.

    `place` may be one of the `outputs`. An option that is a field of `form` is called by its label. If the
    handler is given something as `before`, that stands below from an earlier time, which is said. Works for
    functions and asynchronous generators.
    """
    shown = [*outputs] if place in outputs else [*outputs, place]
    answers = _Answers(shown.index(place), len(shown), place not in outputs, fields_of(form or {}))
    wrap = answers.of_steps if inspect.isasyncgenfunction(handler) else answers.of_function
    return {"fn": wrap(handler), "outputs": shown}


@dataclass(frozen=True)
class Field:
    """A field of a form, as errors speak of it."""

    elem_id: str | None
    title: Message | str
    """Its label, and of one that is folded away where it is."""


Fields = Mapping[str, Field]
"""Name of an option → its field."""


def fields_of(form: Mapping[str, Block]) -> Fields:
    """The fields of a form; to be asked while the page is built: Gradio forgets later what is in what."""
    return {name: Field(field.elem_id, _title(field)) for name, field in form.items()}


def _title(field: Block) -> Message | str:
    around = field.parent
    while around is not None and not isinstance(around, gr.Accordion):
        around = around.parent
    if around is None:
        return label_of(field)
    return Message("{label} (under “{section}”)", label=label_of(field), section=label_of(around))


def refusal(error: StudioError, fields: Fields, locale: str) -> Html:
    """What is said of an error, with the title of the field that it is about if that is one of `fields`; the
    page then marks that field, too."""
    field = fields.get(str(error.values.get("name", "")))
    if field is None:
        return note(_public(error, locale), "bad")
    named = Message(error.template, **{**error.values, "name": field.title})
    return note(_public(named, locale), "bad", field.elem_id)


def remarks(notes: Sequence[Message], locale: str) -> Html:
    """Sentences about what was taken otherwise than it was given; nothing, if there are none."""
    return note(paragraph([_public(each, locale) for each in notes], locale)) if notes else Html()


@dataclass(frozen=True)
class _Answers:
    """What a handler answers, and its errors, as values of an event's outputs."""

    at: int
    """Which of the outputs errors stand in."""
    count: int
    """Of the outputs."""
    is_apart: bool
    """Whether errors have a place that the handler knows nothing of."""
    fields: Fields

    def of_function(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The handler, answering with its error instead of raising it."""

        @functools.wraps(handler)
        def function(*args: Any, **kwargs: Any) -> Any:
            """What the handler answers, or its error in its place."""
            try:
                return self._whole(handler(*args, **kwargs))
            except StudioError as error:
                return self._told(error, args, kwargs)

        return function

    def of_steps(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The same; what was under way is not, whatever error ends it, also one that is a bug."""

        @functools.wraps(handler)
        async def steps(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            """The handler's steps, or its error as the last of them."""
            begun = handler(*args, **kwargs)
            try:
                async for step in begun:
                    yield self._whole(step)
            except StudioError as error:
                yield self._told(error, args, kwargs)
            except Exception:
                yield self._only("")
                raise
            finally:
                # A visitor who leaves closes this one; what it stands for must end then, not some time later.
                await begun.aclose()

        return steps

    def _whole(self, answer: Any) -> Any:
        values = [*answer] if isinstance(answer, (list, tuple)) else [answer]
        own = self.count - self.is_apart
        return self._values([*values[:own], *([""] if self.is_apart else [])])

    def _told(self, error: StudioError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        locale = _locale(args, kwargs)
        stays = note(tr(FROM_BEFORE, locale), "warning") if kwargs.get("before") else None
        told = join([refusal(error, self.fields, locale), stays])
        return self._only(gr.update(value=told, visible=True))

    def _only(self, value: Any) -> Any:
        return self._values([value if index == self.at else gr.skip() for index in range(self.count)])

    def _values(self, values: list[Any]) -> Any:
        """As Gradio takes them: of one output not in a list."""
        return values if self.count > 1 else values[0]


def _locale(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = (*args, *kwargs.values())
    return request_locale(next((value for value in given if isinstance(value, gr.Request)), None))


def _public(message: Message, locale: str) -> str:
    """In the visitor's language, as it can be sent; on a Space nobody is told where something lies."""
    text = in_unicode(said(message, locale))
    return without_places(text) if Settings.from_env().on_spaces else text
