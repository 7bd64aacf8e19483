"""How much GPU memory a run or a model needs, what fits, why it did not, and what this machine has."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from studio.registry.store import ModelRegistry
from studio.settings import Settings
from studio.ui.handover import Handover
from studio.ui.i18n import _
from studio.ui.memory_doctor import build_doctor
from studio.ui.memory_estimate import EstimateSection, build_estimate
from studio.ui.memory_fit import build_fit
from studio.ui.memory_oom import build_oom


@dataclass(frozen=True)
class MemoryTab:
    """What the page wires to its other parts."""

    estimate: EstimateSection
    handovers: Sequence[Handover]
    """Buttons that put a plan into the Train tab."""


def build_memory_tab(settings: Settings, registry: ModelRegistry, tab: gr.Tab) -> MemoryTab:
    """The tab's content: four sections."""
    gr.Markdown(
        _("Will it fit? Choose a model and what you want to do with it: the answer follows every change."),
        elem_classes="lead",
    )
    with gr.Tabs(elem_id="memory-sections"):
        with gr.Tab(_("Estimate"), id="estimate"):
            estimate = build_estimate(registry, tab)
        with gr.Tab(_("Fit for me"), id="fit") as section:
            fit = build_fit(registry, section)
        with gr.Tab(_("Why did I run out?"), id="oom") as section:
            oom = build_oom(registry, section)
        with gr.Tab(_("Check this machine"), id="doctor") as section:
            build_doctor(settings, section)
    return MemoryTab(estimate, [estimate.handover, fit, oom])
