"""How much GPU memory a run or a model needs, what fits, why it did not, and what this machine has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.services import Services
from studio.ui.handover import Handover
from studio.ui.i18n import _
from studio.ui.links import FIT, linked_values
from studio.ui.memory_doctor import build_doctor
from studio.ui.memory_estimate import EstimateSection, build_estimate
from studio.ui.memory_fit import FitSection, build_fit
from studio.ui.memory_oom import OomSection, build_oom

OOM = "oom"


@dataclass(frozen=True)
class MemoryTab:
    """What the page wires to its other parts."""

    estimate: EstimateSection
    fit: FitSection
    oom: OomSection
    sections: gr.Tabs
    handovers: Sequence[Handover]
    """Buttons that put a plan into the Train tab."""

    def linked(self) -> list[Block]:
        """What a link may fill."""
        return [self.sections, *self.estimate.form.values(), *self.fit.form.values()]

    def fill_from_link(self, query: Mapping[str, str]) -> list[Any]:
        """Values for `linked`: what the page's address names; the rest stays as it is.

        Raises:
            ConfigError: if the address has a value that cannot be.
        """
        section, values = linked_values(query)
        is_fit = section == FIT
        estimate = [gr.skip() if is_fit else values.get(name, gr.skip()) for name in self.estimate.form]
        fit = [values.get(name, gr.skip()) if is_fit else gr.skip() for name in self.fit.form]
        return [gr.Tabs(selected=FIT) if is_fit else gr.skip(), *estimate, *fit]


def build_memory_tab(services: Services, tab: gr.Tab) -> MemoryTab:
    """The tab's content: four sections."""
    registry = services.registry
    gr.Markdown(
        _("Will it fit? Choose a model and what you want to do with it: the answer follows every change."),
        elem_classes="lead",
    )
    with gr.Tabs(elem_id="memory-sections") as sections:
        with gr.Tab(_("Estimate"), id="estimate"):
            estimate = build_estimate(services, tab)
        with gr.Tab(_("Fit for me"), id=FIT) as section:
            fit = build_fit(registry, services.settings.calibration, section)
        with gr.Tab(_("Why did I run out?"), id=OOM) as section:
            oom = build_oom(registry, section)
        with gr.Tab(_("Check this machine"), id="doctor") as section:
            build_doctor(services.settings, section)
    return MemoryTab(estimate, fit, oom, sections, [estimate.handover, fit.handover, oom.handover])
