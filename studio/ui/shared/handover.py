"""A plan on its way from one tab to the form of the Train tab."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.options.training import FIELDS, TrainingConfig
from studio.ui.shared.following import QUIET
from studio.ui.shared.forms import shown_value
from studio.ui.shared.i18n import _

PLAN_OPTIONS = tuple(name for name, f in FIELDS.items() if f.metadata["in_plan"])
"""What a plan decides; the data and the rest of the form stay as the visitor has them."""


@dataclass(frozen=True)
class Handover:
    """A button, and what it would put into the form; nothing while there is no plan."""

    button: gr.Button
    options: gr.State

    def all(self) -> list[Block]:
        """What a handler that finds a plan writes to, in the order of `handed`."""
        return [self.button, self.options]


def handover(elem_id: str) -> Handover:
    """A button at this place of the page, and its plan."""
    button = gr.Button(_("Use in Train"), variant="primary", size="sm", interactive=False, elem_id=elem_id)
    return Handover(button, gr.State({}))


def handed(config: TrainingConfig | None, *, fits: bool = True) -> list[Any]:
    """Values for `Handover.all`; of a plan that does not fit, the button is not the one to press."""
    options = {name: getattr(config, name) for name in PLAN_OPTIONS} if config else {}
    return [
        gr.update(interactive=bool(options), variant="primary" if fits else "secondary"),
        options,
    ]


def wire_handovers(
    handovers: Sequence[Handover], form: Mapping[str, Block], tabs: gr.Tabs, train: str
) -> None:
    """Each button fills `form` and opens the tab named `train`."""

    def fill(options: dict[str, Any]) -> list[Any]:
        values = [shown_value(options[name]) if name in options else gr.skip() for name in form]
        return [gr.Tabs(selected=train), *values]

    for each in handovers:
        each.button.click(
            fill,
            each.options,
            [tabs, *form.values()],
            **QUIET,
        )
