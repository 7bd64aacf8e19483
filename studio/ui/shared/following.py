"""How the page follows: events and settings of handlers that nobody has to press a button for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr
from gradio.blocks import Block
from gradio.events import Dependency

from studio.registry.spec import ModelKind
from studio.registry.store import DEMO_ID, ModelRegistry
from studio.reports.language_names import language_choices
from studio.translation import tr
from studio.ui.shared.errors import told_in
from studio.ui.shared.i18n import request_locale
from studio.ui.shared.tasks import Stops
from studio.ui.shared.views import model_choices
from studio.ui.shared.visitors import models_for

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "concurrency_limit": None}
"""For listeners whose visitors do not wait for one another."""
LATEST: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
"""For choices: one that is made while the one before is answered counts. Gradio would forget it."""
EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple"}
"""For what each click tells anew: all are answered, in the order in which they came (`quick_hands.js`)."""
AT_ONCE: dict[str, Any] = {**QUIET, "queue": False}
"""For answers that take milliseconds: a place in the queue would take longer."""
_TOGETHER_MILLISECONDS = 50
"""Changes of a form that come so soon after one another are one."""
UNCHECKED: dict[str, Any] = {"preprocess": False}
"""For choices that come and go: Gradio refuses, in words of its own, what was not in the list that it gave
this visitor last, or lost when it forgot them. The studio knows what there is."""


def changes_of(form: Mapping[str, Block]) -> list[Any]:
    """The events of a form: one of its values is another now."""
    return [component.change for component in form.values()]  # type: ignore[attr-defined]


LAST_OF_MANY = (
    "() => new Promise((go, stop) => { const mine = window.burst = (window.burst || 0) + 1; "
    f"setTimeout(() => mine === window.burst ? go() : stop(), {_TOGETHER_MILLISECONDS}); }})"
)
"""In the browser: succeeds for the last of the events that come together, and fails for the others."""


def follow_form(
    form: Mapping[str, Block],
    show: Callable[..., Any],
    outputs: Sequence[Block] | None,
    *events: Any,
    inputs: Mapping[str, Block] | None = None,
    is_filled: bool = False,
    **how: Any,
) -> Dependency:
    """`show` answers at each change of the form and at `events`; of those that come meanwhile, to the last.

    The one form of a page that `is_filled` by others is answered once where many of its values change.

    It is given the form's values by name, and those of `inputs`; `how` is `QUIET` or `AT_ONCE`, and more.
    """
    changes = [*events, *changes_of(form)]
    begin = (
        gr.on(changes, None, None, None, js=LAST_OF_MANY, **QUIET).success
        if is_filled
        else partial(gr.on, changes)
    )
    answered: Dependency = begin(
        show,
        inputs_kwargs={**(inputs or {}), **form},
        outputs=outputs,
        trigger_mode="always_last",
        **how,
    )
    return answered


def opened(tab: gr.Tab) -> list[Any]:
    """The events after which the content of `tab` is in sight: it is opened, or a tab that it is part of.

    A section that was open when its tab was left gets no event of its own when the visitor comes back.
    """
    around = tab.parent.parent if tab.parent else None
    return [tab.select, around.select] if isinstance(around, gr.Tab) else [tab.select]


def wire_work(
    starts: Sequence[Any], cancel: gr.Button, stops: Stops, status: Block | None = None, **work: Any
) -> Dependency:
    """The events `starts` begin what `work` says, as an event takes it; `cancel`, which can be pressed until
    that has ended, asks it to stop, and it then says so. Where nothing is at work, nothing may stand in
    `status` as if.
    """

    def stop(request: gr.Request) -> Any:
        """Asks the visitor's work to stop."""
        was_at_work = stops.cancel(str(request.session_hash))
        return None if status is None else gr.skip() if was_at_work else ""

    def offer(event: Callable[..., Any], is_offered: str) -> None:
        """In the browser: the visitor may press before a server has answered."""
        update = f"() => ({{__type__: 'update', interactive: {is_offered}}})"
        event(None, None, cancel, js=update, **QUIET)

    cancel.interactive = False
    offer(partial(gr.on, [*starts]), "true")  # first: the browser asks one after the other, each to its end
    begun: Dependency = gr.on([*starts], **work)
    offer(begun.then, "false")
    cancel.click(stop, None, status, **QUIET)
    return begun


def follow_models(
    registry: ModelRegistry, tab: gr.Tab, field: Block, first: tuple[str, str] | None = None
) -> None:
    """The choices of `field` are the models that there are when it comes in sight; text and value `first`
    stand before them.
    """

    def refresh(request: gr.Request) -> Any:
        """The models that there are for who asks."""
        locale = request_locale(request)
        before = [(tr(first[0], locale), first[1])] if first else []
        return gr.update(choices=[*before, *model_choices(models_for(registry, request), locale)])

    gr.on(opened(tab), refresh, None, field, **QUIET)


def offered(choices: Sequence[tuple[Any, Any]], value: Any, chosen: Any, **more: Any) -> Any:
    """An update of a list in which `chosen` stood, and `value` is to.

    A value that stays is not sent: it would undo what was chosen before this arrived.
    """
    return gr.update(choices=list(choices), **({} if value == chosen else {"value": value}), **more)


def compared_models(registry: ModelRegistry, chosen: list[str] | None, request: gr.Request) -> Any:
    """An update of a list of models to compare: those chosen stay so as far as they are left; at first the
    demo model and the newest adapter of it.
    """
    locale = request_locale(request)
    specs = [spec for spec in models_for(registry, request) if not spec.problem]
    now = [registry.called_now(model) for model in chosen or []]
    kept = [model for model in now if registry.has(model)]
    if not kept and any(spec.id == DEMO_ID for spec in specs):
        adapters = [s.id for s in specs if s.kind is ModelKind.ADAPTER and s.base_model == DEMO_ID]
        kept = [DEMO_ID, *adapters[:1]]
    return offered(model_choices(specs, locale), kept, chosen)


def copyable(label: Any, elem_id: str, lines: int = 1) -> gr.Textbox:
    """A box whose text is made here and taken elsewhere; it grows from `lines` to eight, if those are fewer.

    One that is filled while the page still opens does not grow by itself: it needs the lines it will have.
    """
    return gr.Textbox(
        label=label,
        buttons=["copy"],
        interactive=False,
        lines=lines,
        max_lines=max(8, lines),
        elem_id=elem_id,
    )


@dataclass(frozen=True)
class Held:
    """What the server holds of a section's results for a visitor, and how the page shows them."""

    state: gr.State
    outputs: Sequence[Block]
    show: Callable[..., list[Any]]
    """Values of the outputs, for what is held, a locale, and the values of `others`."""
    others: Sequence[Block] = ()
    refused: Block | None = None
    """Where an error stands; one of a field of `form` calls it by its label."""
    form: Mapping[str, Block] | None = None

    def wire_again(self, event: Callable[..., Any]) -> None:
        """After `event`, the results are shown once more, if there are any."""

        def show_again(held: Any, request: gr.Request, *others: Any) -> list[Any]:
            """The results that the session holds, in the visitor's language."""
            if held is None:
                return [gr.skip()] * len(self.outputs)
            return self.show(held, request_locale(request), *others)

        told: dict[str, Any] = {"fn": show_again, "outputs": [*self.outputs]}
        if self.refused is not None:
            told = told_in(self.refused, show_again, self.outputs, self.form)
        event(**told, inputs=[self.state, *self.others], **QUIET)


def follow_languages(language: Block, *events: Any) -> None:
    """The choices of a field are in the visitor's language once one of the events came."""

    def name(request: gr.Request) -> Any:
        """The languages, in the visitor's."""
        return gr.Dropdown(choices=language_choices(request_locale(request)))

    gr.on(list(events), name, None, language, **QUIET)
