"""A form that becomes a run, and the run as it goes: progress, curves, samples, log, history."""

from dataclasses import dataclass

import gradio as gr
from gradio.blocks import Block

from studio.services import Services
from studio.ui.access import why_training_is_off
from studio.ui.data_doctor import build_data_doctor
from studio.ui.distill_section import build_distill_section
from studio.ui.i18n import _
from studio.ui.record_sentences import build_recording_section
from studio.ui.run_comparison import build_run_comparison
from studio.ui.run_panel import RunPanel, build_run_panel
from studio.ui.train_form import build_form_files, build_train_form, wire_train_form
from studio.ui.train_runs import build_removal, wire_actions, wire_panel, wire_starts

_POLL_SECONDS = 1.5


@dataclass(frozen=True)
class TrainTab:
    """What the page wires to its other parts."""

    form: dict[str, Block]
    panel: RunPanel


def build_train_tab(services: Services, tab: gr.Tab) -> TrainTab:
    """The tab's content; returns what other parts of the page fill and listen to.

    Runs live in their folders, so page and handlers hold nothing of them.
    """
    settings, registry, jobs = services.settings, services.registry, services.jobs
    reason = why_training_is_off(settings)
    gr.Markdown(
        _(
            "Fine-tune Whisper on your own speech. As it stands, the form trains the small demo model on the "
            "demo speech: press Start and watch its word errors fall, within a minute on an ordinary "
            "computer."
        ),
        elem_classes="lead",
    )
    if reason:
        gr.Markdown(_(reason), elem_classes="note note-warning")
    with gr.Row():
        with gr.Column(scale=2, min_width=300):
            made = build_train_form(settings, is_off=bool(reason))
            disk = gr.HTML(elem_id="train-disk")
            distill = build_distill_section(is_off=bool(reason))
            build_data_doctor(services, made.fields)
            if not reason:
                build_recording_section(settings, tab, made.fields)
            files = build_form_files()
        with gr.Column(scale=3, min_width=320):
            panel = build_run_panel()
            build_run_comparison(jobs, tab)
            prune, remove = build_removal("prune"), build_removal("remove")
    timer = gr.Timer(_POLL_SECONDS)
    wire_train_form(settings, registry, tab, made, files, disk)
    wire_panel(jobs, tab, timer, made.fields, panel)
    wire_starts(services, made.fields, panel, begin=made.start, distill=distill)
    wire_actions(settings, jobs, panel, prune, remove)
    return TrainTab(made.fields, panel)
