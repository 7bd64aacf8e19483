"""A plan on its way from one tab to the form of the Train tab."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gradio as gr
from gradio.blocks import Block

from studio.messages import Joined, Message
from studio.options.training import FIELDS, TrainingConfig
from studio.reports.markup import Html, tag
from studio.reports.pieces import note
from studio.translation import said, tr
from studio.ui.shared.following import QUIET
from studio.ui.shared.forms import shown_value
from studio.ui.shared.i18n import _, request_locale

PLAN_OPTIONS = tuple(name for name, f in FIELDS.items() if f.metadata["in_plan"])
"""What a plan decides; the data and the rest of the form stay as the visitor has them."""


class Handover(NamedTuple):
    """A button, and what it would put into the form; nothing while there is no plan. A handler that finds one
    writes to both."""

    button: gr.Button
    options: gr.State


def handover(elem_id: str) -> Handover:
    """A button at this place of the page, and its plan."""
    button = gr.Button(_("Use in Train"), variant="primary", size="sm", interactive=False, elem_id=elem_id)
    return Handover(button, gr.State({}))


def handed(config: TrainingConfig | None, *, fits: bool = True) -> list[Any]:
    """Values for a `Handover`; of a plan that does not fit, the button is not the one to press."""
    options = {name: getattr(config, name) for name in PLAN_OPTIONS} if config else {}
    return [gr.update(interactive=bool(options), variant="primary" if fits else "secondary"), options]


def wire_handovers(
    handovers: Sequence[Handover], form: Mapping[str, Block], told: gr.HTML, tabs: gr.Tabs, train: str
) -> None:
    """Each button fills `form`, says in `told` what it has filled in, and opens the tab named `train`."""

    def fill(request: gr.Request, options: dict[str, Any], **values: Any) -> list[Any]:
        """The form with the plan's options, and which of them are new."""
        planned = {name: shown_value(value) for name, value in options.items() if name in form}
        changed = [name for name in planned if planned[name] != shown_value(values[name])]
        filled = [planned[name] if name in changed else gr.skip() for name in form]
        return [gr.Tabs(selected=train), filled_note(changed, request_locale(request)), *filled]

    for each in handovers:
        inputs = {"options": each.options, **form}
        each.button.click(fill, inputs_kwargs=inputs, outputs=[tabs, told, *form.values()], **QUIET)


def filled_note(changed: Sequence[str], locale: str) -> Html:
    """Which options of the form came from a plan; they are marked as long as the note stands."""
    if not changed:
        return note(tr("The form already has the settings of the plan.", locale))
    labels = Joined(tuple(Message(FIELDS[name].metadata["label"]) for name in changed))
    told = said(Message("Filled in from the plan: {names}", names=labels), locale)
    fields = ", ".join(f"#train-{name}" for name in changed)
    mark = tag("style", f":is({fields}) {{ border-left: 3px solid var(--good) !important }}")
    return tag("div", note(told, "good"), mark)
