"""A form that becomes a run, and the run as it goes: progress, curves, samples, log, history."""

from dataclasses import dataclass

import gradio as gr
from gradio.blocks import Block

from studio.services import Services
from studio.ui.shared.access import why_training_is_off
from studio.ui.shared.i18n import _
from studio.ui.train.data_doctor import build_data_doctor
from studio.ui.train.form import build_form_files, build_train_form, wire_train_form
from studio.ui.train.record_sentences import build_recording_section
from studio.ui.train.run_comparison import build_run_comparison
from studio.ui.train.run_panel import RunPanel, build_run_panel
from studio.ui.train.runs import build_removal, wire_actions, wire_panel, wire_starts


def build_distill_section(*, is_off: bool) -> gr.Button:
    """A folded section; its button starts a run of the form's base model on the form's audio."""
    with gr.Accordion(_("Faster on short clips, without texts"), open=False, elem_id="distill"):
        gr.Markdown(
            _(
                "Whisper reads every clip filled up to 30 seconds. Here the base learns from itself to read "
                "clips as long as they are, several times faster; all it needs is audio like yours: a "
                "folder of sound files, a list of them or a manifest, as Training data above. The clips need "
                "no texts. The result is an adapter; what it gains and how far it is from the base is "
                "measured at the end, on clips that were kept back."
            )
        )
        gr.Markdown(
            _(
                "What to watch: it learns the base's mistakes, too, and it is best on clips as long as those "
                "it has learned from. A few hundred clips are enough to begin with."
            ),
            elem_classes="subdued",
        )
        return gr.Button(_("Distil for short audio"), interactive=not is_off, elem_id="distill-start")


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
