"""How much GPU memory a run or a model needs, what fits, why it did not, and what this machine has."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.blocks import Block

from studio.doctor.examine import examine_for_visitors
from studio.reports.pieces import note
from studio.services import Services
from studio.settings import Settings
from studio.translation import tr
from studio.ui.memory.estimate import build_estimate
from studio.ui.memory.fit import build_fit
from studio.ui.memory.form import PlanSection
from studio.ui.memory.oom import OomSection, build_oom
from studio.ui.memory.views import doctor_view
from studio.ui.shared.handover import Handover
from studio.ui.shared.i18n import _, request_locale
from studio.ui.shared.links import FIT, linked_values
from studio.ui.shared.transcript_views import download_links


def build_doctor(settings: Settings, tab: gr.Tab) -> None:
    """The section's content; it looks when it is opened, and again at a press of the button."""
    gr.Markdown(
        _("GPU, driver, libraries, memory, disk, audio, hub: what works here, and what to do about the rest.")
    )
    again = gr.Button(_("Check again"), size="sm", elem_id="doctor-again")
    report = gr.HTML(elem_id="doctor-report")
    links = gr.HTML(elem_id="doctor-links")

    def look(request: gr.Request) -> Iterator[list[Any]]:
        """That it looks, then what it found."""
        locale = request_locale(request)
        yield [note(tr("Looking at this machine: it takes some seconds …", locale)), ""]
        found = examine_for_visitors(settings)
        text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
        yield [doctor_view(found, locale), download_links({"json": text}, "whisper-doctor", locale)]

    gr.on(
        [tab.select, again.click],
        look,
        None,
        [report, links],
        api_visibility="private",
        show_progress="hidden",
        concurrency_limit=2,
    )


OOM = "oom"


@dataclass(frozen=True)
class MemoryTab:
    """What the page wires to its other parts."""

    estimate: PlanSection
    fit: PlanSection
    oom: OomSection
    sections: gr.Tabs
    refused: gr.HTML
    """Why the page's address fills nothing."""
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
        _("Will it fit? Choose a model and a use: the estimate is updated at each change."),
        elem_classes="lead",
    )
    refused = gr.HTML(elem_id="memory-refused")
    with gr.Tabs(elem_id="memory-sections") as sections:
        with gr.Tab(_("Estimate"), id="estimate") as section:
            estimate = build_estimate(services, tab, section)
        with gr.Tab(_("Fit for me"), id=FIT) as section:
            fit = build_fit(registry, services.settings.calibration, section)
        with gr.Tab(_("Why did I run out?"), id=OOM) as section:
            oom = build_oom(registry, section)
        with gr.Tab(_("Check this machine"), id="doctor") as section:
            build_doctor(services.settings, section)
    handovers = [estimate.handover, fit.handover, oom.handover]
    return MemoryTab(estimate, fit, oom, sections, refused, handovers)
